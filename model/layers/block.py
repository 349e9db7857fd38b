"""Implements the one layer that encoders and decoders are made of, as a BlockSpec describes it."""

from torch import Tensor, nn

from model.config import BlockSpec
from model.layers.attention import Heads, MultiHeadAttention
from model.layers.sublayers import SSRU, FeedForward, Residual


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
        return module.project(inner, residual.key_value_input(x, inner), positions)

    def project_cross(self, x: Tensor, memory: Tensor) -> Heads:
        query = self.cross_attention.project_query(self.cross_residual.before(x))
        return (query, *self.cross_attention.project_key_value(memory))

    def run_feed_forward(self, x: Tensor) -> Tensor:
        """Returns the output (B, T, D) of the feed-forward sublayer, not yet added to x."""
        y: Tensor = self.feed_forward(self.feed_forward_residual.before(x))
        return y

    def add_feed_forward(self, x: Tensor) -> Tensor:
        return self.feed_forward_residual.after(x, self.run_feed_forward(x))
