"""Implements the feed-forward sublayer and its activations."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from model.config import Activation, LayerConfig

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.RELU: F.relu,
    Activation.SWISH: F.silu,
    Activation.GELU: F.gelu,
    Activation.GELU_TANH: partial(F.gelu, approximate="tanh"),
}


class FeedForward(nn.Module):
    """The feed-forward sublayer: fc2(activation(fc1(x)))."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.d_model, config.ffn_dim)
        self.fc2 = nn.Linear(config.ffn_dim, config.d_model)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, T, D) to (B, T, D)."""
        hidden = self.activation(self.fc1(x))  # (B, T, F)
        y: Tensor = self.fc2(hidden)
        return y
