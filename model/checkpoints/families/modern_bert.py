"""Reads the options of ModernBERT encoders. Does not import torch.

Source: transformers, models/modernbert/configuration_modernbert.py.
"""

import re
from typing import Any

from model.checkpoints.families.bert import ACTIVATIONS, MAX_LAYERS, Family, Options
from model.checkpoints.formats.json_files import MAX_SIZE, positive_integer, unsupported
from model.embedding_config import Rotary, TextEncoderConfig
from model.errors import UnsupportedModelError

# Options that change the computation, with the implemented values. The first value is the default.
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "norm_bias": (False,),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "quantization_config": (None,),
}

GLOBAL, LOCAL = "full_attention", "sliding_attention"
THETAS = {GLOBAL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}
"""Maps a layer type to (option, default) of theta, the base of the rotary frequencies."""

NAMES = {
    "embedding.tokens": "embeddings.tok_embeddings.weight",
    "embedding.norm.weight": "embeddings.norm.weight",
    "layers.{i}.self_norm.weight": "layers.{i}.attn_norm.weight",
    "layers.{i}.self_attention.query.weight": "layers.{i}.attn.query",
    "layers.{i}.self_attention.key.weight": "layers.{i}.attn.key",
    "layers.{i}.self_attention.value.weight": "layers.{i}.attn.value",
    "layers.{i}.self_attention.out.weight": "layers.{i}.attn.Wo.weight",
    "layers.{i}.feed_forward_norm.weight": "layers.{i}.mlp_norm.weight",
    "layers.{i}.feed_forward.fc1.weight": "layers.{i}.mlp.fc1",
    "layers.{i}.feed_forward.gate.weight": "layers.{i}.mlp.gate",
    "layers.{i}.feed_forward.fc2.weight": "layers.{i}.mlp.Wo.weight",
    "norm.weight": "final_norm.weight",
}
SPLITS = {
    "attn.Wqkv.weight": ("attn.query", "attn.key", "attn.value"),
    "mlp.Wi.weight": ("mlp.fc1", "mlp.gate"),
}
IGNORED = re.compile(r"^(head|decoder)\.")
"""Matches the tensors of the head and the decoder, which predict masked words."""


def read_config(options: Options, name: str) -> TextEncoderConfig:
    """Returns the config of an encoder. Missing sizes get the defaults of ModernBERT-base.

    Args:
        options: The content of a `config.json`.
        name: The file, for messages.

    Raises:
        UnsupportedModelError: Options are not implemented or have wrong values. The error lists
            all of them.
    """
    reasons = unsupported(options, SUPPORTED)

    def size(option: str, default: int, most: int = MAX_SIZE) -> int:
        return positive_integer(options, option, default, reasons, most)

    activation = ACTIVATIONS.get(str(options.get("hidden_activation", "gelu")))
    if activation is None:
        known = ", ".join(ACTIVATIONS)
        reasons.append(f"hidden_activation is {options['hidden_activation']!r}, supported: {known}")
    layers = size("num_hidden_layers", 22, MAX_LAYERS)
    window = size("local_attention", 128) // 2
    thetas = {kind: _theta(options, kind, reasons) for kind in THETAS}
    kinds = _layer_types(options, layers, size("global_attn_every_n_layers", 3), reasons)
    eps = _number(options, "norm_eps", 1e-5, reasons)
    sizes = {
        "d_model": size("hidden_size", 768),
        "num_heads": size("num_attention_heads", 12),
        "ffn_dim": size("intermediate_size", 1152),
        "vocab_size": size("vocab_size", 50368),
        "max_positions": size("max_position_embeddings", 8192),
    }
    if reasons or activation is None:
        raise UnsupportedModelError(name, reasons)
    rotary = tuple(Rotary(thetas[kind], None if kind == GLOBAL else window) for kind in kinds)
    try:
        return TextEncoderConfig(
            **sizes, layers=layers, rotary=rotary, activation=activation, layer_norm_eps=eps
        )
    except UnsupportedModelError as error:
        raise UnsupportedModelError(name, error.reasons) from error


def _layer_types(options: Options, layers: int, every: int, reasons: list[str]) -> list[str]:
    """Returns the type of each layer. If types are wrong, an entry is added to `reasons`."""
    kinds = options.get("layer_types")
    if kinds is None:
        return [LOCAL if number % every else GLOBAL for number in range(layers)]
    if (
        not isinstance(kinds, list)
        or len(kinds) != layers
        or any(k not in [*THETAS] for k in kinds)
    ):
        reasons.append(f"layer_types must name {GLOBAL} or {LOCAL} for each of {layers} layers")
        return []
    return kinds


def _theta(options: Options, kind: str, reasons: list[str]) -> float:
    """Returns theta (see `THETAS`) of a layer type; adds wrong values to `reasons`."""
    usual = _number(options, *THETAS[kind], reasons)
    parameters = options.get("rope_parameters") or {}
    own = (parameters.get(kind) or {}) if isinstance(parameters, dict) else None
    is_plain = isinstance(own, dict) and own.get("rope_type", "default") == "default"
    if own is None or not is_plain or options.get("rope_scaling"):
        reasons.append(f"{kind} must have no rope_scaling, and no rope_type except 'default'")
        return usual
    return _number(own, "rope_theta", usual, reasons)


def _number(options: Options, option: str, default: float, reasons: list[str]) -> float:
    """Returns an option that is a number above 0 and below 1e12.

    If the value is wrong, an entry is added to `reasons`, and the default is returned.
    """
    value = options.get(option, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        reasons.append(f"{option} is {value!r}, it must be a number above 0 and below 1e12")
        return default
    return float(value)


FAMILY = Family("model.", NAMES, read_config, IGNORED, SPLITS)
