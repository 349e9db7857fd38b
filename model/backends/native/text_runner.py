"""Runs int8 text encoders on a CPU in native code; a native call computes part of a layer."""

import ctypes
import weakref
from collections.abc import Sequence as SequenceOf
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.stack import TextEncoder
from model.backends.encoder_batch import LayerBatch
from model.backends.native.library import (
    ACTIVATIONS,
    LANES,
    LIBRARIES,
    Library,
    NativeModel,
    TextSizes,
    TextWeights,
    address,
    check,
    int32,
)
from model.config import NormPosition, Rope
from model.layers.positions import rotations
from model.quantization.asymmetric import AsymmetricInt8Linear

KEPT_TOKENS = 1024
"""Largest batch, in tokens, whose scratch memory is kept for later batches.

In all-MiniLM-L6-v2 this memory is 20 kB per token.
"""


class NativeTextEncoder(NativeModel):
    """A native encoder that reads the weights of an int8 PyTorch encoder in place.

    The matrices of the encoder are replaced by packed matrices.
    """

    def __init__(self, encoder: TextEncoder, library: Library | None = None) -> None:
        super().__init__(library or LIBRARIES[0])
        self.config = encoder.config
        embedding, positions = encoder.embedding, encoder.embedding.positions
        last = [] if isinstance(encoder.norm, nn.Identity) else [encoder.norm]
        weights = TextWeights(
            self.linears_and_norms(
                [embedding.norm, *encoder.layers.modules(), *last], AsymmetricInt8Linear
            ),
            self.keep(embedding.tokens),
            None if positions is None else self.keep(positions),
            None if embedding.types is None else self.keep(embedding.types[0]),
            self._pointers(encoder.biases(self.config.max_tokens)),
            self._pointers(self._rotations()),
        )
        self.create("text_model", native_sizes(encoder), weights)
        self.spare: list[TextBatch] = []

    def _pointers(self, tables: SequenceOf[Tensor | None]) -> Any:
        # Each row of a table is padded for reads of whole vectors; equal layers share one.
        places = {
            id(table): None if table is None else self.keep(F.pad(table, (0, LANES)))
            for table in tables
        }
        return (ctypes.c_void_p * len(tables))(*(places[id(table)] for table in tables))

    def _rotations(self) -> list[Tensor | None]:
        """Returns a row of cosines and sines for each layer: K numbers for each position."""
        positions = torch.arange(self.config.max_tokens)[None]
        ropes = [None if block.mixer is None else block.mixer.rope for block in self.config.blocks]
        tables: dict[Rope | None, Tensor | None] = {None: None}
        for rope in filter(None, ropes):
            turns = rotations(positions, self.config.attention.head_dim, rope)
            halves = [turn.chunk(2, dim=-1)[0] for turn in turns]
            tables[rope] = torch.cat(halves, dim=-1).view(1, -1)
        return [tables[rope] for rope in ropes]

    def begin(self, sequences: SequenceOf[list[int]]) -> "TextBatch":
        batch = self.spare.pop() if self.spare else TextBatch(self)
        batch.encoder = self
        batch.enter(sequences)
        return batch

    def end(self, batch: LayerBatch) -> None:
        """Keeps the scratch memory of a batch that is not used afterwards, unless it is large."""
        assert isinstance(batch, TextBatch)
        batch.encoder = None
        if batch.num_tokens <= KEPT_TOKENS:
            self.spare.append(batch)


class TextBatch(LayerBatch):
    """The native hidden states and scratch memory of a batch of texts.

    `encoder` owns the weights that the batch reads. A batch in use keeps it alive. It keeps the
    spare batches alive, which have None here, so that there is no cycle.
    """

    def __init__(self, encoder: NativeTextEncoder) -> None:
        self.encoder: NativeTextEncoder | None = encoder
        self.library, self.config = encoder.library, encoder.config
        self.handle = ctypes.c_void_p()
        check(self.library.text_batch_new(encoder.handle, ctypes.byref(self.handle)))
        weakref.finalize(self, self.library.text_batch_delete, self.handle)
        self.num_layers = self.config.layers
        self.num_tokens = 0

    def enter(self, sequences: SequenceOf[list[int]]) -> None:
        self.lengths = [len(ids) for ids in sequences]
        lengths, ids = int32(self.lengths), int32(np.concatenate(sequences))
        self.num_tokens = len(ids)
        places = address(lengths), address(ids)
        check(self.library.text_batch_enter(self.handle, len(sequences), *places))

    def project(self, layer: int, first: int, count: int) -> None:
        check(self.library.text_batch_project(self.handle, layer, first, count))

    def attend(self, layer: int, first: int, count: int) -> None:
        check(self.library.text_batch_attend(self.handle, layer, first, count))

    def feed_forward(self, layer: int, first: int, count: int) -> None:
        check(self.library.text_batch_feed_forward(self.handle, layer, first, count))

    def read(self) -> Tensor:
        hidden = torch.empty(self.num_tokens, self.config.d_model)
        check(self.library.text_batch_read(self.handle, self.num_tokens, hidden.data_ptr()))
        return hidden


def native_sizes(encoder: TextEncoder) -> TextSizes:
    config, block = encoder.config, encoder.config.blocks[0]
    attention = config.attention
    tables = [table for table in encoder.biases(1) if table is not None]
    return TextSizes(
        config.d_model,
        attention.heads,
        attention.kv_heads,
        attention.head_dim,
        config.ffn_dim,
        config.layers,
        config.vocab_size,
        config.max_positions,
        config.position_offset,
        config.max_tokens if tables else 0,
        all(len(table) == 1 for table in tables),
        block.has_gate,
        attention.qk_norm is not None,
        block.norm_position is NormPosition.BOTH,
        block.norm_position is not NormPosition.POST,
        ACTIVATIONS[block.activation],
        block.norm.eps,
        config.embedding_scale,
        attention.scale or 0.0,
    )
