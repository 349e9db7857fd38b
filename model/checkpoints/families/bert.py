"""Reads configs of BERT, RoBERTa, XLM-RoBERTa, CamemBERT and MPNet. Does not import torch."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from model.checkpoints.families.encoder_family import (
    Family,
    Options,
    checked,
    hugging_face_sizes,
    read_activation,
    read_number,
    read_sizes,
    weights_and_biases,
)
from model.checkpoints.formats.files import positive_integer, unsupported
from model.config import AttentionSpec, BlockSpec, NormSpec, TextEncoderConfig

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

IGNORED = re.compile(
    r"(^|\.)embeddings\.(position_ids|token_type_ids)$|^pooler\.|^cls\.|^lm_head\."
)
"""position_ids and token_type_ids are constants. The pooler is a layer on the first token's vector;
sentence vectors do not need this layer. The heads cls and lm_head predict masked words."""


def bert_names(attention: Mapping[str, str]) -> dict[str, str]:
    modules = {"embedding.norm": "embeddings.LayerNorm"}
    for ours, theirs in {**attention, **FEED_FORWARD}.items():
        modules[f"layers.{{i}}.{ours}"] = f"encoder.layer.{{i}}.{theirs}"
    return TABLES | weights_and_biases(modules)


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

    def build() -> TextEncoderConfig:
        width = found["d_model"]
        mixer = AttentionSpec.of_width(width, found["heads"], buckets=relative_buckets)
        block = BlockSpec(width, found["ffn_dim"], mixer, activation=activation, norm=norm)
        return TextEncoderConfig(
            (block,) * found["layers"],
            found["vocab_size"],
            found["max_positions"],
            position_offset=offset,
            token_types=token_types,
        )

    return checked(name, reasons, build)


def _family(name: str, prefix: str, attention: Mapping[str, str], **defaults: Any) -> Family:
    heads = "MaskedLM", "PreTraining"
    embedders = f"{name}Model", *(f"{name}For{head}" for head in heads)
    read = partial(read_bert, **defaults)
    return Family(embedders, prefix, bert_names(attention), read, IGNORED)


ROBERTA = {"pad_id": 1, "token_types": 2}
MPNET: dict[str, Any] = {"pad_id": 1, "relative_buckets": 32, "sizes": (512, 30527)}
FAMILIES = {
    "bert": _family("Bert", "bert.", ATTENTION, token_types=2),
    "roberta": _family("Roberta", "roberta.", ATTENTION, **ROBERTA, sizes=(512, 50265)),
    "xlm-roberta": _family("XLMRoberta", "roberta.", ATTENTION, **ROBERTA),
    "camembert": _family("Camembert", "roberta.", ATTENTION, **ROBERTA),
    "mpnet": _family("MPNet", "mpnet.", MPNET_ATTENTION, **MPNET),
}
