"""Reads configs of encoders with rotary positions and gates.

These are ModernBERT, gte and nomic, and two language models that were trained to embed: Qwen3 and
Gemma 3. Does not import torch.

Sources: Warner et al. 2024, section 2.1 (ModernBERT); Zhang et al. 2024, "mGTE", section 2;
Nussbaum et al. 2024, "Nomic Embed", section 3; transformers, models/modernbert, gte, nomic_bert,
qwen3 and gemma3.
"""

import re
from dataclasses import replace
from functools import partial
from typing import Any

from model.checkpoints.families.bert import bert_names
from model.checkpoints.families.encoder_family import (
    FULL,
    LOCAL,
    Family,
    Options,
    joined_projections,
    text_encoder,
)
from model.config import NormPosition, NormSpec, Rope, TextEncoderConfig

MODERN_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "norm_bias": (False,),
    "attention_bias": (False,),
    "mlp_bias": (False,),
}
THETAS = {FULL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}
"""Maps a layer type to (option, default) of theta, the base of the rotary frequencies."""

MODERN_LAYER = {
    "mixer_residual.norm": "attn_norm",
    **joined_projections("attn.Wqkv"),
    "mixer.out": "attn.Wo",
    "feed_forward_residual.norm": "mlp_norm",
    "feed_forward.fc1": "mlp.Wi[0/2]",
    "feed_forward.gate": "mlp.Wi[1/2]",
    "feed_forward.fc2": "mlp.Wo",
}
MODERN_NAMES = bert_names(MODERN_LAYER, "layers") | {
    "embedding.tokens": "embeddings.tok_embeddings.weight",
    "embedding.norm": "embeddings.norm",
    "norm": "final_norm",
}


def _gated(
    options: Options,
    option: str,
    activation: str,
    norm: NormSpec,
    biases: tuple[bool, bool] = (False, False),
) -> dict[str, Any]:
    """Returns the fields of a layer with a gate; `option` names its activation in the file."""
    chosen = options.activation(option, activation)
    return {"activation": chosen, "has_gate": True, "ffn_biases": biases, "norm": norm}


def read_modern_bert(options: Options) -> TextEncoderConfig:
    options.check(MODERN_SUPPORTED)
    sizes = options.sizes(1152, 22, 8192, 50368)
    window = options.integer("local_attention", 128) // 2
    ropes = {kind: options.rope(*THETAS[kind], kind) for kind in THETAS}
    every = options.integer("global_attn_every_n_layers", 3)
    usual = [LOCAL if number % every else FULL for number in range(sizes["layers"])]
    attention = [
        {"has_bias": False, "rope": ropes[kind], "window": window if kind == LOCAL else None}
        for kind in options.layer_types(usual)
    ]
    norm = options.norm("norm_eps", 1e-5, has_bias=False)
    layer = _gated(options, "hidden_activation", "gelu", norm) | {"norm_position": NormPosition.PRE}
    config = text_encoder(options, sizes, attention, layer, has_positions=False)
    first, *others = config.blocks  # the embedding ends with a norm
    return replace(config, blocks=(replace(first, norms_first=False), *others))


GTE_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("rope",),
    "layer_norm_type": ("layer_norm",),
    "logn_attention_scale": (False,),
    "logn_attention_clip1": (False,),
    "pack_qkv": (True,),
}
GTE_LAYER = {
    **joined_projections("attention.qkv_proj"),
    "mixer.out": "attention.o_proj",
    "mixer_residual.norm": "attn_ln",
    "feed_forward.gate": "mlp.up_gate_proj[0/2]",
    "feed_forward.fc1": "mlp.up_gate_proj[1/2]",
    "feed_forward.fc2": "mlp.down_proj",
    "feed_forward_residual.norm": "mlp_ln",
}


