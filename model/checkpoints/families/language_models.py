"""Reads configs of language models that were trained to embed: Qwen3 and Gemma 3.

Does not import torch. Source: transformers, models/qwen3 and models/gemma3.
"""

import re
from typing import Any

from model.checkpoints.families.encoder_family import (
    FULL,
    LOCAL,
    Family,
    Options,
    hugging_face_sizes,
    read_activation,
    read_layer_types,
    read_number,
    read_rope,
    read_sizes,
    text_encoder,
)
from model.checkpoints.formats.files import positive_integer, unsupported
from model.config import Activation, NormPosition, NormSpec, TextEncoderConfig

SUPPORTED: dict[str, tuple[Any, ...]] = {
    "use_sliding_window": (False,),
    "attn_logit_softcapping": (None,),
    "quantization_config": (None,),
}

NAMES = {
    "embedding.tokens": "embed_tokens.weight",
    "layers.{i}.mixer.query": "layers.{i}.self_attn.q_proj",
    "layers.{i}.mixer.key": "layers.{i}.self_attn.k_proj",
    "layers.{i}.mixer.value": "layers.{i}.self_attn.v_proj",
    "layers.{i}.mixer.out": "layers.{i}.self_attn.o_proj",
    "layers.{i}.feed_forward.fc1": "layers.{i}.mlp.gate_proj",
    "layers.{i}.feed_forward.gate": "layers.{i}.mlp.up_proj",
    "layers.{i}.feed_forward.fc2": "layers.{i}.mlp.down_proj",
}
NORMS = {
    "layers.{i}.mixer.query_norm": "layers.{i}.self_attn.q_norm",
    "layers.{i}.mixer.key_norm": "layers.{i}.self_attn.k_norm",
    "layers.{i}.mixer_residual.norm": "layers.{i}.input_layernorm",
    "norm": "norm",
}
QWEN_NORMS = NORMS | {
    "layers.{i}.feed_forward_residual.norm": "layers.{i}.post_attention_layernorm"
}
GEMMA_NORMS = NORMS | {
    "layers.{i}.mixer_residual.output_norm": "layers.{i}.post_attention_layernorm",
    "layers.{i}.feed_forward_residual.norm": "layers.{i}.pre_feedforward_layernorm",
    "layers.{i}.feed_forward_residual.output_norm": "layers.{i}.post_feedforward_layernorm",
}


def read_qwen3(options: Options, name: str) -> TextEncoderConfig:
    reasons = unsupported(options, SUPPORTED)
    activation = read_activation(options, "hidden_act", "silu", reasons)
    rope = read_rope(options, "rope_theta", 10_000.0, reasons)
    sizes = {**hugging_face_sizes(22016, 32, 32768, 151936, 4096, 32), **_heads(32, 128)}
    found = read_sizes(options, reasons, sizes)
    usual = [FULL] * found["layers"]
    if read_layer_types(options, usual, reasons) != usual:
        reasons.append(f"layer_types names {LOCAL}, supported: {FULL}")
    attention, layer = _fields(options, reasons, activation, NormPosition.PRE)
    attention |= {"rope": rope, "is_causal": True}
    return text_encoder(name, reasons, found, attention, layer, **TABLES)


def read_gemma3(options: Options, name: str) -> TextEncoderConfig:
    reasons = unsupported(options, SUPPORTED)
    activation = read_activation(options, "hidden_activation", "gelu_pytorch_tanh", reasons)
    ropes = {
        FULL: read_rope(options, "rope_theta", 1e6, reasons, FULL),
        LOCAL: read_rope(options, "rope_local_base_freq", 1e4, reasons, LOCAL),
    }
    sizes = {**hugging_face_sizes(9216, 26, 131_072, 262_208, 2304, 8), **_heads(4, 256)}
    found = read_sizes(options, reasons, sizes)
    every = positive_integer(options, "sliding_window_pattern", 6, reasons)
    usual = [LOCAL if (i + 1) % every else FULL for i in range(found["layers"])]
    kinds = read_layer_types(options, usual, reasons)
    scalar = read_number(options, "query_pre_attn_scalar", 256, reasons)
    is_causal = not options.get("use_bidirectional_attention")
    width = positive_integer(options, "sliding_window", 4096, reasons)
    # In both directions, half of the window is on each side of a token.
    window = width - 1 if is_causal else width // 2
    shared, layer = _fields(options, reasons, activation, NormPosition.BOTH)
    shared |= {"is_causal": is_causal, "scale": scalar**-0.5}
    attention = [
        {**shared, "rope": ropes[kind], "window": window if kind == LOCAL else None}
        for kind in kinds
    ]
    scale = found["d_model"] ** 0.5
    return text_encoder(name, reasons, found, attention, layer, **TABLES, embedding_scale=scale)


def _heads(kv_heads: int, head_dim: int) -> dict[str, tuple[str, int]]:
    return {"kv_heads": ("num_key_value_heads", kv_heads), "head_dim": ("head_dim", head_dim)}


def _fields(
    options: Options, reasons: list[str], activation: Activation, place: NormPosition
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the fields of the attention and of the layer that both families have."""
    eps = read_number(options, "rms_norm_eps", 1e-6, reasons, limit=1)
    norm = NormSpec(eps, has_bias=False, is_rms=True)
    layer = {"activation": activation, "has_gate": True, "ffn_biases": (False, False)}
    attention = {"has_bias": bool(options.get("attention_bias", False)), "qk_norm": norm}
    return attention, {**layer, "norm": norm, "norm_position": place}


TABLES: dict[str, Any] = {"has_positions": False, "norms_embedding": False}
IGNORED = re.compile(r"^lm_head\.|(^|\.)rotary_emb\.")
"""The head predicts the next token; older files also have the frequencies of the positions."""

FAMILIES = {
    "qwen3": Family(
        ("Qwen3Model", "Qwen3ForCausalLM"),
        "model.",
        NAMES | QWEN_NORMS,
        read_qwen3,
        IGNORED,
        needs_modules=True,
    ),
    "gemma3_text": Family(
        ("Gemma3TextModel", "Gemma3ForCausalLM"),
        "model.",
        NAMES | {ours: f"{theirs}+1" for ours, theirs in GEMMA_NORMS.items()},
        read_gemma3,
        IGNORED,
        needs_modules=True,
    ),
}
