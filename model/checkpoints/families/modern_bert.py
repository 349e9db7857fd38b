"""Reads configs of ModernBERT (Warner et al. 2024, section 2.1). Does not import torch.

Source: transformers, models/modernbert/configuration_modernbert.py.
"""

import re
from dataclasses import replace
from typing import Any

from model.checkpoints.families.encoder_family import (
    FULL,
    LOCAL,
    Family,
    Options,
    checked,
    hugging_face_sizes,
    joined_projections,
    read_activation,
    read_layer_types,
    read_number,
    read_rope,
    read_sizes,
)
from model.checkpoints.formats.files import positive_integer, unsupported
from model.config import AttentionSpec, BlockSpec, NormPosition, NormSpec, TextEncoderConfig

SUPPORTED: dict[str, tuple[Any, ...]] = {
    "norm_bias": (False,),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "quantization_config": (None,),
}
THETAS = {FULL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}
"""Maps a layer type to (option, default) of theta, the base of the rotary frequencies."""

NAMES = {
    "embedding.tokens": "embeddings.tok_embeddings.weight",
    "embedding.norm.weight": "embeddings.norm.weight",
    "layers.{i}.mixer_residual.norm.weight": "layers.{i}.attn_norm.weight",
    **joined_projections("layers.{i}.attn.Wqkv"),
    "layers.{i}.mixer.out.weight": "layers.{i}.attn.Wo.weight",
    "layers.{i}.feed_forward_residual.norm.weight": "layers.{i}.mlp_norm.weight",
    "layers.{i}.feed_forward.fc1.weight": "layers.{i}.mlp.Wi.weight[0/2]",
    "layers.{i}.feed_forward.gate.weight": "layers.{i}.mlp.Wi.weight[1/2]",
    "layers.{i}.feed_forward.fc2.weight": "layers.{i}.mlp.Wo.weight",
    "norm.weight": "final_norm.weight",
}


def read_modern_bert(options: Options, name: str) -> TextEncoderConfig:
    reasons = unsupported(options, SUPPORTED)
    activation = read_activation(options, "hidden_activation", "gelu", reasons)
    sizes = read_sizes(options, reasons, hugging_face_sizes(1152, 22, 8192, 50368))
    window = positive_integer(options, "local_attention", 128, reasons) // 2
    ropes = {kind: read_rope(options, *THETAS[kind], reasons, kind) for kind in THETAS}
    every = positive_integer(options, "global_attn_every_n_layers", 3, reasons)
    usual = [LOCAL if number % every else FULL for number in range(sizes["layers"])]
    kinds = read_layer_types(options, usual, reasons)
    norm = NormSpec(read_number(options, "norm_eps", 1e-5, reasons), has_bias=False)

    def layer(kind: str) -> BlockSpec:
        width = sizes["d_model"]
        return BlockSpec(
            width,
            sizes["ffn_dim"],
            AttentionSpec.of_width(
                *(width, sizes["heads"]),
                has_bias=False,
                rope=ropes[kind],
                window=window if kind == LOCAL else None,
            ),
            activation=activation,
            has_gate=True,
            ffn_biases=(False, False),
            norm=norm,
            norm_position=NormPosition.PRE,
        )

    def build() -> TextEncoderConfig:
        first, *others = map(layer, kinds)
        # The embedding ends with a norm.
        blocks = replace(first, norms_first=False), *others
        positions = sizes["max_positions"]
        return TextEncoderConfig(blocks, sizes["vocab_size"], positions, has_positions=False)

    return checked(name, reasons, build)


FAMILIES = {
    "modernbert": Family(
        ("ModernBertModel", "ModernBertForMaskedLM"),
        "model.",
        NAMES,
        read_modern_bert,
        re.compile(r"^(head|decoder)\."),
    )
}