def read_gte(options: Options, theta: float) -> TextEncoderConfig:
    """Returns the config of an encoder; `theta` is the default of its rotary positions."""
    options.check(GTE_SUPPORTED)
    sizes = options.sizes(3072, 12, 8192, 250048)
    types = 0 if options.get("type_vocab_size") == 0 else options.integer("type_vocab_size", 1)
    scaling, factor, plain = options.get("rope_scaling"), 1.0, options
    if isinstance(scaling, dict) and scaling.get("type") == "ntk":
        factor = replace(options, values=scaling).number("factor", 1.0)
        plain = options.changed(rope_scaling=None)
    rope = plain.rope("rope_theta", theta)
    norm = options.norm("layer_norm_eps", 1e-12)
    layer = _gated(options, "hidden_act", "gelu", norm, (False, True))
    # Texts may be `factor` times longer than in training. Source: Su 2023, "Transformer upgrade
    # road 11: mixed base", equation 6 (NTK with one base).
    head_dim = max(1, sizes["d_model"] // sizes["heads"])
    attention = {"rope": Rope(rope.theta * factor, factor ** (2 / head_dim))}
    return text_encoder(options, sizes, attention, layer, has_positions=False, token_types=types)


NOMIC_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "prenorm": (False,),
    "causal": (False,),
    "parallel_block": (False,),
    "use_rms_norm": (False,),
    "rotary_emb_fraction": (1.0,),
    "rotary_emb_interleaved": (False,),
    "rotary_emb_scale_base": (None,),
    "moe_every_n_layers": (0, None),
}
OLD_OPTIONS = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers",
    "n_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps",
    "rotary_emb_base": "rope_theta",
    "activation_function": "hidden_act",
}
"""Maps the options of older files, which are those of GPT-2, to newer names."""

GATED = {"swiglu": "silu", "geglu": "gelu"}
NOMIC_LAYER = {
    **joined_projections("attn.Wqkv"),
    "mixer.out": "attn.out_proj",
    "mixer_residual.norm": "norm1",
    "feed_forward.fc1": "mlp.fc12",
    "feed_forward.gate": "mlp.fc11",
    "feed_forward.fc2": "mlp.fc2",
    "feed_forward_residual.norm": "norm2",
}
NOMIC_NAMES = bert_names(NOMIC_LAYER, "encoder.layers") | {"embedding.norm": "emb_ln"}


def read_nomic_bert(options: Options) -> TextEncoderConfig:
    options.check(NOMIC_SUPPORTED)
    is_old = "n_embd" in options.values
    if is_old:
        options = options.renamed(OLD_OPTIONS)
        given = str(options.get("hidden_act"))
        options = options.changed(hidden_act=GATED.get(given, f"{given} without a gate"))
    sizes = options.sizes(3072, 12, 2048, 30528)
    if options.get("rotary_scaling_factor") is not None:
        # Longer texts would get positions that depend on the longest text of their batch.
        sizes["max_positions"] = options.integer("max_trained_positions", 2048)
    attention, inner, outer = (
        bool(options.get(option, is_old))
        for option in ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias")
    )
    norm = options.norm("layer_norm_eps", 1e-12)
    layer = _gated(options, "hidden_act", "silu", norm, (inner, outer))
    types, rope = options.integer("type_vocab_size", 2), options.rope("rope_theta", 1000.0)
    tables = {"has_positions": False, "token_types": types}
    return text_encoder(options, sizes, {"has_bias": attention, "rope": rope}, layer, **tables)


LANGUAGE_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "use_sliding_window": (False,),
    "attn_logit_softcapping": (None,),
}

LANGUAGE_NAMES = {"embedding.tokens": "embed_tokens.weight", "norm": "norm"}
LANGUAGE_LAYER = {
    "mixer.query": "self_attn.q_proj",
    "mixer.key": "self_attn.k_proj",
    "mixer.value": "self_attn.v_proj",
    "mixer.out": "self_attn.o_proj",
    "feed_forward.fc1": "mlp.gate_proj",
    "feed_forward.gate": "mlp.up_proj",
    "feed_forward.fc2": "mlp.down_proj",
}
NORMS = {
    "mixer.query_norm": "self_attn.q_norm",
    "mixer.key_norm": "self_attn.k_norm",
    "mixer_residual.norm": "input_layernorm",
}
QWEN_LAYER = LANGUAGE_LAYER | NORMS | {"feed_forward_residual.norm": "post_attention_layernorm"}
QWEN_NAMES = bert_names(QWEN_LAYER, "layers") | LANGUAGE_NAMES
GEMMA_NORMS = NORMS | {
    "mixer_residual.output_norm": "post_attention_layernorm",
    "feed_forward_residual.norm": "pre_feedforward_layernorm",
    "feed_forward_residual.output_norm": "post_feedforward_layernorm",
}
GEMMA_LAYER = LANGUAGE_LAYER | {ours: f"{theirs}+1" for ours, theirs in GEMMA_NORMS.items()}
GEMMA_NAMES = bert_names(GEMMA_LAYER, "layers") | LANGUAGE_NAMES | {"norm": "norm+1"}


