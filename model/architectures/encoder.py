"""Defines a stack of layers: the encoder of a translation model, or a text encoder."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from model.architectures.embedding import Embedding, TextEmbedding
from model.layers.block import Block


class EncoderStack(nn.Module):
    """An embedding, layers and a final norm. The modules of `model.backends` run them.

    The final norm turns the output of the last layer into the hidden states.
    """

    embedding: Embedding | TextEmbedding
    layers: nn.ModuleList
    norm: nn.Module

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def blocks(self) -> list[Block]:
        return cast("list[Block]", list(self.layers))

    def biases(self, length: int) -> Sequence[Tensor | None]:
        """Returns the bias by distance of each layer (`model.layers.positions`), or None.

        The tables are for texts of up to `length` tokens.
        """
        return [None] * len(self.layers)
