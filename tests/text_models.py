"""Embedding models of any sizes, with weights from a seed, and texts for them."""

from typing import Any

import numpy as np
import torch

from model.config import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EmbeddingConfig,
    NormSpec,
    TextEncoderConfig,
)
from model.encoding.embedding import EmbeddingJob, EmbeddingModel
from model.quantization.asymmetric import quantize

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
    **others: Any,
) -> TextEncoderConfig:
    """Returns an encoder with the layers of BERT, or of MPNet if it has buckets."""
    mixer = AttentionSpec.of_width(d_model, num_heads, buckets=relative_buckets)
    block = BlockSpec(d_model, ffn_dim, mixer, activation=activation, norm=NormSpec(1e-12))
    return TextEncoderConfig((block,) * layers, vocab_size, max_positions, **others)


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
