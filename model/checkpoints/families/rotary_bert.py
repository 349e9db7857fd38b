"""Reads configs of BERT's relatives with rotary positions and gates: ModernBERT, gte and nomic.

Does not import torch.

Sources: Warner et al. 2024, section 2.1 (ModernBERT); Zhang et al. 2024, "mGTE", section 2;
Nussbaum et al. 2024, "Nomic Embed", section 3; transformers, models/modernbert, gte, nomic_bert.
"""

import re
from dataclasses import replace
from functools import partial
from typing import Any

from model.checkpoints.families.encoder_family import (
    FULL,
    LOCAL,
    Family,
    Options,
    hugging_face_sizes,
    joined_projections,
    read_activation,
    read_layer_types,
    read_number,
    read_rope,
    read_sizes,
    text_encoder,
)
from model.checkpoints.formats.files import positive_integer, unsupported
from model.config import NormPosition, NormSpec, Rope, TextEncoderConfig

MODERN_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "norm_bias": (False,),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "quantization_config": (None,),
}
THETAS = {FULL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}
"""Maps a layer type to (option, default) of theta, the base of the rotary frequencies."""

MODERN_NAMES = {
    "embedding.tokens": "embeddings.tok_embeddings.weight",
    "embedding.norm": "embeddings.norm",
    "layers.{i}.mixer_residual.norm": "layers.{i}.attn_norm",
    **joined_projections("layers.{i}.attn.Wqkv"),
    "layers.{i}.mixer.out": "layers.{i}.attn.Wo",
    "layers.{i}.feed_forward_residual.norm": "layers.{i}.mlp_norm",
    "layers.{i}.feed_forward.fc1": "layers.{i}.mlp.Wi[0/2]",
    "layers.{i}.feed_forward.gate": "layers.{i}.mlp.Wi[1/2]",
    "layers.{i}.feed_forward.fc2": "layers.{i}.mlp.Wo",
    "norm": "final_norm",
}


def read_modern_bert(options: Options, name: str) -> TextEncoderConfig:
    reasons = unsupported(options, MODERN_SUPPORTED)
    sizes = read_sizes(options, reasons, hugging_face_sizes(1152, 22, 8192, 50368))
    window = positive_integer(options, "local_attention", 128, reasons) // 2
    ropes = {kind: read_rope(options, *THETAS[kind], reasons, kind) for kind in THETAS}
    every = positive_integer(options, "global_attn_every_n_layers", 3, reasons)
    usual = [LOCAL if number % every else FULL for number in range(sizes["layers"])]
    attention = [
        {"has_bias": False, "rope": ropes[kind], "window": window if kind == LOCAL else None}
        for kind in read_layer_types(options, usual, reasons)
    ]
    layer = {
        "activation": read_activation(options, "hidden_activation", "gelu", reasons),
        "has_gate": True,
        "ffn_biases": (False, False),
        "norm": NormSpec(read_number(options, "norm_eps", 1e-5, reasons), has_bias=False),
        "norm_position": NormPosition.PRE,
    }
    config = text_encoder(name, reasons, sizes, attention, layer, has_positions=False)
    first, *others = config.blocks  # the embedding ends with a norm
    return replace(config, blocks=(replace(first, norms_first=False), *others))


GTE_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("rope",),
    "layer_norm_type": ("layer_norm",),
    "logn_attention_scale": (False,),
    "logn_attention_clip1": (False,),
    "pack_qkv": (True,),
    "quantization_config": (None,),
}
TABLES = {
    "embedding.tokens": "embeddings.word_embeddings.weight",
    "embedding.types": "embeddings.token_type_embeddings.weight",
}
GTE_NAMES = {
    **TABLES,
    "embedding.norm": "embeddings.LayerNorm",
    "layers.{i}.mixer.out": "encoder.layer.{i}.attention.o_proj",
    "layers.{i}.mixer_residual.norm": "encoder.layer.{i}.attn_ln",
    "layers.{i}.feed_forward.fc2": "encoder.layer.{i}.mlp.down_proj",
    "layers.{i}.feed_forward_residual.norm": "encoder.layer.{i}.mlp_ln",
    **joined_projections("encoder.layer.{i}.attention.qkv_proj"),
    "layers.{i}.feed_forward.gate": "encoder.layer.{i}.mlp.up_gate_proj[0/2]",
    "layers.{i}.feed_forward.fc1": "encoder.layer.{i}.mlp.up_gate_proj[1/2]",
}


