"""Implements the parts of a layer around attention: feed-forward, residual sums, and the SSRU."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import Activation, LayerConfig, NormPosition
from model.layers.row_kernels import RowKernels, next_output

GELU_SLOPE = 1.702


def gelu_sigmoid(x: Tensor) -> Tensor:
    """Returns x · sigmoid(1.702 x), Marian's GELU."""
    return x * torch.sigmoid(GELU_SLOPE * x)


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.RELU: F.relu,
    Activation.SWISH: F.silu,
    Activation.GELU: F.gelu,
    Activation.GELU_TANH: partial(F.gelu, approximate="tanh"),
    Activation.GELU_SIGMOID: gelu_sigmoid,
}


class FeedForward(nn.Module):
    """The feed-forward sublayer: fc2(activation(fc1(x)))."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.d_model, config.ffn_dim)
        self.fc2 = nn.Linear(config.ffn_dim, config.d_model)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda and self.activation is F.relu:  # one kernel computes product, bias and relu
            weight = self.fc1.weight.t()
            flat: Tensor = torch._addmm_activation(self.fc1.bias, x.flatten(0, -2), weight)
            hidden = flat.view(*x.shape[:-1], -1)
        else:
            hidden = self.activation(self.fc1(x))  # (B, T, F)
        y: Tensor = self.fc2(hidden)
        return y


class GatedFeedForward(nn.Module):
    """The feed-forward sublayer fc2(activation(fc1(x)) * gate(x)), without biases.

    Source: Shazeer 2020, "GLU Variants Improve Transformer", equation 6.
    """

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.d_model, config.ffn_dim, bias=False)
        self.gate = nn.Linear(config.d_model, config.ffn_dim, bias=False)
        self.fc2 = nn.Linear(config.ffn_dim, config.d_model, bias=False)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc2(self.activation(self.fc1(x)) * self.gate(x))
        return y


class Residual(nn.Module):
    """The residual sum around a sublayer, with layer norm before the sublayer or after the sum."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm = new_norm(config)
        self.is_pre = config.norm is NormPosition.PRE
        self.norms_keys = config.norms_keys

    def before(self, x: Tensor) -> Tensor:
        """Returns the input of the sublayer for the residual stream x."""
        y: Tensor = self.norm(x) if self.is_pre else x
        return y

    def key_value_input(self, x: Tensor, inner: Tensor) -> Tensor:
        """Returns the input of the key and value projections of self-attention.

        In a pre-norm layer, Marian normalises only the input of the query projection. Other
        families also normalise the input of the key and value projections.

        Source: marian-dev, src/models/transformer.h, LayerAttention, `preProcess`.
        """
        return inner if self.norms_keys else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """Returns the new residual stream for the stream x and the sublayer output y."""
        z: Tensor = x + y if self.is_pre else self.norm(x + y)
        return z


def join(
    x: Tensor, y: Tensor, ended: Residual, next_norm: nn.Module, kernels: RowKernels
) -> tuple[Tensor, Tensor]:
    """Returns the new residual stream after a sublayer, and the input of the next sublayer.

    `ended` belongs to this sublayer. `next_norm` has no effect in a post-norm stack.
    """
    total, normed = kernels.add_norm(x, y, next_norm if ended.is_pre else ended.norm)
    return (total, normed) if ended.is_pre else (normed, normed)


def new_norm(config: LayerConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps, bias=config.has_biases)


def final_norm(config: LayerConfig) -> nn.Module:
    """Returns the layer norm on top of a pre-norm stack, or the identity for a post-norm stack."""
    return nn.Identity() if config.norm is NormPosition.POST else new_norm(config)


class SSRU(nn.Module):
    """The simpler simple recurrent unit, which replaces self-attention in a decoder.

    One vector for each sentence, the cell c, stands for all earlier target tokens. For each input
    x, the unit computes the following, where f * c is an elementwise product:

    f = sigmoid(Wf x + bf);  c = f * c + (1 - f) * W x;  output = relu(c)

    Source: Kim et al. 2019, "From Research to Production and Back", section 3.1.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.update = nn.Linear(d_model, d_model, bias=False)
        self.forget = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, cell: Tensor, kernels: RowKernels) -> Tensor:
        """Returns outputs (B, T, D) for x (B, T, D); updates the cell (B, D) in place."""
        if x.shape[1] == 1:
            return kernels.recur(self.forget(x), self.update(x), cell)
        return self.recur(*self.gates(x), cell)

    def gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns forget gates f and updates (1 - f) * W x, each (B, T, D), for x (B, T, D)."""
        forget = torch.sigmoid(self.forget(x))  # (B, T, D)
        return forget, (1 - forget) * self.update(x)

    def recur(self, forget: Tensor, update: Tensor, cell: Tensor) -> Tensor:
        """Returns outputs (B, T, D) for results of `gates`; updates the cell (B, D) in place."""
        steps = zip(forget.unbind(1), update.unbind(1), strict=True)
        return torch.stack([next_output(*step, cell) for step in steps], dim=1)  # (B, T, D)
