"""Embedding models of any sizes, with weights from a seed, and texts for them."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from model.config import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EmbeddingConfig,
    NormPosition,
    NormSpec,
    Rope,
    TextEncoderConfig,
)
from model.encoding.embedding import EmbeddingJob, EmbeddingModel
from model.quantization.int8 import quantize

SIZES: dict[str, Any] = {
    "d_model": 16,
    "num_heads": 2,
    "ffn_dim": 32,
    "layers": 2,
    "vocab_size": 50,
    "max_positions": 80,
    "token_types": 2,
}
WIDE: dict[str, Any] = {"d_model": 64, "num_heads": 4, "ffn_dim": 128}
"""Sizes that native code can serve."""


def text_config(
    d_model: int,
    num_heads: int,
    ffn_dim: int,
    layers: int,
    vocab_size: int,
    max_positions: int,
    relative_buckets: int = 0,
    activation: Activation = Activation.GELU,
    attention: Mapping[str, Any] = MappingProxyType({}),
    block: Mapping[str, Any] = MappingProxyType({}),
    **others: Any,
) -> TextEncoderConfig:
    """Returns an encoder with the layers of BERT, but for the fields of `attention` and `block`."""
    mixer = AttentionSpec.of_width(d_model, num_heads, buckets=relative_buckets)
    mixer = replace(mixer, **attention)
    fields = {"activation": activation, "norm": NormSpec(1e-12), **block}
    layer = BlockSpec(d_model, ffn_dim, mixer, **fields)
    return TextEncoderConfig((layer,) * layers, vocab_size, max_positions, **others)


GATED: dict[str, Any] = {"has_gate": True, "ffn_biases": (False, True)}
NO_BIAS: dict[str, Any] = {
    "has_gate": True,
    "ffn_biases": (False, False),
    "norm": NormSpec(1e-5, has_bias=False),
    "norm_position": NormPosition.PRE,
}
RMS = NormSpec(1e-6, has_bias=False, is_rms=True)
SHARED_KEYS: dict[str, Any] = {
    "kv_heads": 1,
    "head_dim": 64,
    "has_bias": False,
    "rope": Rope(50.0),
    "qk_norm": RMS,
}
NATIVE: dict[str, dict[str, Any]] = {
    "no types": {"token_types": 0},
    "bert": {},
    "mpnet": {"relative_buckets": 32},
    "gte": {"has_positions": False, "attention": {"rope": Rope(50.0)}, "block": GATED},
    "jina": {"has_positions": False, "attention": {"has_alibi": True}, "block": GATED},
    "modernbert": {
        "has_positions": False,
        "attention": {"rope": Rope(50.0, 2.0), "window": 5, "has_bias": False},
        "block": NO_BIAS,
    },
    "qwen3": {
        "has_positions": False,
        "norms_embedding": False,
        "attention": {**SHARED_KEYS, "is_causal": True},
        "block": {**NO_BIAS, "norm": RMS},
    },
    "gemma3": {
        "has_positions": False,
        "norms_embedding": False,
        "embedding_scale": 8.0,
        "attention": {**SHARED_KEYS, "scale": 0.2, "window": 5},
        "block": {**NO_BIAS, "norm": RMS, "norm_position": NormPosition.BOTH},
    },
}
"""Changes of encoders that native code computes, by the family that has them."""

TEXT_FAMILIES: dict[str, dict[str, Any]] = {
    **NATIVE,
    "deberta": {"relative_buckets": 8, "attention": {"is_disentangled": True, "max_distance": 9}},
}
"""Changes of all encoders."""


def new_model(head: dict[str, Any] | None = None, **changes: Any) -> EmbeddingModel:
    """Makes a model with the given sizes, and those of SIZES for the others.

    Args:
        head: Options of the config, other than the encoder.
        changes: Options of the encoder's config.
    """
    encoder = text_config(**SIZES | changes)
    model = EmbeddingModel(EmbeddingConfig(encoder, **{"max_tokens": 64, **(head or {})})).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model


def int8_model(**changes: Any) -> EmbeddingModel:
    model = new_model(**WIDE | changes)
    quantize(model.encoder.layers)
    return model


def jobs(*lengths: int, **settings: Any) -> list[EmbeddingJob]:
    rng = np.random.default_rng(3)
    return [EmbeddingJob(rng.integers(50, size=length).tolist(), **settings) for length in lengths]
