"""Reads configs of nomic-embed-text: BERT with rotary positions, a gate and few biases.

Does not import torch. Older files have the names of options of GPT-2.

Source: Nussbaum et al. 2024, "Nomic Embed", section 3; transformers, models/nomic_bert.
"""

import re
from typing import Any

from model.checkpoints.families.encoder_family import (
    Family,
    Options,
    checked,
    hugging_face_sizes,
    joined_projections,
    read_activation,
    read_number,
    read_rope,
    read_sizes,
    weights_and_biases,
)
from model.checkpoints.formats.files import positive_integer, unsupported
from model.config import AttentionSpec, BlockSpec, NormSpec, TextEncoderConfig

SUPPORTED: dict[str, tuple[Any, ...]] = {
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
OLD_SIZES = {
    "d_model": ("n_embd", 768),
    "heads": ("n_head", 12),
    "ffn_dim": ("n_inner", 3072),
    "layers": ("n_layer", 12),
    "vocab_size": ("vocab_size", 30528),
    "max_positions": ("n_positions", 2048),
}
OLD_NAMES = {
    "layer_norm_epsilon": "layer_norm_eps",
    "rotary_emb_base": "rope_theta",
    "activation_function": "hidden_act",
}
GATED = {"swiglu": "silu", "geglu": "gelu"}

NAMES = {
    "embedding.tokens": "embeddings.word_embeddings.weight",
    "embedding.types": "embeddings.token_type_embeddings.weight",
    **weights_and_biases(
        {
            "embedding.norm": "emb_ln",
            "layers.{i}.mixer.out": "encoder.layers.{i}.attn.out_proj",
            "layers.{i}.mixer_residual.norm": "encoder.layers.{i}.norm1",
            "layers.{i}.feed_forward.fc1": "encoder.layers.{i}.mlp.fc12",
            "layers.{i}.feed_forward.gate": "encoder.layers.{i}.mlp.fc11",
            "layers.{i}.feed_forward.fc2": "encoder.layers.{i}.mlp.fc2",
            "layers.{i}.feed_forward_residual.norm": "encoder.layers.{i}.norm2",
        }
    ),
    **joined_projections("encoder.layers.{i}.attn.Wqkv"),
}


def read_nomic_bert(options: Options, name: str) -> TextEncoderConfig:
    reasons = unsupported(options, SUPPORTED)
    is_old = "n_embd" in options
    if is_old:
        options = {OLD_NAMES.get(option, option): value for option, value in options.items()}
        given = str(options.get("hidden_act"))
        options |= {"hidden_act": GATED.get(given, f"{given} without a gate")}
    activation = read_activation(options, "hidden_act", "silu", reasons)
    norm = NormSpec(read_number(options, "layer_norm_eps", 1e-12, reasons, limit=1))
    usual = hugging_face_sizes(3072, 12, 2048, 30528)
    sizes = read_sizes(options, reasons, OLD_SIZES if is_old else usual)
    types = positive_integer(options, "type_vocab_size", 2, reasons)
    rope = read_rope(options, "rope_theta", 1000.0, reasons)
    attention, inner, outer = (
        bool(options.get(option, is_default))
        for option, is_default in (
            ("qkv_proj_bias", is_old),
            ("mlp_fc1_bias", is_old),
            ("mlp_fc2_bias", is_old),
        )
    )
    positions = sizes["max_positions"]
    if options.get("rotary_scaling_factor") is not None:
        # Longer texts would get positions that depend on the longest text of their batch.
        positions = positive_integer(options, "max_trained_positions", 2048, reasons)

    def build() -> TextEncoderConfig:
        width = sizes["d_model"]
        block = BlockSpec(
            width,
            sizes["ffn_dim"],
            AttentionSpec.of_width(width, sizes["heads"], has_bias=attention, rope=rope),
            activation=activation,
            has_gate=True,
            ffn_biases=(inner, outer),
            norm=norm,
        )
        return TextEncoderConfig(
            (block,) * sizes["layers"],
            sizes["vocab_size"],
            positions,
            has_positions=False,
            token_types=types,
        )

    return checked(name, reasons, build)


FAMILIES = {
    "nomic_bert": Family(
        ("NomicBertModel", "NomicBertForMaskedLM", "NomicBertForPreTraining"),
        "bert.",
        NAMES,
        read_nomic_bert,
        re.compile(r"(^|\.)embeddings\.position_ids$|^(pooler|cls|lm_head)\."),
    )
}
