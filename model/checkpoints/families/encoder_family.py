"""Defines a family of text encoders, and reads the options that several families have.

Does not import torch.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from model.checkpoints.formats.files import MAX_SIZE, positive_integer
from model.config import Activation, AttentionSpec, BlockSpec, Rope, TextEncoderConfig
from model.errors import UnsupportedModelError

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Family:
    """The encoders of one `model_type`."""

    # Architectures whose hidden states serve as embeddings, as in folders of sentence-transformers.
    # Every other architecture has a head for another task, for which its states were trained.
    embedders: tuple[str, ...]
    prefix: str  # of tensor names in files that also contain a task head
    # Maps the encoder's parameters to tensors of the file, as `model.checkpoints.names` describes.
    # Some encoders have only a part of the parameters.
    names: Mapping[str, str]
    read: Callable[[Options, str], TextEncoderConfig]  # takes the file's name for messages
    # Matches the tensors that embeddings do not need, but not those of a classification head. Files
    # with such a head are therefore refused.
    ignored: re.Pattern[str]
    # Whether a folder without `modules.json` is refused, because most models of the `model_type`
    # write texts and were not trained to embed.
    needs_modules: bool = False


MAX_LAYERS = 1000

ACTIVATIONS = {
    "gelu": Activation.GELU,
    "gelu_new": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "relu": Activation.RELU,
    "silu": Activation.SWISH,
    "swish": Activation.SWISH,
}

FULL, LOCAL = "full_attention", "sliding_attention"


def text_encoder(
    name: str,
    reasons: list[str],
    sizes: Mapping[str, int],
    attention: Options | Sequence[Options],
    layer: Options,
    **tables: Any,
) -> TextEncoderConfig:
    """Returns the config of an encoder, unless there are reasons to refuse the file `name`.

    `attention` and `layer` have fields of AttentionSpec and BlockSpec. If the attention of layers
    differs, it has an item for each layer.
    """
    try:
        if not reasons:
            width, heads = sizes["d_model"], sizes["heads"]
            if "head_dim" in sizes:
                plain = AttentionSpec(heads, sizes["kv_heads"], sizes["head_dim"])
            else:
                plain = AttentionSpec.of_width(width, heads)
            each = [attention] * sizes["layers"] if isinstance(attention, Mapping) else attention
            mixers = [replace(plain, **fields) for fields in each]
            blocks = tuple(BlockSpec(width, sizes["ffn_dim"], mixer, **layer) for mixer in mixers)
            return TextEncoderConfig(blocks, sizes["vocab_size"], sizes["max_positions"], **tables)
    except UnsupportedModelError as error:
        reasons = error.reasons
    raise UnsupportedModelError(name, reasons)


def read_sizes(
    options: Options, reasons: list[str], names: Mapping[str, tuple[str, int]]
) -> dict[str, int]:
    """Returns sizes by our names, given (option, default) of each."""
    return {
        ours: positive_integer(
            options, theirs, usual, reasons, MAX_LAYERS if ours == "layers" else MAX_SIZE
        )
        for ours, (theirs, usual) in names.items()
    }


def hugging_face_sizes(
    ffn_dim: int, layers: int, positions: int, vocab: int, width: int = 768, heads: int = 12
) -> dict[str, tuple[str, int]]:
    return {
        "d_model": ("hidden_size", width),
        "heads": ("num_attention_heads", heads),
        "ffn_dim": ("intermediate_size", ffn_dim),
        "layers": ("num_hidden_layers", layers),
        "vocab_size": ("vocab_size", vocab),
        "max_positions": ("max_position_embeddings", positions),
    }


def read_activation(options: Options, option: str, usual: str, reasons: list[str]) -> Activation:
    activation = ACTIVATIONS.get(str(options.get(option, usual)))
    if activation is None:
        known = ", ".join(ACTIVATIONS)
        reasons.append(f"{option} is {options[option]!r}, supported: {known}")
        return Activation.GELU
    return activation


def read_layer_types(options: Options, usual: list[str], reasons: list[str]) -> list[str]:
    """Returns FULL or LOCAL for each layer."""
    kinds = options.get("layer_types")
    if kinds is None:
        return usual
    is_list = isinstance(kinds, list) and len(kinds) == len(usual)
    if not is_list or any(kind not in (FULL, LOCAL) for kind in kinds):
        reasons.append(f"layer_types must name {FULL} or {LOCAL} for each of {len(usual)} layers")
        return usual
    named: list[str] = kinds
    return named


def read_rope(
    options: Options, option: str, usual: float, reasons: list[str], kind: str | None = None
) -> Rope:
    """Returns rotary positions without scaling; `option` names theta in older files.

    Newer files have `rope_parameters`, for all layers or for each kind of layer.
    """
    theta = read_number(options, option, usual, reasons)
    own: Any = options.get("rope_parameters") or {}
    if kind is not None and isinstance(own, dict):
        own = own.get(kind) or {}
    is_plain = isinstance(own, dict) and own.get("rope_type", "default") == "default"
    if not is_plain or options.get("rope_scaling"):
        place = "the model" if kind is None else kind
        reasons.append(f"{place} must have no rope_scaling, and no rope_type except 'default'")
        return Rope(theta)
    return Rope(read_number(own, "rope_theta", theta, reasons))


def read_number(
    options: Options, option: str, default: float, reasons: list[str], limit: float = 1e12
) -> float:
    value = options.get(option, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < limit:
        reasons.append(f"{option} is {value!r}, it must be a number above 0 and below {limit:g}")
        return default
    return float(value)


def joined_projections(tensor: str) -> dict[str, str]:
    """Returns the names of queries, keys and values that are thirds of one tensor."""
    names = enumerate(("query", "key", "value"))
    return {f"layers.{{i}}.mixer.{name}": f"{tensor}[{part}/3]" for part, name in names}
