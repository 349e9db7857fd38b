"""Implements the one layer that encoders and decoders are made of, as a BlockSpec describes it."""

from torch import Tensor, nn

from model.config import BlockSpec
from model.layers.attention import Heads, MultiHeadAttention
from model.layers.cache import LayerState
from model.layers.sublayers import SSRU, FeedForward, Residual, join


class Block(nn.Module):
    """A layer: mixer (self-attention or SSRU), cross-attention in a decoder, feed-forward.

    An encoder, and a pass over given targets, compute a layer in parts, with one method for each.
    `forward` computes a whole layer of a decoder.
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

    @property
    def attention(self) -> MultiHeadAttention:
        assert isinstance(self.mixer, MultiHeadAttention)
        return self.mixer

    def project(self, x: Tensor, positions: Tensor) -> Heads:
        """Returns queries, keys and values for x (B, S, D) at positions (B, S) in the texts."""
        inner = self.mixer_residual.before(x)
        memory = self.mixer_residual.key_value_input(x, inner)
        return self.attention.project(inner, memory, positions)

    def add_attention(self, x: Tensor, heads: Tensor) -> Tensor:
        """Returns x (B, S, D) after self-attention, given weighted values (B, H, S, K)."""
        return self.mixer_residual.after(x, self.attention.merge(heads))

    def project_cross(self, x: Tensor, memory: Tensor) -> Heads:
        """Returns queries for x (B, T, D), and keys and values for the memory (B, S, D)."""
        query = self.cross_attention.project_query(self.cross_residual.before(x))
        return (query, *self.cross_attention.project_key_value(memory))

    def run_feed_forward(self, x: Tensor) -> Tensor:
        """Returns the output (B, T, D) of the feed-forward sublayer, not yet added to x."""
        y: Tensor = self.feed_forward(self.feed_forward_residual.before(x))
        return y

    def add_feed_forward(self, x: Tensor) -> Tensor:
        """Returns x (B, T, D) after the feed-forward sublayer."""
        return self.feed_forward_residual.after(x, self.run_feed_forward(x))

    def forward(
        self, x: Tensor, inner: Tensor, state: LayerState, next_norm: nn.Module
    ) -> tuple[Tensor, Tensor]:
        """Computes a decoder's layer for T new tokens of each row, and updates `state`.

        The state gets the keys and values of the tokens, or the new cell of an SSRU.

        Args:
            x: The residual stream (B, T, D).
            inner: Input of the mixer (B, T, D): x, or its norm in a pre-norm stack.
            state: State of this layer.
            next_norm: First norm of the next layer, or the decoder's final norm.

        Returns:
            The new residual stream (B, T, D), and the input (B, T, D) of the next layer. In a
            pre-norm stack, this input is the stream after `next_norm`, and else the stream itself.
        """
        kernels, cross, last = state.kernels, self.cross_residual, self.feed_forward_residual
        y = self._mix_tokens(x, inner, state)
        x, inner = join(x, y, self.mixer_residual, cross.norm, kernels)
        query = self.cross_attention.project_query(inner)
        y = self.cross_attention((query, state.memory_key, state.memory_value), state.memory_bias)
        x, inner = join(x, y, cross, last.norm, kernels)
        return join(x, self.feed_forward(inner), last, next_norm, kernels)

    def _mix_tokens(self, x: Tensor, inner: Tensor, state: LayerState) -> Tensor:
        if isinstance(self.mixer, SSRU):
            mixed: Tensor = self.mixer(inner, state.cell, state.kernels)
            return mixed
        attended = self.mixer_residual.key_value_input(x, inner)
        query, key, value = self.mixer.project(inner, attended, state.positions)
        bias = state.append(key, value)
        y: Tensor = self.mixer((query, state.self_key, state.self_value), bias)
        return y
