"""Reads configs of BERT and of encoders with its layers, of JinaBERT, and of DeBERTa-v2 and -v3.

Does not import torch. JinaBERT (jina-embeddings-v2) has ALiBi in place of a position table, and a
gate (Günther et al. 2023, "Jina Embeddings 2", section 3). The attention of DeBERTa compares
contents with distances (He et al. 2021, "DeBERTa"; transformers, models/deberta_v2).
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from model.checkpoints.families.encoder_family import Family, Options, Reader, text_encoder
from model.config import Activation, TextEncoderConfig

# Options that change the computation, with the implemented values. The first value is the default.
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}

NO_FIELDS: Mapping[str, Any] = MappingProxyType({})
PROJECTIONS = "query", "key", "value"

ATTENTION = {
    **{f"mixer.{name}": f"attention.self.{name}" for name in PROJECTIONS},
    "mixer.out": "attention.output.dense",
    "mixer_residual.norm": "attention.output.LayerNorm",
}
MPNET_ATTENTION = {
    **{f"mixer.{name}": f"attention.attn.{name[0]}" for name in PROJECTIONS},
    "mixer.out": "attention.attn.o",
    "mixer_residual.norm": "attention.LayerNorm",
}
TABLES = {
    "embedding.norm": "embeddings.LayerNorm",
    "embedding.tokens": "embeddings.word_embeddings.weight",
    "embedding.positions": "embeddings.position_embeddings.weight",
    "embedding.types": "embeddings.token_type_embeddings.weight",
    "relative_bias.weight": "encoder.relative_attention_bias.weight",
}
FEED_FORWARD = {
    "feed_forward.fc1": "intermediate.dense",
    "feed_forward.fc2": "output.dense",
    "feed_forward_residual.norm": "output.LayerNorm",
}

DISTIL_NAMES = {
    **{f"mixer.{name}": f"attention.{name[0]}_lin" for name in PROJECTIONS},
    "mixer.out": "attention.out_lin",
    "mixer_residual.norm": "sa_layer_norm",
    "feed_forward.fc1": "ffn.lin1",
    "feed_forward.fc2": "ffn.lin2",
    "feed_forward_residual.norm": "output_layer_norm",
}
DISTIL_OPTIONS = {
    "dim": "hidden_size",
    "hidden_dim": "intermediate_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "activation": "hidden_act",
}
JINA_NAMES = ATTENTION | {
    "feed_forward.fc1": "mlp.gated_layers[0/2]",
    "feed_forward.gate": "mlp.gated_layers[1/2]",
    "feed_forward.fc2": "mlp.wo",
    "feed_forward_residual.norm": "mlp.layernorm",
}

IGNORED = re.compile(
    r"(^|\.)embeddings\.(position_ids|token_type_ids)$|^pooler\.|^cls\.|^lm_head\.|^vocab_"
)
"""Constants, the pooler on the first token's vector, and heads that predict masked words."""


def bert_names(layer: Mapping[str, str], place: str = "encoder.layer") -> dict[str, str]:
    """Returns a name table, given that of a layer, and the place of the layers in the file."""
    rows = {f"layers.{{i}}.{ours}": f"{place}.{{i}}.{theirs}" for ours, theirs in layer.items()}
    return TABLES | rows


def read_bert(
    options: Options,
    sizes: tuple[int, int] = (512, 30522),
    token_types: int = 0,
    attention: Mapping[str, Any] = NO_FIELDS,
    layer: Mapping[str, Any] = NO_FIELDS,
    **tables: Any,
) -> TextEncoderConfig:
    """Returns the config of an encoder.

    `sizes` are defaults of positions and vocabulary. `token_types` is a default; 0 means no token
    types. `attention`, `layer` and `tables` have fields that differ from BERT's.
    """
    options.check(SUPPORTED)
    activation = options.activation("hidden_act", "gelu")
    usual = {"activation": activation, "norm": options.norm("layer_norm_eps", 1e-12)}
    found = options.sizes(3072, 12, *sizes)
    if token_types:
        token_types = options.integer("type_vocab_size", token_types)
    return text_encoder(
        options, found, attention, {**usual, **layer}, token_types=token_types, **tables
    )


def read_roberta(options: Options, sizes: tuple[int, int] = (512, 30522)) -> TextEncoderConfig:
    pad_id = options.get("pad_token_id", 1)
    if type(pad_id) is not int or pad_id < 0:
        options.reasons.append(f"pad_token_id is {pad_id!r}, it must be an id")
        pad_id = 0
    return read_bert(options, sizes, token_types=2, position_offset=pad_id + 1)


def read_mpnet(options: Options) -> TextEncoderConfig:
    options.check({"relative_attention_num_buckets": (32,)})
    return read_bert(options, (512, 30527), attention={"buckets": 32}, position_offset=2)