def read_qwen3(options: Options) -> TextEncoderConfig:
    attention, layer = _fields(options, "hidden_act", "silu", NormPosition.PRE)
    attention |= {"rope": options.rope("rope_theta", 10_000.0), "is_causal": True}
    sizes = options.sizes(22016, 32, 32768, 151936, 4096, 32) | _heads(options, 32, 128)
    usual = [FULL] * sizes["layers"]
    if options.layer_types(usual) != usual:
        options.reasons.append(f"layer_types names {LOCAL}, supported: {FULL}")
    return text_encoder(options, sizes, attention, layer, **LANGUAGE_TABLES)


def read_gemma3(options: Options) -> TextEncoderConfig:
    ropes = {
        FULL: options.rope("rope_theta", 1e6, FULL),
        LOCAL: options.rope("rope_local_base_freq", 1e4, LOCAL),
    }
    shared, layer = _fields(options, "hidden_activation", "gelu_pytorch_tanh", NormPosition.BOTH)
    sizes = options.sizes(9216, 26, 131_072, 262_208, 2304, 8) | _heads(options, 4, 256)
    every = options.integer("sliding_window_pattern", 6)
    usual = [LOCAL if (i + 1) % every else FULL for i in range(sizes["layers"])]
    is_causal = not options.get("use_bidirectional_attention")
    width = options.integer("sliding_window", 4096)
    # In both directions, half of the window is on each side of a token.
    window = width - 1 if is_causal else width // 2
    scale = options.number("query_pre_attn_scalar", 256) ** -0.5
    shared |= {"is_causal": is_causal, "scale": scale}
    attention = [
        {**shared, "rope": ropes[kind], "window": window if kind == LOCAL else None}
        for kind in options.layer_types(usual)
    ]
    tables = LANGUAGE_TABLES | {"embedding_scale": sizes["d_model"] ** 0.5}
    return text_encoder(options, sizes, attention, layer, **tables)


def _heads(options: Options, kv_heads: int, head_dim: int) -> dict[str, int]:
    return {
        "kv_heads": options.integer("num_key_value_heads", kv_heads),
        "head_dim": options.integer("head_dim", head_dim),
    }


def _fields(
    options: Options, option: str, activation: str, place: NormPosition
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the fields of the attention and of the layer that both families have."""
    options.check(LANGUAGE_SUPPORTED)
    norm = options.norm("rms_norm_eps", 1e-6, has_bias=False, is_rms=True)
    attention = {"has_bias": bool(options.get("attention_bias", False)), "qk_norm": norm}
    return attention, _gated(options, option, activation, norm) | {"norm_position": place}


LANGUAGE_TABLES: dict[str, Any] = {"has_positions": False, "norms_embedding": False}
WORD_HEADS = re.compile(r"^lm_head\.|(^|\.)rotary_emb\.")
"""The head predicts the next token; older files also have the frequencies of the positions."""

# Embeddings need none of the heads that predict words, and that of gte that weighs tokens.
HEADS = re.compile(r"(^|\.)embeddings\.position_ids$|^(pooler|cls|lm_head|head|decoder)\.")
GTE_HEADS = re.compile(rf"{HEADS.pattern}|^classifier\.")


def _gte(theta: float, prefix: str, *embedders: str) -> Family:
    read = partial(read_gte, theta=theta)
    return Family(embedders, prefix, bert_names(GTE_LAYER), read, GTE_HEADS)


MODERN = "ModernBertModel", "ModernBertForMaskedLM"
NOMIC = "NomicBertModel", "NomicBertForMaskedLM", "NomicBertForPreTraining"
QWEN = "Qwen3Model", "Qwen3ForCausalLM"
GEMMA = "Gemma3TextModel", "Gemma3ForCausalLM"
FAMILIES = {
    "modernbert": Family(MODERN, "model.", MODERN_NAMES, read_modern_bert, HEADS),
    # Alibaba's files have the `model_type` `new`, and those of transformers `gte`.
    "new": _gte(10_000.0, "new.", "NewModel", "NewForMaskedLM", "NewForTokenClassification"),
    "gte": _gte(160_000.0, "gte.", "GteModel", "GteForMaskedLM"),
    "nomic_bert": Family(NOMIC, "bert.", NOMIC_NAMES, read_nomic_bert, HEADS),
    "qwen3": Family(QWEN, "model.", QWEN_NAMES, read_qwen3, WORD_HEADS, needs_modules=True),
    "gemma3_text": Family(
        GEMMA, "model.", GEMMA_NAMES, read_gemma3, WORD_HEADS, needs_modules=True
    ),
}
