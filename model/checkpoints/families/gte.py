"""Reads configs of Alibaba's gte encoders: BERT with rotary positions and a gate.

Does not import torch. Alibaba's files have the `model_type` `new`, and those of transformers `gte`.

Source: transformers, models/gte/modeling_gte.py; Zhang et al. 2024, "mGTE", section 2.
"""

import re
from dataclasses import replace
from functools import partial
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
from model.config import AttentionSpec, BlockSpec, NormSpec, Rope, TextEncoderConfig

SUPPORTED: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("rope",),
    "layer_norm_type": ("layer_norm",),
    "logn_attention_scale": (False,),
    "logn_attention_clip1": (False,),
    "pack_qkv": (True,),
    "quantization_config": (None,),
}

NAMES = {
    "embedding.tokens": "embeddings.word_embeddings.weight",
    "embedding.types": "embeddings.token_type_embeddings.weight",
    **weights_and_biases(
        {
            "embedding.norm": "embeddings.LayerNorm",
            "layers.{i}.mixer.out": "encoder.layer.{i}.attention.o_proj",
            "layers.{i}.mixer_residual.norm": "encoder.layer.{i}.attn_ln",
            "layers.{i}.feed_forward.fc2": "encoder.layer.{i}.mlp.down_proj",
            "layers.{i}.feed_forward_residual.norm": "encoder.layer.{i}.mlp_ln",
        }
    ),
    **joined_projections("encoder.layer.{i}.attention.qkv_proj"),
    "layers.{i}.feed_forward.gate.weight": "encoder.layer.{i}.mlp.up_gate_proj.weight[0/2]",
    "layers.{i}.feed_forward.fc1.weight": "encoder.layer.{i}.mlp.up_gate_proj.weight[1/2]",
}


def read_gte(options: Options, name: str, theta: float) -> TextEncoderConfig:
    """Returns the config of an encoder; `theta` is the default of its rotary positions."""
    reasons = unsupported(options, SUPPORTED)
    activation = read_activation(options, "hidden_act", "gelu", reasons)
    norm = NormSpec(read_number(options, "layer_norm_eps", 1e-12, reasons, limit=1))
    sizes = read_sizes(options, reasons, hugging_face_sizes(3072, 12, 8192, 250048))
    types = options.get("type_vocab_size", 1)
    types = 0 if types == 0 else positive_integer(options, "type_vocab_size", 1, reasons)
    scaling: Any = options.get("rope_scaling")
    is_ntk = isinstance(scaling, dict) and scaling.get("type") == "ntk"
    plain = {**options, "rope_scaling": None} if is_ntk else options
    rope = read_rope(plain, "rope_theta", theta, reasons)
    factor = read_number(scaling, "factor", 1.0, reasons) if is_ntk else 1.0

    def build() -> TextEncoderConfig:
        width = sizes["d_model"]
        mixer = AttentionSpec.of_width(width, sizes["heads"])
        mixer = replace(mixer, rope=scaled(rope, factor, mixer.head_dim))
        block = BlockSpec(
            *(width, sizes["ffn_dim"], mixer),
            activation=activation,
            has_gate=True,
            ffn_biases=(False, True),
            norm=norm,
        )
        return TextEncoderConfig(
            (block,) * sizes["layers"],
            sizes["vocab_size"],
            sizes["max_positions"],
            has_positions=False,
            token_types=types,
        )

    return checked(name, reasons, build)


def scaled(rope: Rope, factor: float, head_dim: int) -> Rope:
    """Returns rotary positions for texts that are `factor` times longer than in training.

    Source: Su 2023, "Transformer upgrade road 11: mixed base", equation 6 (NTK with one base).
    """
    return Rope(rope.theta * factor, factor ** (2 / head_dim))


def _family(prefix: str, theta: float, *embedders: str) -> Family:
    # The vectors of texts do not need the heads that predict words or weigh tokens.
    ignored = re.compile(r"^(pooler|lm_head|classifier)\.")
    return Family(embedders, prefix, NAMES, partial(read_gte, theta=theta), ignored)


FAMILIES = {
    "new": _family("new.", 10_000.0, "NewModel", "NewForMaskedLM", "NewForTokenClassification"),
    "gte": _family("new.", 160_000.0, "GteModel", "GteForMaskedLM"),
}
