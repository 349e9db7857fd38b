"""Reads the options of BERT, RoBERTa, XLM-RoBERTa, CamemBERT and MPNet encoders.

The module also defines the class Family, which describes any family of text encoders. The module
does not import torch.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from model.checkpoints.formats.json_files import MAX_SIZE, positive_integer, unsupported
from model.config import Activation
from model.embedding_config import TextEncoderConfig
from model.errors import UnsupportedModelError

Options = Mapping[str, Any]
"""Content of a `config.json`."""


@dataclass(frozen=True, slots=True)
class Family:
    """The encoders of one `model_type`.

    Attributes:
        prefix: Prefix of the tensor names in files that also contain a task head.
        names: Maps the names of the encoder's parameters to tensor names of the file. `{i}` stands
            for the number of a layer, from 0. Some encoders of the family have only a part of the
            parameters.
        read: Returns the config, given the options and the name of the file (for messages).
        ignored: Pattern of the names of tensors that embeddings do not need. It does not match
            the tensors of a classification head. A file with such a head is refused, because the
            encoder of a classifier gives no useful embeddings.
        splits: Describes tensors that are split into equal parts. Maps the suffix of such a
            tensor's name to the suffixes of its parts' names.
    """

    prefix: str
    names: Mapping[str, str]
    read: Callable[[Options, str], TextEncoderConfig]
    ignored: re.Pattern[str]
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


MAX_LAYERS = 1000

ACTIVATIONS = {
    "gelu": Activation.GELU,
    "gelu_new": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "relu": Activation.RELU,
    "silu": Activation.SWISH,
    "swish": Activation.SWISH,
}

# Options that change the computation, with the implemented values. The first value is the default.
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "quantization_config": (None,),
}


@dataclass(frozen=True, slots=True)
class Defaults:
    """The properties in which the families of this module differ.

    Attributes:
        pad_id: Padding id. The first token has the position after this id. MPNet always has this
            id. In RoBERTa, XLM-RoBERTa and CamemBERT, an option can replace it. The value is None
            for BERT, whose positions begin at 0.
        token_types: Default of `type_vocab_size`; 0 if the family has no token types.
        relative_buckets: The fixed `relative_attention_num_buckets`; 0 if the family has no
            relative positions.
        sizes: Defaults of (max_position_embeddings, vocab_size).
    """

    pad_id: int | None = None
    token_types: int = 0
    relative_buckets: int = 0
    sizes: tuple[int, int] = (512, 30522)


BERT_ATTENTION = {
    "self_attention.query": "attention.self.query",
    "self_attention.key": "attention.self.key",
    "self_attention.value": "attention.self.value",
    "self_attention.out": "attention.output.dense",
    "self_residual.norm": "attention.output.LayerNorm",
}
MPNET_ATTENTION = {
    "self_attention.query": "attention.attn.q",
    "self_attention.key": "attention.attn.k",
    "self_attention.value": "attention.attn.v",
    "self_attention.out": "attention.attn.o",
    "self_residual.norm": "attention.LayerNorm",
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


def names(attention: Mapping[str, str]) -> dict[str, str]:
    """Maps parameter names to tensor names, given the names of a layer's attention modules."""
    modules = {"embedding.norm": "embeddings.LayerNorm"}
    for ours, theirs in {**attention, **FEED_FORWARD}.items():
        modules[f"layers.{{i}}.{ours}"] = f"encoder.layer.{{i}}.{theirs}"
    return TABLES | {
        f"{ours}.{kind}": f"{theirs}.{kind}"
        for ours, theirs in modules.items()
        for kind in ("weight", "bias")
    }


