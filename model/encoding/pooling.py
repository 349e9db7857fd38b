"""From the vectors of a text's tokens to the vector of the text, in float32.

Source: sentence-transformers, models/Pooling.py, models/Dense.py and models/Normalize.py.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.text_encoder import TextEncoder
from model.backends.native.text_runner import NativeTextEncoder
from model.device import Precision
from model.embedding_config import DenseConfig, EmbeddingConfig, NormalizeConfig, Pooling


def weighted_mean(hidden: Tensor) -> Tensor:
    """The mean of (T, D) in which token t, from 1, weighs t.

    Source: Muennighoff 2022, "SGPT", equation 2.
    """
    weights = torch.arange(1.0, hidden.shape[0] + 1, device=hidden.device)[:, None]
    return (hidden * weights).sum(dim=0) / weights.sum()


POOLINGS: dict[Pooling, Callable[[Tensor], Tensor]] = {
    Pooling.CLS: lambda hidden: hidden[0],
    Pooling.MAX: lambda hidden: hidden.amax(dim=0),
    Pooling.MEAN: lambda hidden: hidden.mean(dim=0),
    Pooling.MEAN_SQRT_LEN: lambda hidden: hidden.sum(dim=0) / hidden.shape[0] ** 0.5,
    Pooling.WEIGHTED_MEAN: weighted_mean,
    Pooling.LAST_TOKEN: lambda hidden: hidden[-1],
}


def pool(hidden: Tensor, ways: tuple[Pooling, ...]) -> Tensor:
    """One vector of a text's tokens (T, D); those of several ways joined in their order."""
    return torch.cat([POOLINGS[way](hidden) for way in ways])


class Normalize(nn.Module):
    """Divides by the Euclidean norm."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) to (B, D)."""
        return F.normalize(x, dim=1)


class Dense(nn.Module):
    """activation(W x + b)."""

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.inputs, config.outputs, bias=config.has_bias)
        self.is_tanh = config.is_tanh

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, outputs)."""
        y: Tensor = self.linear(x)
        return y.tanh() if self.is_tanh else y


class EmbeddingModel(nn.Module):
    """An encoder with its pooling and what follows.

    The encoder may be in another precision; what comes after it is in float32.

    Attributes:
        precision: Of the encoder.
        native: Computes what the encoder does, faster; None where PyTorch has to.
    """

    def __init__(self, config: EmbeddingConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = TextEncoder(config.encoder)
        self.head = nn.Sequential(*map(new_module, config.modules))
        self.precision = Precision.FLOAT32
        self.native: NativeTextEncoder | None = None

    def embed(self, hidden: Tensor, is_raw: bool = False) -> Tensor:
        """The vector (E) of a text whose tokens have vectors (T, D).

        Args:
            hidden: As the last layer leaves them.
            is_raw: Whether a closing Normalize is left out.
        """
        pooled = pool(hidden.float(), self.config.pooling)
        head = self.head[:-1] if is_raw and self.config.is_normalized else self.head
        embedded: Tensor = head(pooled[None])[0]
        return embedded


def new_module(config: DenseConfig | NormalizeConfig) -> nn.Module:
    """The module that a config describes, not filled yet."""
    return Dense(config) if isinstance(config, DenseConfig) else Normalize()
