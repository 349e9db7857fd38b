"""Reads configs of BERT, RoBERTa, XLM-RoBERTa, CamemBERT, MPNet, DistilBERT and JinaBERT.

Does not import torch. JinaBERT (jina-embeddings-v2) has ALiBi in place of a position table, and a
gate (Günther et al. 2023, "Jina Embeddings 2", section 3).
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from model.checkpoints.families.encoder_family import (
    Family,
    Options,
    hugging_face_sizes,
    read_activation,
    read_number,
    read_sizes,
    text_encoder,
)
from model.checkpoints.formats.files import positive_integer, unsupported
from model.config import Activation, NormSpec, TextEncoderConfig
from model.errors import UnsupportedModelError

# Options that change the computation, with the implemented values. The first value is the default.
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "quantization_config": (None,),
}

ATTENTION = {
    **{f"mixer.{name}": f"attention.self.{name}" for name in ("query", "key", "value")},
    "mixer.out": "attention.output.dense",
    "mixer_residual.norm": "attention.output.LayerNorm",
}
MPNET_ATTENTION = {
    **{f"mixer.{name}": f"attention.attn.{name[0]}" for name in ("query", "key", "value")},
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
    **{f"mixer.{name}": f"attention.{name[0]}_lin" for name in ("query", "key", "value")},
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
    "feed_forward.fc2": "mlp.wo",
    "feed_forward_residual.norm": "mlp.layernorm",
}
GATED = "encoder.layer.{i}.mlp.gated_layers"
JINA_GATE = {
    "layers.{i}.feed_forward.fc1": f"{GATED}[0/2]",
    "layers.{i}.feed_forward.gate": f"{GATED}[1/2]",
}

IGNORED = re.compile(
    r"(^|\.)embeddings\.(position_ids|token_type_ids)$|^pooler\.|^cls\.|^lm_head\.|^vocab_"
)
"""Constants, the pooler on the first token's vector, and heads that predict masked words."""


def bert_names(layer: Mapping[str, str], place: str = "encoder.layer") -> dict[str, str]:
    rows = {f"layers.{{i}}.{ours}": f"{place}.{{i}}.{theirs}" for ours, theirs in layer.items()}
    return TABLES | rows


def read_bert(
    options: Options,
    name: str,
    pad_id: int | None = None,
    token_types: int = 0,
    relative_buckets: int = 0,
    sizes: tuple[int, int] = (512, 30522),
) -> TextEncoderConfig:
    """Returns the config of an encoder; `sizes` are defaults of positions and vocabulary.

    Positions begin after `pad_id`, or at 0 if it is None (BERT). In RoBERTa, XLM-RoBERTa and
    CamemBERT, an option can replace `pad_id`. `token_types` is a default; 0 means no token types.
    """
    reasons = unsupported(options, SUPPORTED)
    activation = read_activation(options, "hidden_act", "gelu", reasons)
    norm = NormSpec(read_number(options, "layer_norm_eps", 1e-12, reasons, limit=1))
    found = read_sizes(options, reasons, hugging_face_sizes(3072, 12, *sizes))
    if token_types:
        token_types = positive_integer(options, "type_vocab_size", token_types, reasons)
    if relative_buckets:
        fixed = {"relative_attention_num_buckets": (relative_buckets,)}
        reasons += unsupported(options, fixed)
    offset = 0
    if pad_id is not None and not reasons:
        pad_id = pad_id if relative_buckets else options.get("pad_token_id", 1)
        if isinstance(pad_id, bool) or not isinstance(pad_id, int) or pad_id < 0:
            reasons.append(f"pad_token_id is {pad_id!r}, it must be an id")
        else:
            offset = pad_id + 1

    attention, layer = {"buckets": relative_buckets}, {"activation": activation, "norm": norm}
    tables = {"position_offset": offset, "token_types": token_types}
    return text_encoder(name, reasons, found, attention, layer, **tables)


def read_distilbert(options: Options, name: str) -> TextEncoderConfig:
    known = {DISTIL_OPTIONS.get(option, option): value for option, value in options.items()}
    return read_bert({"num_hidden_layers": 6, **known}, name)


def read_jina_bert(options: Options, name: str) -> TextEncoderConfig:
    activations = {"geglu": Activation.GELU, "reglu": Activation.RELU}
    given = str(options.get("feed_forward_type", "original"))
    if given not in activations:
        reason = f"feed_forward_type is {given!r}, supported: {', '.join(activations)}"
        raise UnsupportedModelError(name, [reason])
    config = read_bert({**options, "position_embedding_type": None}, name, token_types=2)
    block = replace(
        config.blocks[0],
        mixer=replace(config.attention, has_alibi=True),
        activation=activations[given],
        has_gate=True,
        ffn_biases=(False, True),
    )
    return replace(config, blocks=(block,) * config.layers, has_positions=False)


def _family(name: str, prefix: str, attention: Mapping[str, str], **defaults: Any) -> Family:
    names, read = bert_names({**attention, **FEED_FORWARD}), partial(read_bert, **defaults)
    return Family(_embedders(name), prefix, names, read, IGNORED)


def _embedders(name: str) -> tuple[str, ...]:
    return f"{name}Model", f"{name}ForMaskedLM", f"{name}ForPreTraining"


JINA = "bert with alibi"
"""Stands for the `model_type` of JinaBERT, whose files have that of BERT."""

ROBERTA = {"pad_id": 1, "token_types": 2}
MPNET: dict[str, Any] = {"pad_id": 1, "relative_buckets": 32, "sizes": (512, 30527)}
FAMILIES = {
    "bert": _family("Bert", "bert.", ATTENTION, token_types=2),
    "roberta": _family("Roberta", "roberta.", ATTENTION, **ROBERTA, sizes=(512, 50265)),
    "xlm-roberta": _family("XLMRoberta", "roberta.", ATTENTION, **ROBERTA),
    "camembert": _family("Camembert", "roberta.", ATTENTION, **ROBERTA),
    "mpnet": _family("MPNet", "mpnet.", MPNET_ATTENTION, **MPNET),
    "distilbert": Family(
        *(_embedders("DistilBert"), "distilbert."),
        bert_names(DISTIL_NAMES, "transformer.layer"),
        *(read_distilbert, IGNORED),
    ),
    JINA: Family(
        *(_embedders("JinaBert"), "bert."),
        bert_names(JINA_NAMES) | JINA_GATE,
        *(read_jina_bert, IGNORED),
    ),
}
