"""Implements the parts of a layer around attention: feed-forward, residual sums, and the SSRU."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import Activation, BlockSpec, NormPosition
from model.layers.attention import new_norm
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
    Activation.TANH: torch.tanh,
}


class FeedForward(nn.Module):
    """The feed-forward sublayer: fc2(activation(fc1(x))), or fc2(activation(fc1(x)) * gate(x)).

    Source: Shazeer 2020, "GLU Variants Improve Transformer", equation 6.
    """

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        inner, outer = spec.ffn_biases
        self.fc1 = nn.Linear(spec.d_model, spec.ffn_dim, bias=inner)
        self.gate = nn.Linear(spec.d_model, spec.ffn_dim, bias=inner) if spec.has_gate else None
        self.fc2 = nn.Linear(spec.ffn_dim, spec.d_model, bias=outer)
        self.activation = ACTIVATIONS[spec.activation]
        self.is_joined = spec.activation is Activation.RELU and inner and not spec.has_gate

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda and self.is_joined:  # one kernel computes product, bias and relu
            weight = self.fc1.weight.t()
            flat: Tensor = torch._addmm_activation(self.fc1.bias, x.flatten(0, -2), weight)
            hidden = flat.view(*x.shape[:-1], -1)
        else:
            hidden = self.activation(self.fc1(x))  # (B, T, F)
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        y: Tensor = self.fc2(hidden)
        return y


class Residual(nn.Module):
    """The residual sum around a sublayer, and its norms, where `NormPosition` says."""

    def __init__(self, spec: BlockSpec, has_norm: bool = True) -> None:
        super().__init__()
        self.norm: nn.Module = new_norm(spec.d_model, spec.norm) if has_norm else nn.Identity()
        self.is_pre = spec.norm_position is not NormPosition.POST
        self.norms_keys = spec.norms_keys
        is_both = spec.norm_position is NormPosition.BOTH
        self.output_norm = new_norm(spec.d_model, spec.norm) if is_both else None

    def before(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x) if self.is_pre else x
        return y

    def key_value_input(self, x: Tensor, inner: Tensor) -> Tensor:
        """Returns x where only the input of the query projection is normalised, as in Marian.

        Source: marian-dev, src/models/transformer.h, LayerAttention, `preProcess`.
        """
        return inner if self.norms_keys else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        if self.output_norm is not None:
            y = self.output_norm(y)
        z: Tensor = x + y if self.is_pre else self.norm(x + y)
        return z


def join(
    x: Tensor, y: Tensor, ended: Residual, next_norm: nn.Module, kernels: RowKernels
) -> tuple[Tensor, Tensor]:
    """Returns the new residual stream after a sublayer, and the input of the next sublayer.

    `ended` belongs to this sublayer. `next_norm` has no effect in a post-norm stack.
    """
    if ended.output_norm is not None:
        y = ended.output_norm(y)
    total, normed = kernels.add_norm(x, y, next_norm if ended.is_pre else ended.norm)
    return (total, normed) if ended.is_pre else (normed, normed)


def final_norm(spec: BlockSpec) -> nn.Module:
    """Returns the norm on top of a pre-norm stack, or the identity for a post-norm stack."""
    if spec.norm_position is NormPosition.POST:
        return nn.Identity()
    return new_norm(spec.d_model, spec.norm)


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

    def gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns forget gates f and updates (1 - f) * W x, each (B, T, D)."""
        forget = torch.sigmoid(self.forget(x))  # (B, T, D)
        return forget, (1 - forget) * self.update(x)

    def recur(self, forget: Tensor, update: Tensor, cell: Tensor) -> Tensor:
        """Returns outputs (B, T, D) for results of `gates`; updates the cell (B, D) in place."""
        steps = zip(forget.unbind(1), update.unbind(1), strict=True)
        return torch.stack([next_output(*step, cell) for step in steps], dim=1)  # (B, T, D)
