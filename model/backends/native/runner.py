"""Implements the runner of int8 models on a CPU: one native call decodes several tokens per row.

A row of the batch is one hypothesis of a sentence. The native code does not pad, and computes each
row on its own. The matrix products are sums of integers. A sentence's translation therefore has the
same bits in every batch.
"""

import ctypes
import weakref
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from model.architectures.embedding import NO_TOKEN, Embedding
from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import Ids, Shortlist
from model.backends.base import CompletedStep, Decoded, Scores, first_token
from model.backends.native.library import (
    ACTIVATIONS,
    LIBRARIES,
    Library,
    MatrixSpec,
    ShortlistSpec,
    Sizes,
    WeightList,
    Weights,
    address,
    int32,
)
from model.config import DecoderKind, ModelConfig, NormPosition
from model.layers.positions import sinusoid_table
from model.quantization.int8 import Int8Linear
from model.quantization.packing import PANEL, shape_of
from model.sequence import BatchStats, EngineLimits, Sequence

DECODERS = {DecoderKind.SSRU: 0, DecoderKind.SELF_ATTENTION: 1}
LANES = 16
OUT_OF_MEMORY = -1
"""Status of a native call that could not allocate memory. guarded.h returns the same value."""

EVERY_HEAD = -1
"""Value of `recorded_head` that selects the mean over all heads. attention.h has the same value."""

TOKENS_PER_CALL = 24
"""Maximum number of tokens per row in one call.

With one token per call, an eighth of the time was spent in Python at 32 rows, and sequences were
encoded in smaller groups. Finished rows and waiting sequences wait for the end of the call (20 ms
at 32 rows). If `low_latency` of `model.engine.engine.Engine` is set, a call decodes fewer tokens.
"""

ENCODE_TOKENS = 1024
"""Maximum number of tokens encoded in one call; a longer source is encoded alone. Each token takes
6 kB of memory. Longer calls would not be faster per token."""


def can_serve(config: ModelConfig) -> bool:
    """Returns whether this machine has native code for an int8 model with this config."""
    return bool(LIBRARIES) and is_supported(config)


def is_supported(config: ModelConfig) -> bool:
    """Returns whether the native code supports this config, even if no build exists here."""
    return (
        config.d_model % PANEL == 0 and config.ffn_dim % PANEL == 0 and config.head_dim % LANES == 0
    )