def read_distilbert(options: Options) -> TextEncoderConfig:
    known = options.renamed(DISTIL_OPTIONS)
    return read_bert(known.changed(num_hidden_layers=known.get("num_hidden_layers", 6)))


def read_jina_bert(options: Options) -> TextEncoderConfig:
    activations = {"geglu": Activation.GELU, "reglu": Activation.RELU}
    given = str(options.get("feed_forward_type", "original"))
    if given not in activations:
        known = ", ".join(activations)
        options.reasons.append(f"feed_forward_type is {given!r}, supported: {known}")
    activation = activations.get(given)
    layer = {"activation": activation, "has_gate": True, "ffn_biases": (False, True)}
    plain = options.changed(position_embedding_type=None)
    return read_bert(
        plain, token_types=2, attention={"has_alibi": True}, layer=layer, has_positions=False
    )


# The options of DeBERTa-v3, with the default that a missing option has.
DEBERTA_DEFAULTS = {
    "relative_attention": False,
    "share_att_key": False,
    "norm_rel_ebd": "none",
    "position_biased_input": True,
    "pos_att_type": None,
    "layer_norm_eps": 1e-7,
}
DEBERTA_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "relative_attention": (True,),
    "share_att_key": (True,),
    "norm_rel_ebd": ("layer_norm",),
    "position_biased_input": (False,),
    "pos_att_type": ("c2p|p2c", "p2c|c2p", ["c2p", "p2c"], ["p2c", "c2p"]),
    "type_vocab_size": (0,),
    "conv_kernel_size": (0, None),
    "embedding_size": (None,),
    "attention_head_size": (None,),
}
DEBERTA_PROJECTIONS = {f"mixer.{name}": f"attention.self.{name}_proj" for name in PROJECTIONS}
DEBERTA_NAMES = bert_names(ATTENTION | DEBERTA_PROJECTIONS | FEED_FORWARD) | {
    "relative_vectors.weight": "encoder.rel_embeddings.weight",
    "relative_vectors.norm": "encoder.LayerNorm",
}
DEBERTA_IGNORED = re.compile(r"^embeddings\.position_|^pooler\.|^cls\.|^(lm|mask)_predictions\.")


def read_deberta(options: Options) -> TextEncoderConfig:
    options = replace(options, values={**DEBERTA_DEFAULTS, **options.values})
    options.check(DEBERTA_SUPPORTED)
    half = options.integer("position_buckets", 0)
    is_given = options.get("max_relative_positions", -1) != -1
    source = "max_relative_positions" if is_given else "max_position_embeddings"
    largest = options.integer(source, 512)
    most = 2 * (largest - 2)
    if half % 2 or half > most:
        limit = f"at most {most} with {source} {largest}"
        options.reasons.append(f"position_buckets is {half}, it must be even and {limit}")
    distances = {"buckets": 2 * half, "max_distance": largest, "is_disentangled": True}
    config = read_bert(options, attention=distances, has_positions=False)
    scale = (3 * config.attention.head_dim) ** -0.5  # of three products
    block = replace(config.blocks[0], mixer=replace(config.attention, scale=scale))
    return replace(config, blocks=(block,) * config.layers)


JINA = "bert with alibi"
"""Stands for the `model_type` of JinaBERT, whose files have that of BERT."""

BERT_NAMES = bert_names(ATTENTION | FEED_FORWARD)


def _family(name: str, prefix: str, read: Reader, names: Mapping[str, str] = BERT_NAMES) -> Family:
    embedders = f"{name}Model", f"{name}ForMaskedLM", f"{name}ForPreTraining"
    return Family(embedders, prefix, names, read, IGNORED)


DEBERTA = "DebertaV2Model", "DebertaV2ForMaskedLM"
FAMILIES = {
    "bert": _family("Bert", "bert.", partial(read_bert, token_types=2)),
    "roberta": _family("Roberta", "roberta.", partial(read_roberta, sizes=(512, 50265))),
    "xlm-roberta": _family("XLMRoberta", "roberta.", read_roberta),
    "camembert": _family("Camembert", "roberta.", read_roberta),
    "mpnet": _family("MPNet", "mpnet.", read_mpnet, bert_names(MPNET_ATTENTION | FEED_FORWARD)),
    "distilbert": _family(
        "DistilBert", "distilbert.", read_distilbert, bert_names(DISTIL_NAMES, "transformer.layer")
    ),
    JINA: _family("JinaBert", "bert.", read_jina_bert, bert_names(JINA_NAMES)),
    "deberta-v2": Family(DEBERTA, "deberta.", DEBERTA_NAMES, read_deberta, DEBERTA_IGNORED),
}
