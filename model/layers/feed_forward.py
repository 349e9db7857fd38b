"""Implements the feed-forward sublayer and its activations."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import Activation
from model.embedding_config import LayerConfig

GELU_SLOPE = 1.702


def gelu_sigmoid(x: Tensor) -> Tensor:
    """Returns x · sigmoid(1.702 x), Marian's GELU. The result has the shape of x."""
    return x * torch.sigmoid(GELU_SLOPE * x)


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.RELU: F.relu,
    Activation.SWISH: F.silu,
    Activation.GELU: F.gelu,
    Activation.GELU_TANH: partial(F.gelu, approximate="tanh"),
    Activation.GELU_SIGMOID: gelu_sigmoid,
}


linear_relu: Callable[[Tensor, Tensor, Tensor], Tensor] | None = getattr(
    torch, "_addmm_activation", None
)
"""Computes relu(bias + x @ weight) in one kernel, for x (N, D) and weight (D, F).

None if this version of PyTorch does not have this private operator.
"""


class FeedForward(nn.Module):
    """The feed-forward sublayer: fc2(activation(fc1(x)))."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.d_model, config.ffn_dim)
        self.fc2 = nn.Linear(config.ffn_dim, config.d_model)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda and self.activation is F.relu and linear_relu is not None:
            flat = linear_relu(self.fc1.bias, x.flatten(0, -2), self.fc1.weight.t())
            hidden = flat.view(*x.shape[:-1], -1)
        else:
            hidden = self.activation(self.fc1(x))  # (B, T, F)
        y: Tensor = self.fc2(hidden)
        return y
