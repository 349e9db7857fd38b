"""Implements the runner of int8 models on a CPU: one native call decodes several tokens per row.

A row of the batch is one hypothesis of a sentence. The native code does not pad, and computes each
row on its own. Its matrix products are sums of integers. A sentence's translation therefore has the
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
from model.backends.base import CompletedStep, Decoded, Scores
from model.backends.native.library import (
    LIBRARIES,
    Library,
    MatrixSpec,
    ShortlistSpec,
    Sizes,
    Weights,
    address,
    int32,
)
from model.config import Activation, DecoderKind, ModelConfig, NormPosition
from model.layers.positions import sinusoid_table
from model.quantization.int8 import Int8Linear
from model.quantization.packing import PANEL, shape_of
from model.sequence import BatchStats, EngineLimits, Sequence

ACTIVATIONS = {Activation.RELU: 1, Activation.SWISH: 2}
LANES = 16
EVERY_HEAD = -1
"""Value of `recorded_head` that selects the mean over all heads. attention.h has the same value."""

TOKENS_PER_CALL = 24
"""Maximum number of tokens per row in one call.

With one token per call, an eighth of the time was spent in Python at 32 rows, and sequences were
encoded in smaller groups. Finished rows and waiting sequences wait for the end of the call (20 ms
at 32 rows). If `low_latency` of `model.engine.engine.Engine` is set, its calls decode fewer tokens.
"""

ENCODE_TOKENS = 1024
"""Maximum number of tokens encoded in one call. Each token takes 6 kB of memory. Longer calls would
not be faster per token."""


def can_serve(config: ModelConfig) -> bool:
    """Returns whether this machine has native code for an int8 model with this config."""
    return bool(LIBRARIES) and is_supported(config)


def is_supported(config: ModelConfig) -> bool:
    """Returns whether native code for this config exists, even if it is not compiled here."""
    return (
        config.decoder is DecoderKind.SSRU
        and config.norm is NormPosition.POST
        and config.activation in ACTIVATIONS
        and config.start_id is None
        and config.d_model % PANEL == 0
        and config.ffn_dim % PANEL == 0
        and config.head_dim % LANES == 0
    )


class NativeRunner:
    """Encodes sequences without padding, and decodes several tokens per row in one call.

    Args:
        model: Int8 model on the CPU for which `can_serve` is true.
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
        self.packed = PackedModel(model, limits, self.library)
        self.every_id = np.arange(self.config.target_vocab_size)
        self.clear()

    def clear(self) -> None:
        """Clears every row."""
        rows = self.limits.max_rows
        handle = self.library.batch_new(self.packed.handle, native_shortlist(self.shortlist), rows)
        check(0 if handle else -1)
        self.batch = ctypes.c_void_p(handle)
        # The batch reads the packed weights until it is deleted; the finaliser keeps them alive.
        self.finalizer = weakref.finalize(self, delete_batch, self.packed, self.batch)
        self.tokens = np.full(rows, NO_TOKEN, np.int32)
        self.sources: list[list[int]] = [[]] * rows
        self.candidates: list[Ids | None] = [None] * rows  # of a row with scores, after first use

    def enter(self, row: int, sequences: SequenceOf[Sequence]) -> list[BatchStats]:
        """Encodes sequences, as many in one call as the limit of tokens allows."""
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
        places = (address(lengths), address(tokens), address(copies), address(records))
        check(self.library.batch_enter(self.batch, row, len(group), *places))
        for sequence in group:
            end = row + sequence.options.beam_size
            self.sources[row:end] = [sequence.source] * (end - row)
            self.candidates[row:end] = [None] * (end - row)
            self.tokens[row:end] = NO_TOKEN
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
        self.library.batch_attention(self.batch, row, address(weights))
        return weights

    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        """Sets the tokens with which these rows continue."""
        self.tokens[rows] = tokens

    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        """Copies rows: row target[i] gets the state of row source[i] before the call."""
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
        self.library.batch_leave(self.batch, first)


