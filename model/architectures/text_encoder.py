"""Implements text encoders: the layers of a TextEncoderConfig, between an embedding and a norm."""

from collections.abc import Sequence

from torch import Tensor, nn

from model.architectures.embedding import TextEmbedding
from model.architectures.encoder import EncoderStack
from model.config import AttentionSpec, TextEncoderConfig
from model.layers.block import Block
from model.layers.positions import RelativeBias, distance_bias
from model.layers.sublayers import final_norm


class TextEncoder(EncoderStack):
    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding: TextEmbedding = TextEmbedding(config)
        self.layers = nn.ModuleList(Block(spec) for spec in config.blocks)
        self.norm = final_norm(config.blocks[-1]) if config.blocks else nn.Identity()
        buckets = config.attention.buckets if config.blocks else 0
        self.relative_bias = RelativeBias(buckets, config.num_heads) if buckets else None

    def biases(self, length: int) -> Sequence[Tensor | None]:
        """Returns the biases as `EncoderStack` describes them; equal layers share one tensor."""
        found: dict[AttentionSpec | None, Tensor | None] = {}
        for block in self.config.blocks:
            if block.mixer not in found:
                found[block.mixer] = self._bias(block.mixer, length)
        return [found[block.mixer] for block in self.config.blocks]

    def _bias(self, spec: AttentionSpec | None, length: int) -> Tensor | None:
        table = None if spec is None else distance_bias(spec, length, self.device)
        if self.relative_bias is not None:
            learned = self.relative_bias(length)
            table = learned if table is None else learned + table
        return None if table is None else table.to(self.embedding.tokens.dtype)
