"""Defines a stack of layers: an encoder, a decoder, or a text encoder."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from model.architectures.embedding import Embedding, TextEmbedding
from model.config import AttentionSpec, BlockSpec, TextEncoderConfig
from model.layers.attention import Heads, RelativeVectors
from model.layers.block import Block
from model.layers.positions import RelativeBias, distance_bias
from model.layers.sublayers import final_norm


class Stack(nn.Module):
    """An embedding, layers and a final norm."""

    embedding: Embedding | TextEmbedding

    def __init__(self, embedding: Embedding | TextEmbedding, specs: Sequence[BlockSpec]) -> None:
        super().__init__()
        self.embedding = embedding
        self.specs = [spec.mixer for spec in specs]
        self.layers = nn.ModuleList(Block(spec) for spec in specs)
        self.norm = final_norm(specs[-1]) if specs else nn.Identity()
        mixer = specs[0].mixer if specs else None
        self.relative_bias: RelativeBias | None = None
        self.relative_vectors: RelativeVectors | None = None
        if mixer is not None and mixer.is_disentangled:
            self.relative_vectors = RelativeVectors(specs[0].d_model, mixer, specs[0].norm)
        elif mixer is not None and mixer.buckets:
            self.relative_bias = RelativeBias(mixer)

    @property
    def device(self) -> torch.device:
        return next(self.embedding.parameters()).device

    @property
    def blocks(self) -> list[Block]:
        return cast("list[Block]", list(self.layers))

    def biases(self, length: int) -> Sequence[Tensor | None]:
        """Returns the bias by distance of each layer (`model.layers.positions`), or None.

        The tables are for texts of up to `length` tokens. Equal layers share one.
        """
        found = {spec: self._bias(spec, length) for spec in dict.fromkeys(self.specs)}
        return [found[spec] for spec in self.specs]

    def relative_heads(self, layer: int) -> Heads | None:
        """Returns the heads of the vectors of distances in a layer; None if there are none."""
        if self.relative_vectors is None:
            return None
        module, _ = self.blocks[layer].attention()
        return self.relative_vectors.project(module)

    def _bias(self, spec: AttentionSpec | None, length: int) -> Tensor | None:
        table = None if spec is None else distance_bias(spec, length, self.device)
        if self.relative_bias is not None:
            learned = self.relative_bias(length)
            table = learned if table is None else learned + table
        return None if table is None else table.to(next(self.embedding.parameters()).dtype)


class TextEncoder(Stack):
    embedding: TextEmbedding

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__(TextEmbedding(config), config.blocks)
        self.config = config