class PackedModel:
    """A native model that reads the weights of a PyTorch model in place.

    Args:
        model: Int8 model; its matrices are replaced by packed matrices.
        limits: Limits of the batch. They determine the length of the position table.
        library: Build of the native code.
    """

    def __init__(self, model: EncoderDecoder, limits: EngineLimits, library: Library) -> None:
        self.library = library
        self.kept: list[NDArray[np.generic]] = []  # arrays that the native model reads
        matrices, norms = self._layers(model)
        positions = self._positions(model.config, limits)
        output, bias = model.decoder.int8_output, model.decoder.output_bias.detach().clone()
        assert output is not None
        bias[model.config.forbidden_ids] = float("-inf")
        weights = Weights(
            (MatrixSpec * len(matrices))(*matrices),
            (ctypes.c_void_p * len(norms))(*norms),
            self._table(model.encoder.embedding),
            self._table(model.decoder.embedding),
            self._matrix(output.weight, output.weight.shape, bias, output.multiplier),
            positions,
        )
        sizes = native_sizes(model.config, limits)
        handle = library.model_new(ctypes.byref(sizes), ctypes.byref(weights))
        check(0 if handle else -1)
        self.handle = ctypes.c_void_p(handle)
        weakref.finalize(self, library.model_delete, self.handle)
        self.native_bytes: int = library.model_bytes(self.handle)

    def _layers(self, model: EncoderDecoder) -> tuple[list[MatrixSpec], list[int]]:
        """Returns matrices and norms in the order of computation, which is the order of modules."""
        matrices, norms = [], []
        for module in [*model.encoder.layers.modules(), *model.decoder.layers.modules()]:
            if isinstance(module, Int8Linear):
                matrices.append(self._product(module))
            elif isinstance(module, nn.LayerNorm):
                norms += [self._keep(module.weight), self._keep(module.bias)]
        return matrices, norms

    def _keep(self, tensor: torch.Tensor) -> int:
        array = tensor.detach().contiguous().numpy()
        self.kept.append(array)
        return address(array)

    def _product(self, module: Int8Linear) -> MatrixSpec:
        packed = module.pack()
        return self._matrix(packed, shape_of(packed), module.bias, module.multiplier)

    def _matrix(
        self,
        values: torch.Tensor,
        shape: SequenceOf[int],
        bias: torch.Tensor | None,
        multiplier: float,
    ) -> MatrixSpec:
        place = None if bias is None else self._keep(bias)
        return MatrixSpec(self._keep(values), place, multiplier, *shape)

    def _table(self, embedding: Embedding) -> MatrixSpec:
        assert embedding.quantized is not None
        values = embedding.quantized
        return self._matrix(values, values.shape, None, embedding.multiplier)

    def _positions(self, config: ModelConfig, limits: EngineLimits) -> int:
        length = max_positions(config, limits)
        return self._keep(sinusoid_table(length, config.d_model, config.sinusoids))


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
        ACTIVATIONS[config.activation],
        max_positions(config, limits),
        config.eos_id,
        config.aligning_layer,
        EVERY_HEAD if config.aligning_head is None else config.aligning_head,
        config.d_model**0.5,
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
        logits: Logits of all groups, one row after the other. A row may be longer than its ids.
        scored: Rows of each group.
        groups: Ids of each group, which are the columns of its logits.
    """
    scores, first = [], 0
    for rows, ids in zip(scored, groups, strict=True):
        chosen = torch.from_numpy(logits[first : first + len(rows), : len(ids)])  # (k, U)
        scores.append(Scores(torch.log_softmax(chosen, dim=-1), ids))
        first += len(rows)
    return scores


def delete_batch(packed: PackedModel, batch: ctypes.c_void_p) -> None:
    """Frees a batch; until this call, the argument `packed` keeps the batch's weights alive."""
    packed.library.batch_delete(batch)


def check(status: int) -> None:
    """Raises an error for a failed call of the native code.

    Raises:
        MemoryError: The native code could not allocate memory.
    """
    if status:
        raise MemoryError("the native code could not allocate memory")
