"""What encoder and decoder layers are made of."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import MultiHeadAttention
from model.cache import LayerState
from model.config import Activation, DecoderKind, LayerConfig, ModelConfig, NormPosition, Sinusoids

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.RELU: F.relu,
    Activation.SWISH: F.silu,
    Activation.GELU: F.gelu,
    Activation.GELU_TANH: partial(F.gelu, approximate="tanh"),
}


def sinusoid_table(length: int, d_model: int, convention: Sinusoids) -> Tensor:
    """Position embeddings (length, D), float32: sines first, then cosines.

    Source: Vaswani et al. 2017, section 3.5; Marian's frequencies are 10000^(-k/(n-1)) for
    n = D / 2 (marian-dev, src/graph/node_initializers.cpp), Hugging Face's 10000^(-k/n).
    """
    n = d_model // 2
    steps = n - 1 if convention is Sinusoids.MARIAN else n
    frequencies = 10000.0 ** (-torch.arange(n, dtype=torch.float64) / steps)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies  # (length, n)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).float()


class FeedForward(nn.Module):
    """W2 · activation(W1 · x)."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.expand = nn.Linear(config.d_model, config.ffn_dim)
        self.contract = nn.Linear(config.ffn_dim, config.d_model)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        hidden = self.activation(self.expand(x))  # (B, T, F)
        y: Tensor = self.contract(hidden)
        return y


class SSRU(nn.Module):
    """The simpler simple recurrent unit: a decoder's memory in one vector a row.

    f = sigmoid(Wf x + bf);  c = f * c + (1 - f) * W x;  y = relu(c)

    Source: Kim et al. 2019, "From Research to Production and Back", section 3.1.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.update = nn.Linear(d_model, d_model, bias=False)
        self.forget = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, cell: Tensor) -> Tensor:
        """Runs over x (B, T, D) and leaves the last cell (B, D) in place."""
        return self.recur(*self.gates(x), cell)

    def gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What each x (B, T, D) keeps of the cell, and what it adds to it: f and (1 - f) * W x."""
        forget = torch.sigmoid(self.forget(x))  # (B, T, D)
        return forget, (1 - forget) * self.update(x)

    def recur(self, forget: Tensor, update: Tensor, cell: Tensor) -> Tensor:
        """Outputs (B, T, D) of gates (B, T, D); leaves the last cell (B, D) in place."""
        outputs = []
        for position in range(forget.shape[1]):
            cell.mul_(forget[:, position]).add_(update[:, position])
            outputs.append(cell.relu())
        return torch.stack(outputs, dim=1)  # (B, T, D)


class Residual(nn.Module):
    """The residual sum around a sublayer with its one layer norm, before or after."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.is_pre = config.norm is NormPosition.PRE
        self.norms_keys = config.norms_keys

    def before(self, x: Tensor) -> Tensor:
        """What goes into the sublayer."""
        y: Tensor = self.norm(x) if self.is_pre else x
        return y

    def attended(self, x: Tensor, inner: Tensor) -> Tensor:
        """What self-attention takes its keys and values from, for x and `before` of it.

        Source: marian-dev, src/models/transformer.h, LayerAttention: `preProcess` is applied to
        the query alone.
        """
        return inner if self.norms_keys else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """What leaves, for the sublayer's input x and its output y."""
        z: Tensor = x + y if self.is_pre else self.norm(x + y)
        return z


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self, x: Tensor, bias: Tensor | None, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """(B, S, D) to (B, S, D), and the weights (B, H, S, S) or None."""
        inner = self.self_residual.before(x)
        key, value = self.self_attention.project_memory(self.self_residual.attended(x, inner))
        y, weights = self.self_attention(inner, key, value, bias, return_weights)
        x = self.self_residual.after(x, y)
        y = self.feed_forward(self.feed_forward_residual.before(x))
        return self.feed_forward_residual.after(x, y), weights


class DecoderLayer(nn.Module):
    """SSRU or self-attention over the target, cross-attention to the source, feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind = config.decoder
        self.recurrence: SSRU | MultiHeadAttention = (
            SSRU(config.d_model)
            if config.decoder is DecoderKind.SSRU
            else MultiHeadAttention(config.d_model, config.num_heads)
        )
        self.recurrence_residual = Residual(config)
        self.cross_attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self, x: Tensor, state: LayerState, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Decodes x (B, T, D) on top of what `state` holds, and leaves it moved on by T.

        Returns:
            (B, T, D); self-attention weights (B, H, T, L) or None; cross-attention weights
            (B, H, T, S) or None.
        """
        y, self_weights = self._recur(x, state, return_weights)
        x = self.recurrence_residual.after(x, y)
        y, cross_weights = self.cross_attention(
            self.cross_residual.before(x),
            state.memory_key,
            state.memory_value,
            state.memory_bias,
            return_weights,
        )
        x = self.cross_residual.after(x, y)
        y = self.feed_forward(self.feed_forward_residual.before(x))
        return self.feed_forward_residual.after(x, y), self_weights, cross_weights

    def _recur(
        self, x: Tensor, state: LayerState, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        inner = self.recurrence_residual.before(x)
        if isinstance(self.recurrence, SSRU):
            return self.recurrence(inner, state.cell), None
        attended = self.recurrence_residual.attended(x, inner)
        key, value = self.recurrence.project_memory(attended)
        state.append(key, value)
        out: tuple[Tensor, Tensor | None] = self.recurrence(
            inner, state.self_key, state.self_value, state.self_bias, return_weights
        )
        return out
