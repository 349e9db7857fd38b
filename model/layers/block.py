"""Implements a layer as a BlockSpec describes it: its parts around attention, and the whole."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import Activation, BlockSpec, NormPosition
from model.layers.attention import Heads, MultiHeadAttention, new_norm

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.RELU: F.relu,
    Activation.SWISH: F.silu,
    Activation.GELU: F.gelu,
    Activation.GELU_TANH: partial(F.gelu, approximate="tanh"),
    Activation.GELU_SIGMOID: lambda x: x * torch.sigmoid(1.702 * x),
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

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        if self.output_norm is not None:
            y = self.output_norm(y)
        z: Tensor = x + y if self.is_pre else self.norm(x + y)
        return z


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
        outputs = [cell.mul_(gate).add_(new).relu() for gate, new in steps]
        return torch.stack(outputs, dim=1)  # (B, T, D)


class Block(nn.Module):
    """A layer: mixer (self-attention or SSRU), cross-attention in a decoder, feed-forward.

    `model.backends` computes the parts of a layer one after the other.
    """

    mixer: MultiHeadAttention | SSRU
    cross_attention: MultiHeadAttention
    cross_residual: Residual

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__()
        width = spec.d_model
        self.mixer = SSRU(width) if spec.mixer is None else MultiHeadAttention(width, spec.mixer)
        self.mixer_residual = Residual(spec, spec.norms_first)
        if spec.cross is not None:
            self.cross_attention = MultiHeadAttention(width, spec.cross)
            self.cross_residual = Residual(spec)
        self.feed_forward = FeedForward(spec)
        self.feed_forward_residual = Residual(spec)

    def attention(self, is_cross: bool = False) -> tuple[MultiHeadAttention, Residual]:
        """Returns self-attention or cross-attention, and the residual sum around it."""
        if is_cross:
            return self.cross_attention, self.cross_residual
        assert isinstance(self.mixer, MultiHeadAttention)
        return self.mixer, self.mixer_residual

    def project(self, x: Tensor, positions: Tensor, inner: Tensor | None = None) -> Heads:
        """Returns queries, keys and values for x (B, S, D) at positions (B, S) in the texts.

        `inner` is the input of the mixer, if the caller has computed it from x.
        """
        module, residual = self.attention()
        inner = residual.before(x) if inner is None else inner
        # Without `norms_keys`, as in marian-dev, src/models/transformer.h, LayerAttention.
        return module.project(inner, inner if residual.norms_keys else x, positions)

    def run_feed_forward(self, x: Tensor) -> Tensor:
        """Returns the output (B, T, D) of the feed-forward sublayer, not yet added to x."""
        y: Tensor = self.feed_forward(self.feed_forward_residual.before(x))
        return y

    def add_feed_forward(self, x: Tensor) -> Tensor:
        return self.feed_forward_residual.after(x, self.run_feed_forward(x))
