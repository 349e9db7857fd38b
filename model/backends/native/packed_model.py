"""Passes the weights of a translation model to the native code, which reads them in place."""

import ctypes
import weakref
from collections.abc import Sequence as SequenceOf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from model.architectures.embedding import Embedding, sinusoid_table
from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import Shortlist
from model.backends.native.library import (
    ACTIVATIONS,
    Library,
    MatrixSpec,
    ShortlistSpec,
    Sizes,
    WeightList,
    Weights,
    address,
    check,
)
from model.config import DecoderKind, ModelConfig, NormPosition
from model.quantization.int8 import Int8Linear, shape_of
from model.sequence import EngineLimits

DECODERS = {DecoderKind.SSRU: 0, DecoderKind.SELF_ATTENTION: 1}
EVERY_HEAD = -1
"""Value of `recorded_head` that selects the mean over all heads. attention.h has the same value."""


class PackedModel:
    """A native model that reads the weights of a PyTorch model in place.

    The matrices of the PyTorch model are replaced by packed ones, but not the matrix of the output
    layer if there is a shortlist.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        limits: EngineLimits,
        library: Library,
        shortlist: Shortlist | None = None,
    ) -> None:
        self.library = library
        self.kept: list[NDArray[np.generic]] = []  # arrays that the native model reads
        matrices, norms = self._layers(model)
        output = self._output(model, shortlist is not None)
        weights = Weights(
            WeightList(matrices, norms),
            self._table(model.encoder.embedding),
            self._table(model.decoder.embedding),
            output,
            self._positions(model.config, limits),
        )
        sizes = native_sizes(model.config, limits)
        self.handle = ctypes.c_void_p()
        self.shortlist = shortlist  # the native model reads the arrays of the shortlist
        arguments = sizes, weights, native_shortlist(shortlist), self.handle
        check(library.model_new(*map(ctypes.byref, arguments)))
        weakref.finalize(self, library.model_delete, self.handle)
        self.native_bytes: int = library.model_bytes(self.handle)

    def _layers(self, model: EncoderDecoder) -> tuple[list[MatrixSpec], list[int]]:
        """Returns matrices and norms in the order of computation, which is the order of modules."""
        matrices, norms = [], []
        parts = model.encoder.layers, model.encoder.norm, model.decoder.layers, model.decoder.norm
        for module in (module for part in parts for module in part.modules()):
            if isinstance(module, Int8Linear):
                packed = module.pack()
                matrices.append(self._matrix(packed, shape_of(packed), module.scales, module.bias))
            elif isinstance(module, nn.LayerNorm):
                norms += [self._keep(module.weight), self._keep(module.bias)]
        return matrices, norms

    def _output(self, model: EncoderDecoder, has_shortlist: bool) -> MatrixSpec:
        """Returns the output layer's matrix, packed if there is no shortlist.

        If an embedding table shares memory with this matrix, the table is switched to the returned
        matrix, so that the two still share memory.
        """
        output, bias = model.decoder.int8_output, model.decoder.output_bias.detach().clone()
        assert output is not None
        bias[model.config.forbidden_ids] = float("-inf")
        place = output.stored.data_ptr()
        output.stored = output.integers if has_shortlist else output.pack()
        for table in (model.encoder.embedding.quantized, model.decoder.embedding.quantized):
            if table is not None and table.stored.data_ptr() == place:
                table.stored = output.stored
        return self._matrix(output.stored, (output.out, output.width), output.scales, bias)

    def _keep(self, tensor: torch.Tensor) -> int:
        array = tensor.detach().contiguous().numpy()
        self.kept.append(array)
        return address(array)

    def _matrix(
        self,
        values: torch.Tensor,
        shape: SequenceOf[int],
        scales: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> MatrixSpec:
        places = self._keep(values), self._keep(scales), None if bias is None else self._keep(bias)
        return MatrixSpec(*places, *shape, values.dim() == 4)

    def _table(self, embedding: Embedding) -> MatrixSpec:
        table = embedding.quantized
        assert table is not None
        return self._matrix(table.stored, (table.out, table.width), embedding.scales, None)

    def _positions(self, config: ModelConfig, limits: EngineLimits) -> int:
        length = max_positions(config, limits)
        start = config.position_offset
        table = sinusoid_table(start + length, config.d_model, config.sinusoids)
        return self._keep(table[start:])


def max_positions(config: ModelConfig, limits: EngineLimits) -> int:
    return max(limits.max_source_tokens, config.max_target_tokens(limits.max_source_tokens)) + 1


def native_sizes(config: ModelConfig, limits: EngineLimits) -> Sizes:
    return Sizes(
        config.d_model,
        config.num_heads,
        config.ffn_dim,
        config.encoder_layers,
        config.decoder_layers,
        config.source_vocab_size,
        config.target_vocab_size,
        DECODERS[config.decoder],
        ACTIVATIONS[config.activation],
        config.norm is NormPosition.PRE,
        config.norms_keys,
        max_positions(config, limits),
        config.eos_id,
        config.aligning_layer,
        EVERY_HEAD if config.aligning_head is None else config.aligning_head,
        config.d_model**0.5 if config.scales_embeddings else 1.0,
        config.layer_norm_eps,
    )


def native_shortlist(shortlist: Shortlist | None) -> ShortlistSpec:
    if shortlist is None:
        return ShortlistSpec(None, None, 0, 0)
    places = address(shortlist.offsets), address(shortlist.candidates)
    return ShortlistSpec(*places, shortlist.num_frequent, shortlist.is_shared)
