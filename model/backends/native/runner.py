"""Implements the runner of int8 models on a CPU: one native call decodes several tokens per row.

The native code does not pad, and computes each row on its own. The matrix products are sums of
integers. A sentence's translation therefore has the same bits in every batch.
"""

import ctypes
import weakref
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.architectures.embedding import NO_TOKEN, Embedding, sinusoid_table, start_token
from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import AnyShortlist, FixedShortlist, Ids
from model.backends.base import (
    Continuations,
    Decoded,
    DecodeStep,
    ModelRunner,
    completed_step,
    first_token,
)
from model.backends.native.library import (
    ACTIVATIONS,
    LIBRARIES,
    Library,
    MatrixSpec,
    NativeModel,
    Searches,
    ShortlistSpec,
    Sizes,
    Weights,
    address,
    check,
    int32,
)
from model.config import DecoderKind, ModelConfig, NormPosition
from model.inspection.captures.capture import Slices
from model.quantization.int8 import Int8Linear, pack
from model.sequence import BatchStats, EngineLimits, Sequence

TOKENS_PER_CALL = 52
"""Maximum number of tokens per row in one call.

Calls of one token were slower: with 32 rows, Python took an eighth of the time. Finished rows and
waiting sequences wait for the end of the call (19 ms at 32 rows, 34 ms at 64 rows).
"""

ENCODE_TOKENS = 512
"""Maximum number of tokens encoded in one call; a longer source is encoded alone. Each token takes
6 kB of memory. Longer calls would not be faster per token."""


DECODERS = {DecoderKind.SSRU: 0, DecoderKind.SELF_ATTENTION: 1}
EVERY_HEAD = -1
"""Value of `recorded_head` that selects the mean over all heads. attention.h has the same value."""