class NativeRunner:
    """Encodes sequences without padding, and decodes several tokens per row in one call.

    Args:
        model: Int8 model on the CPU; `can_serve` must be true for its config.
        limits: Limits of the batch.
        shortlist: Candidate ids of each sentence; None for the whole vocabulary.
        library: Build of the native code; None for the best build that this processor can run.
    """

    pipeline_depth = 0
    tokens_per_call = TOKENS_PER_CALL

    def __init__(
        self,
        model: EncoderDecoder,
        limits: EngineLimits,
        shortlist: Shortlist | None = None,
        library: Library | None = None,
    ) -> None:
        self.model = model
        self.config = model.config
        self.limits = limits
        self.shortlist = shortlist
        self.library = library or LIBRARIES[0]
        self.packed = PackedModel(model, limits, self.library, shortlist)
        self.every_id = np.arange(self.config.target_vocab_size)
        self.finalizer: weakref.finalize[..., NativeRunner] | None = None
        self.clear()

    def clear(self) -> None:
        """Clears every row."""
        if self.finalizer is not None:
            self.finalizer()  # frees the batch that the new one replaces
        rows = self.limits.max_rows
        self.batch = ctypes.c_void_p()
        check(self.library.batch_new(self.packed.handle, rows, ctypes.byref(self.batch)))
        # The batch reads the packed weights until the batch is deleted. The finaliser therefore
        # keeps the weights alive.
        self.finalizer = weakref.finalize(self, delete_batch, self.packed, self.batch)
        self.tokens = np.full(rows, NO_TOKEN, np.int32)
        self.sources: list[list[int]] = [[]] * rows
        self.candidates: list[Ids | None] = [None] * rows  # set when a row first needs scores

    def enter(self, row: int, sequences: SequenceOf[Sequence]) -> list[BatchStats]:
        """Encodes sequences, as many per native call as the limit of tokens allows."""
        stats = []
        for group in self._groups(sequences):
            stats.append(self._encode(row, group))
            row += sum(sequence.options.beam_size for sequence in group)
        return stats

    def _groups(self, sequences: SequenceOf[Sequence]) -> Iterator[list[Sequence]]:
        group: list[Sequence] = []
        tokens, limit = 0, min(self.limits.max_batch_tokens, ENCODE_TOKENS)
        for sequence in sequences:
            if group and tokens + len(sequence.source) > limit:
                yield group
                group, tokens = [], 0
            group.append(sequence)
            tokens += len(sequence.source)
        yield group

    def _encode(self, row: int, group: list[Sequence]) -> BatchStats:
        sources = [sequence.source for sequence in group]
        lengths, tokens = int32([len(s) for s in sources]), int32(np.concatenate(sources))
        copies = int32([sequence.options.beam_size for sequence in group])
        records = int32([sequence.options.return_attention for sequence in group])
        first_ids = int32([first_token(sequence) for sequence in group])
        arrays = lengths, tokens, copies, records, first_ids
        check(self.library.batch_enter(self.batch, row, len(group), *map(address, arrays)))
        start = NO_TOKEN if self.config.start_id is None else self.config.start_id
        for sequence in group:
            end = row + sequence.options.beam_size
            self.sources[row:end] = [sequence.source] * (end - row)
            self.candidates[row:end] = [None] * (end - row)
            self.tokens[row:end] = start
            row = end
        return BatchStats("encode", len(group), len(tokens), 0)

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_tokens: int
    ) -> CompletedStep:
        """Decodes several tokens of each row, or one token if scores are requested."""
        tokens = 1 if scored else min(self.tokens_per_call, max_tokens)
        best, left = np.empty((rows, tokens), np.int32), int32(remaining)
        places = address(left), address(self.tokens), address(best)
        check(self.library.batch_decode(self.batch, rows, tokens, *places))
        return CompletedStep(Decoded(best, self._scores(scored) if scored else []))

    def _scores(self, scored: SequenceOf[list[int]]) -> list[Scores]:
        groups = [self._candidates(group[0]) for group in scored]
        wanted = int32([row for group in scored for row in group])
        stride = max((len(ids) for ids in groups), default=0)
        logits = np.empty((len(wanted), stride), np.float32)
        places = address(wanted), address(logits)
        check(self.library.batch_logits(self.batch, len(wanted), *places, stride))
        return log_probs(logits, scored, groups)

    def _candidates(self, row: int) -> Ids:
        """Returns the ids of the logits of a row."""
        if self.shortlist is None:
            return self.every_id
        ids = self.candidates[row]
        if ids is None:
            ids = self.candidates[row] = self.shortlist.ids(self.sources[row])
        return ids

    def attention(self, row: int, tokens: int) -> NDArray[np.float32]:
        """Returns the recorded cross-attention of a row, (tokens, source tokens)."""
        weights = np.empty((tokens, len(self.sources[row])), np.float32)
        check(self.library.batch_attention(self.batch, row, weights.size, address(weights)))
        return weights

    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        """Sets the tokens with which these rows continue."""
        self.tokens[rows] = tokens

    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        """Copies rows: row target[i] gets the state that row source[i] had before the call."""
        from_rows, to_rows = int32(source), int32(target)
        check(
            self.library.batch_copy(self.batch, len(source), address(from_rows), address(to_rows))
        )
        self.tokens[target] = self.tokens[source]
        moved = [(self.sources[row], self.candidates[row]) for row in source]
        for row, (tokens, ids) in zip(target, moved, strict=True):
            self.sources[row], self.candidates[row] = tokens, ids

    def leave(self, first: int, end: int) -> None:
        """Frees rows `first` to `end` - 1, which must be the last rows in use."""
        check(self.library.batch_leave(self.batch, first))


class PackedModel:
    """A native model that reads the weights of a PyTorch model in place.

    Args:
        model: Int8 model; its matrices are replaced by packed matrices.
        limits: Limits of the batch. They determine the length of the position table.
        library: Build of the native code.
        shortlist: Candidate ids of each sentence. Without a shortlist, the matrix of the output
            layer is packed.
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

        An embedding table that shares memory with this matrix gets the same matrix.
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
    """Returns the largest number of positions that a source or a target can have."""
    return max(limits.max_source_tokens, config.max_target_tokens(limits.max_source_tokens)) + 1


def native_sizes(config: ModelConfig, limits: EngineLimits) -> Sizes:
    """Returns the config as a structure of the native code."""
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
    """Returns the shortlist as a structure whose arrays the native code reads in place."""
    if shortlist is None:
        return ShortlistSpec(None, None, 0, 0)
    places = address(shortlist.offsets), address(shortlist.candidates)
    return ShortlistSpec(*places, shortlist.num_frequent, shortlist.is_shared)


def log_probs(
    logits: NDArray[np.float32], scored: SequenceOf[list[int]], groups: list[Ids]
) -> list[Scores]:
    """Returns the log-probabilities of each group of rows.

    Args:
        logits: Logits of all groups, one row after the other. A row may have more columns than
            its group has ids.
        scored: Rows of each group.
        groups: Ids of each group; column i of the logits belongs to id i of the group.
    """
    scores, first = [], 0
    for rows, ids in zip(scored, groups, strict=True):
        chosen = torch.from_numpy(logits[first : first + len(rows), : len(ids)])  # (k, U)
        scores.append(Scores.of_columns(torch.log_softmax(chosen, dim=-1), ids))
        first += len(rows)
    return scores


def delete_batch(packed: PackedModel, batch: ctypes.c_void_p) -> None:
    """Frees a batch; until this call, the argument `packed` keeps the batch's weights alive."""
    packed.library.batch_delete(batch)


def check(status: int) -> None:
    """Raises an error for a failed call of the native code.

    Raises:
        MemoryError: The native code could not allocate memory.
        RuntimeError: The native code refused the arguments.
    """
    if status == OUT_OF_MEMORY:
        raise MemoryError("the native code could not allocate memory")
    if status:
        raise RuntimeError("the native code refused its arguments")