def read_gte(options: Options, name: str, theta: float) -> TextEncoderConfig:
    """Returns the config of an encoder; `theta` is the default of its rotary positions."""
    reasons = unsupported(options, GTE_SUPPORTED)
    sizes = read_sizes(options, reasons, hugging_face_sizes(3072, 12, 8192, 250048))
    types = options.get("type_vocab_size", 1)
    types = 0 if types == 0 else positive_integer(options, "type_vocab_size", 1, reasons)
    scaling: Any = options.get("rope_scaling")
    is_ntk = isinstance(scaling, dict) and scaling.get("type") == "ntk"
    plain = {**options, "rope_scaling": None} if is_ntk else options
    rope = read_rope(plain, "rope_theta", theta, reasons)
    factor = read_number(scaling, "factor", 1.0, reasons) if is_ntk else 1.0
    layer = {
        "activation": read_activation(options, "hidden_act", "gelu", reasons),
        "has_gate": True,
        "ffn_biases": (False, True),
        "norm": NormSpec(read_number(options, "layer_norm_eps", 1e-12, reasons, limit=1)),
    }
    head_dim = max(1, sizes["d_model"] // sizes["heads"])
    attention = {"rope": scaled(rope, factor, head_dim)}
    tables = {"has_positions": False, "token_types": types}
    return text_encoder(name, reasons, sizes, attention, layer, **tables)


def scaled(rope: Rope, factor: float, head_dim: int) -> Rope:
    """Returns rotary positions for texts that are `factor` times longer than in training.

    Source: Su 2023, "Transformer upgrade road 11: mixed base", equation 6 (NTK with one base).
    """
    return Rope(rope.theta * factor, factor ** (2 / head_dim))


NOMIC_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "prenorm": (False,),
    "causal": (False,),
    "parallel_block": (False,),
    "use_rms_norm": (False,),
    "rotary_emb_fraction": (1.0,),
    "rotary_emb_interleaved": (False,),
    "rotary_emb_scale_base": (None,),
    "moe_every_n_layers": (0, None),
    "quantization_config": (None,),
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
NOMIC_NAMES = {
    **TABLES,
    "embedding.norm": "emb_ln",
    "layers.{i}.mixer.out": "encoder.layers.{i}.attn.out_proj",
    "layers.{i}.mixer_residual.norm": "encoder.layers.{i}.norm1",
    "layers.{i}.feed_forward.fc1": "encoder.layers.{i}.mlp.fc12",
    "layers.{i}.feed_forward.gate": "encoder.layers.{i}.mlp.fc11",
    "layers.{i}.feed_forward.fc2": "encoder.layers.{i}.mlp.fc2",
    "layers.{i}.feed_forward_residual.norm": "encoder.layers.{i}.norm2",
    **joined_projections("encoder.layers.{i}.attn.Wqkv"),
}


def read_nomic_bert(options: Options, name: str) -> TextEncoderConfig:
    reasons = unsupported(options, NOMIC_SUPPORTED)
    is_old = "n_embd" in options
    if is_old:
        options = {OLD_OPTIONS.get(option, option): value for option, value in options.items()}
        given = str(options.get("hidden_act"))
        options |= {"hidden_act": GATED.get(given, f"{given} without a gate")}
    sizes = read_sizes(options, reasons, hugging_face_sizes(3072, 12, 2048, 30528))
    if options.get("rotary_scaling_factor") is not None:
        # Longer texts would get positions that depend on the longest text of their batch.
        trained = positive_integer(options, "max_trained_positions", 2048, reasons)
        sizes["max_positions"] = trained
    attention, inner, outer = (
        bool(options.get(option, is_old))
        for option in ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias")
    )
    layer = {
        "activation": read_activation(options, "hidden_act", "silu", reasons),
        "has_gate": True,
        "ffn_biases": (inner, outer),
        "norm": NormSpec(read_number(options, "layer_norm_eps", 1e-12, reasons, limit=1)),
    }
    types = positive_integer(options, "type_vocab_size", 2, reasons)
    rope = read_rope(options, "rope_theta", 1000.0, reasons)
    tables = {"has_positions": False, "token_types": types}
    return text_encoder(
        name, reasons, sizes, {"has_bias": attention, "rope": rope}, layer, **tables
    )


# Embeddings need none of the heads that predict words, and that of gte that weighs tokens.
HEADS = re.compile(r"(^|\.)embeddings\.position_ids$|^(pooler|cls|lm_head|head|decoder)\.")
GTE_HEADS = re.compile(rf"{HEADS.pattern}|^classifier\.")


def _gte(theta: float, prefix: str, *embedders: str) -> Family:
    return Family(embedders, prefix, GTE_NAMES, partial(read_gte, theta=theta), GTE_HEADS)


MODERN = "ModernBertModel", "ModernBertForMaskedLM"
NOMIC = "NomicBertModel", "NomicBertForMaskedLM", "NomicBertForPreTraining"
FAMILIES = {
    "modernbert": Family(MODERN, "model.", MODERN_NAMES, read_modern_bert, HEADS),
    # Alibaba's files have the `model_type` `new`, and those of transformers `gte`.
    "new": _gte(10_000.0, "new.", "NewModel", "NewForMaskedLM", "NewForTokenClassification"),
    "gte": _gte(160_000.0, "gte.", "GteModel", "GteForMaskedLM"),
    "nomic_bert": Family(NOMIC, "bert.", NOMIC_NAMES, read_nomic_bert, HEADS),
}