class PackedModel(NativeModel):
    """A native translation model.

    The matrices of the PyTorch model are replaced by packed ones, but not the matrix of the output
    layer if there is a shortlist. With a fixed shortlist, the native model has a packed copy of its
    outputs.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        limits: EngineLimits,
        library: Library,
        shortlist: AnyShortlist | None = None,
    ) -> None:
        super().__init__(library)
        parts = model.encoder.layers, model.encoder.norm, model.decoder.layers, model.decoder.norm
        every = (module for part in parts for module in part.modules())
        modules = (module for module in every if not isinstance(module, nn.Identity))
        layers = self.linears_and_norms(modules, Int8Linear)
        output = self._output(model, shortlist)
        weights = Weights(
            layers,
            self._table(model.encoder.embedding),
            self._table(model.decoder.embedding),
            output,
            self._positions(model.config, limits),
        )
        self.shortlist = shortlist  # the native model reads the arrays of the shortlist
        sizes = native_sizes(model.config, limits)
        self.create("model", sizes, weights, native_shortlist(shortlist))

    def _output(self, model: EncoderDecoder, shortlist: AnyShortlist | None) -> MatrixSpec:
        # An embedding table that shares memory with the matrix of this layer goes on sharing it.
        output, bias = model.decoder.int8_output, model.decoder.output_bias.detach().clone()
        assert output is not None
        bias[model.config.forbidden_ids] = float("-inf")
        if isinstance(shortlist, FixedShortlist):
            ids = torch.from_numpy(shortlist.candidates).long()
            packed, shape = pack(output.rows(ids)), (len(ids), output.width)
            return self.matrix(packed, shape, output.scales[ids], bias[ids])
        place = output.stored.data_ptr()
        output.stored = output.pack() if shortlist is None else output.integers
        for table in (model.encoder.embedding.quantized, model.decoder.embedding.quantized):
            if table is not None and table.stored.data_ptr() == place:
                table.stored = output.stored
        return self.matrix(output.stored, (output.out, output.width), output.scales, bias)

    def _table(self, embedding: Embedding) -> MatrixSpec:
        table = embedding.quantized
        assert table is not None
        return self.matrix(table.stored, (table.out, table.width), embedding.scales, None)

    def _positions(self, config: ModelConfig, limits: EngineLimits) -> int:
        length = max_positions(config, limits)
        start = config.position_offset
        table = sinusoid_table(start + length, config.d_model, config.sinusoids)
        return self.keep(table[start:])


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


def native_shortlist(shortlist: AnyShortlist | None) -> ShortlistSpec:
    if shortlist is None:
        return ShortlistSpec(None, None, 0, 0)
    if isinstance(shortlist, FixedShortlist):
        return ShortlistSpec(None, address(shortlist.candidates), 0, 0)
    places = address(shortlist.offsets), address(shortlist.candidates)
    return ShortlistSpec(*places, shortlist.num_frequent, shortlist.is_shared)


class NativeRunner(ModelRunner):
    """Encodes sequences without padding, and decodes several tokens per row in one call.

    The int8 model is on the CPU, and `can_serve` is true for its config. A `library` of None stands
    for the best build that this processor can run.
    """

    tokens_per_call = TOKENS_PER_CALL
    searches_apart = True

    def __init__(
        self,
        model: EncoderDecoder,
        limits: EngineLimits,
        shortlist: AnyShortlist | None = None,
        library: Library | None = None,
    ) -> None:
        self.model = model
        self.config = model.config
        self.limits = limits
        self.shortlist = shortlist
        self.library = library or LIBRARIES[0]
        self.packed = PackedModel(model, limits, self.library, shortlist)
        self.forced_decoder = NativeForcedDecoder(model.config, self.packed)
        self.finalizer: weakref.finalize[..., NativeRunner] | None = None
        self.clear()

    def clear(self) -> None:
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

    def groups(self, sequences: SequenceOf[Sequence]) -> Iterator[list[Sequence]]:
        group: list[Sequence] = []
        tokens, limit = 0, min(self.limits.max_batch_tokens, ENCODE_TOKENS)
        for sequence in sequences:
            if group and tokens + len(sequence.source) > limit:
                yield group
                group, tokens = [], 0
            group.append(sequence)
            tokens += len(sequence.source)
        yield group

    def encode(self, row: int, group: list[Sequence]) -> BatchStats:
        # The encoding of a finished sequence stays in memory until a new sequence takes its place.
        # If an equal sequence comes before that, it is not encoded again, such as when a guard
        # (`service.tasks.translation.guards`) rejects a translation. For one client, the second
        # decoding then takes about a fifth less time.
        sources = [sequence.source for sequence in group]
        lengths, tokens = int32([len(s) for s in sources]), int32(np.concatenate(sources))
        copies = int32([sequence.options.beam_size for sequence in group])
        records = int32([sequence.options.return_attention for sequence in group])
        first_ids = int32([first_token(sequence) for sequence in group])
        arrays = lengths, tokens, copies, records, first_ids
        check(self.library.batch_enter(self.batch, row, len(group), *map(address, arrays)))
        start = start_token(self.config)
        for sequence in group:
            end = row + sequence.options.beam_size
            self.sources[row:end] = [sequence.source] * (end - row)
            self.tokens[row:end] = start
            row = end
        return BatchStats("encode", len(group), len(tokens), 0)

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_tokens: int
    ) -> DecodeStep:
        tokens = min(self.tokens_per_call, max_tokens)
        best, left = np.empty((rows, tokens), np.int32), int32(remaining)
        places = address(left), address(self.tokens), address(best)
        check(self.library.batch_decode(self.batch, rows, tokens, *places))
        return completed_step(Decoded(best))

    def search(
        self, groups: SequenceOf[list[int]], totals: SequenceOf[list[float]], steps: int
    ) -> list[list[Continuations]]:
        sizes = [len(group) for group in groups]
        beams, rows = int32(sizes), int32(np.concatenate(groups))
        sums, shape = np.concatenate(totals, dtype=np.float64), (steps, 2 * len(rows))
        best, parents, ids = np.empty(shape), np.empty(shape, np.int32), np.empty(shape, np.int32)
        arrays: list[NDArray[Any]] = [self.tokens, sums, best, parents, ids]
        searches = Searches(len(groups), *map(address, (beams, rows)), steps, *map(address, arrays))
        check(self.library.batch_search(self.batch, ctypes.byref(searches)))
        ends = 2 * np.cumsum(sizes)
        places = [slice(end - 2 * size, end) for end, size in zip(ends, sizes, strict=True)]
        # Each array becomes a list once for all searches, because a conversion takes about 0.3 µs.
        lists = zip(best.tolist(), parents.tolist(), ids.tolist(), strict=True)
        return [
            [Continuations(sums[place], origins[place], tokens[place]) for place in places]
            for sums, origins, tokens in lists
        ]

    def attention(self, row: int, tokens: int) -> NDArray[np.float32]:
        weights = np.empty((tokens, len(self.sources[row])), np.float32)
        check(self.library.batch_attention(self.batch, row, weights.size, address(weights)))
        return weights

    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        self.tokens[rows] = tokens

    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        from_rows, to_rows = int32(source), int32(target)
        places = address(from_rows), address(to_rows)
        check(self.library.batch_copy(self.batch, len(source), *places))
        self.tokens[target] = self.tokens[source]
        moved = [self.sources[row] for row in source]
        for row, tokens in zip(target, moved, strict=True):
            self.sources[row] = tokens

    def leave(self, first: int, end: int) -> None:
        check(self.library.batch_leave(self.batch, first))


def delete_batch(packed: PackedModel, batch: ctypes.c_void_p) -> None:
    packed.library.batch_delete(batch)


ROWS = 16
"""Number of targets that are decoded together."""


class NativeForcedDecoder:
    """Computes hidden states of given targets, with the same bits as the native decode steps."""

    def __init__(self, config: ModelConfig, packed: PackedModel) -> None:
        self.packed = packed
        self.width = config.d_model
        self.start = start_token(config)

    def __call__(
        self, sources: SequenceOf[list[int]], targets: SequenceOf[list[int]]
    ) -> Slices[list[Tensor]]:
        found: list[Tensor] = []
        for first in range(0, len(sources), ROWS):
            part = slice(first, first + ROWS)
            found += yield from self._decode(sources[part], targets[part])
        return found

    def _decode(
        self, sources: SequenceOf[list[int]], targets: SequenceOf[list[int]]
    ) -> Slices[list[Tensor]]:
        library, count = self.packed.library, len(sources)
        hidden = [np.empty((len(target), self.width), np.float32) for target in targets]
        tokens, best = int32([self.start] * count), np.empty((count, 1), np.int32)
        with self._new_batch(count) as batch:
            for row, source in enumerate(sources):
                arrays = [*map(int32, ([len(source)], source, [1], [0], [NO_TOKEN]))]
                check(library.batch_enter(batch, row, 1, *map(address, arrays)))
                yield
            for step in range(max(map(len, targets))):
                rows = int32([row for row in range(count) if step < len(targets[row])])
                left = int32([step < len(target) for target in targets])
                places = address(left), address(tokens), address(best)
                check(library.batch_decode(batch, count, 1, *places))
                states = np.empty((len(rows), self.width), np.float32)
                check(library.batch_hidden(batch, len(rows), address(rows), address(states)))
                for row, state in zip(rows.tolist(), states, strict=True):
                    hidden[row][step] = state
                    tokens[row] = targets[row][step]
                yield
        return [torch.from_numpy(each) for each in hidden]

    @contextmanager
    def _new_batch(self, rows: int) -> Iterator[ctypes.c_void_p]:
        batch = ctypes.c_void_p()
        check(self.packed.library.batch_new(self.packed.handle, rows, ctypes.byref(batch)))
        try:
            yield batch
        finally:
            self.packed.library.batch_delete(batch)