def read_bert(defaults: Defaults, options: Options, name: str) -> TextEncoderConfig:
    """Returns the config of an encoder. Missing sizes get the defaults of the family.

    Args:
        defaults: Properties of the family.
        options: The content of a `config.json`.
        name: The file, for messages.

    Raises:
        UnsupportedModelError: Options are not implemented or have wrong values. The error lists
            all of them, except two that are checked afterwards: first the padding id, then whether
            the sizes fit together. Each is reported only if everything before it is right.
    """
    reasons = unsupported(options, SUPPORTED)
    activation = ACTIVATIONS.get(str(options.get("hidden_act", "gelu")))
    if activation is None:
        known = ", ".join(ACTIVATIONS)
        reasons.append(f"hidden_act is {options['hidden_act']!r}, supported: {known}")
    eps = options.get("layer_norm_eps", 1e-12)
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 <= eps < 1:
        reasons.append(f"layer_norm_eps is {eps!r}, it must be at least 0 and below 1")
    sizes = _sizes(options, defaults, reasons)
    if reasons or activation is None:
        raise UnsupportedModelError(name, reasons)
    return _config(sizes, _position_offset(options, defaults, name), activation, float(eps), name)


def _sizes(options: Options, defaults: Defaults, reasons: list[str]) -> dict[str, int]:
    """Returns the sizes by their names in `TextEncoderConfig`; adds wrong sizes to `reasons`."""

    def size(option: str, default: int, most: int = MAX_SIZE) -> int:
        return positive_integer(options, option, default, reasons, most)

    sizes = {
        "d_model": size("hidden_size", 768),
        "num_heads": size("num_attention_heads", 12),
        "ffn_dim": size("intermediate_size", 3072),
        "layers": size("num_hidden_layers", 12, MAX_LAYERS),
        "vocab_size": size("vocab_size", defaults.sizes[1]),
        "max_positions": size("max_position_embeddings", defaults.sizes[0]),
    }
    if defaults.token_types:
        sizes["token_types"] = size("type_vocab_size", defaults.token_types)
    if defaults.relative_buckets:
        sizes["relative_buckets"] = defaults.relative_buckets
        fixed = {"relative_attention_num_buckets": (defaults.relative_buckets,)}
        reasons += unsupported(options, fixed)
    return sizes


def _config(
    sizes: dict[str, Any], offset: int, activation: Activation, eps: float, name: str
) -> TextEncoderConfig:
    try:
        return TextEncoderConfig(
            **sizes, position_offset=offset, activation=activation, layer_norm_eps=eps
        )
    except UnsupportedModelError as error:
        raise UnsupportedModelError(name, error.reasons) from error


def _position_offset(options: Options, defaults: Defaults, name: str) -> int:
    """Returns the row of the position table for the first token.

    BERT begins at row 0. All other families begin after the row of the padding id. MPNet has a
    fixed padding id. In RoBERTa, XLM-RoBERTa and CamemBERT, an option gives the padding id.
    """
    if defaults.pad_id is None:
        return 0
    pad_id = defaults.pad_id if defaults.relative_buckets else options.get("pad_token_id", 1)
    if isinstance(pad_id, bool) or not isinstance(pad_id, int) or pad_id < 0:
        raise UnsupportedModelError(name, [f"pad_token_id is {pad_id!r}, it must be an id"])
    return pad_id + 1


def family(prefix: str, attention: Mapping[str, str], defaults: Defaults) -> Family:
    """Returns a family of this module."""
    return Family(prefix, names(attention), partial(read_bert, defaults), IGNORED)


ROBERTA = Defaults(1, token_types=2, sizes=(512, 50265))
XLM_ROBERTA = Defaults(1, token_types=2)
FAMILIES = {
    "bert": family("bert.", BERT_ATTENTION, Defaults(token_types=2)),
    "roberta": family("roberta.", BERT_ATTENTION, ROBERTA),
    "xlm-roberta": family("roberta.", BERT_ATTENTION, XLM_ROBERTA),
    "camembert": family("roberta.", BERT_ATTENTION, XLM_ROBERTA),
    "mpnet": family("mpnet.", MPNET_ATTENTION, Defaults(1, 0, 32, sizes=(512, 30527))),
}
"""The families by `model_type`."""
