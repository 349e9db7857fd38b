"""Runs int8 text encoders on a CPU in native code; a native call computes part of a layer."""

import ctypes
import weakref
from collections.abc import Sequence as SequenceOf

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.architectures.text_encoder import TextEncoder
from model.backends.encoder_batch import EncoderBatch
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
from model.config import TextEncoderConfig
from model.quantization.asymmetric import AsymmetricInt8Linear

KEPT_TOKENS = 1024
"""Largest batch, in tokens, whose scratch memory is kept for later batches.

In all-MiniLM-L6-v2 this memory is 20 kB per token.
"""


class NativeTextEncoder(NativeModel):
    """A native encoder that reads the weights of a PyTorch encoder in place.

    Args:
        encoder: Int8 encoder on the CPU; `can_serve` must be true for its config. The matrices of
            the encoder are replaced by packed matrices.
        library: Build of the native code; None for the best build that this processor can run.
    """

    def __init__(self, encoder: TextEncoder, library: Library | None = None) -> None:
        super().__init__(library or LIBRARIES[0])
        self.config = encoder.config
        embedding = encoder.embedding
        assert embedding.positions is not None
        modules = [embedding.norm, *encoder.layers.modules()]
        weights = TextWeights(
            self.linears_and_norms(modules, AsymmetricInt8Linear),
            self.keep(embedding.tokens),
            self.keep(embedding.positions),
            None if embedding.types is None else self.keep(embedding.types[0]),
            self._relative(encoder),
        )
        self.create("text_model", native_sizes(encoder.config), weights)
        self.spare: list[TextBatch] = []

    def _relative(self, encoder: TextEncoder) -> int | None:
        """Returns the address of the relative position bias, padded for reads of whole vectors."""
        if encoder.relative_bias is None:
            return None
        bias = encoder.relative_bias(relative_length(self.config))
        return self.keep(F.pad(bias, (0, LANES)))

    def begin(self, sequences: SequenceOf[list[int]]) -> "TextBatch":
        batch = self.spare.pop() if self.spare else TextBatch(self)
        batch.encoder = self
        batch.enter(sequences)
        return batch

    def end(self, batch: EncoderBatch) -> None:
        """Keeps the scratch memory of a batch that is not used afterwards, unless it is large."""
        assert isinstance(batch, TextBatch)
        batch.encoder = None
        if batch.num_tokens <= KEPT_TOKENS:
            self.spare.append(batch)


class TextBatch(EncoderBatch):
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


def relative_length(config: TextEncoderConfig) -> int:
    return config.max_tokens if config.attention.buckets else 0


def native_sizes(config: TextEncoderConfig) -> TextSizes:
    return TextSizes(
        config.d_model,
        config.num_heads,
        config.ffn_dim,
        config.layers,
        config.vocab_size,
        config.max_positions,
        config.position_offset,
        relative_length(config),
        ACTIVATIONS[config.blocks[0].activation],
        config.blocks[0].norm.eps,
    )
