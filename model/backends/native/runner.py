"""Runs int8 models on a CPU in native code, which does not pad.

One call decodes several tokens per row of a translation model, or computes a part of a layer of a
text encoder. The results for a text have the same bits in every batch (docs/decisions.md).
"""

import ctypes
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from model.architectures.embedding import NO_TOKEN, Embedding, sinusoid_table, start_token
from model.architectures.output import AnyShortlist, FixedShortlist, Ids
from model.architectures.stack import EncoderDecoder, TextEncoder
from model.backends.base import (
    Continuations,
    Decoded,
    DecodeStep,
    ModelRunner,
    completed_step,
    first_token,
)
from model.backends.encoder_batch import LayerBatch
from model.backends.native.library import (
    ACTIVATIONS,
    LANES,
    Library,
    MatrixSpec,
    NativeBatch,
    NativeModel,
    Searches,
    ShortlistSpec,
    Sizes,
    TextSizes,
    TextWeights,
    Weights,
    address,
    check,
    int32,
)
from model.config import DecoderKind, ModelConfig, NormPosition, Rope
from model.inspection.captures.capture import Slices
from model.layers.positions import rotations
from model.quantization.int8 import pack
from model.sequence import BatchStats, EngineLimits, Sequence, batches

TOKENS_PER_CALL = 52
"""Maximum number of tokens per row in one call (docs/decisions.md, "Native code").

Finished rows and waiting sequences wait for the end of the call: 19 ms at 32 rows, 34 ms at 64.
"""

ENCODE_TOKENS = 512
"""Maximum number of tokens encoded in one call; a longer source is encoded alone. Each token takes
6 kB of memory. Longer calls would not be faster per token."""

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
        library: Library | None = None,
        shortlist: AnyShortlist | None = None,
    ) -> None:
        super().__init__(library)
        encoder, decoder = model.encoder, model.decoder
        parts = nn.ModuleList([encoder.layers, encoder.norm, decoder.layers, decoder.norm])
        modules = [module for module in parts.modules() if not isinstance(module, nn.Identity)]
        output = self._output(model, shortlist)  # before the tables, whose memory it may replace
        config, longest = model.config, limits.max_source_tokens
        positions = max(longest, config.max_target_tokens(longest)) + 1
        start = config.position_offset
        table = sinusoid_table(start + positions, config.d_model, config.sinusoids)
        weights = Weights(
            self.linears_and_norms(modules),
            self._table(encoder.embedding),
            self._table(decoder.embedding),
            output,
            self.keep(table[start:]),
        )
        self.width = config.d_model
        self.shortlist = shortlist  # the native model reads the arrays of the shortlist
        self.create("model", native_sizes(config, positions), weights, native_shortlist(shortlist))

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
        return self.matrix(table.stored, (table.out, table.width), table.scales, None)


def native_sizes(config: ModelConfig, positions: int) -> Sizes:
    return Sizes(
        config.d_model,
        config.num_heads,
        config.ffn_dim,
        config.encoder_layers,
        config.decoder_layers,
        config.source_vocab_size,
        config.target_vocab_size,
        config.decoder is DecoderKind.SELF_ATTENTION,
        ACTIVATIONS[config.activation],
        config.norm is NormPosition.PRE,
        config.norms_keys,
        positions,
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
    """Runs an int8 translation model on a CPU; `can_serve` is true for its config."""

    tokens_per_call = TOKENS_PER_CALL
    searches_apart = True

    def __init__(
        self,
        model: EncoderDecoder,
        limits: EngineLimits,
        shortlist: AnyShortlist | None = None,
        library: Library | None = None,
    ) -> None:
        self.model, self.config = model, model.config
        self.limits, self.shortlist = limits, shortlist
        self.packed = PackedModel(model, limits, library, shortlist)
        self.library = self.packed.library
        self.start = start_token(model.config)
        self.forced_decoder = partial(decode_forced, self.packed, self.start)
        self.clear()

    def clear(self) -> None:
        rows = self.limits.max_rows
        vars(self).pop("batch", None)  # its memory is free before the new batch takes some
        self.batch = NativeBatch(self.packed, "batch", rows)
        self.tokens = np.full(rows, NO_TOKEN, np.int32)
        self.sources: list[list[int]] = [[]] * rows

    def groups(self, sequences: SequenceOf[Sequence]) -> Iterator[list[Sequence]]:
        lengths = [len(sequence.source) for sequence in sequences]
        return batches(sequences, lengths, min(self.limits.max_batch_tokens, ENCODE_TOKENS))

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
        check(self.library.batch_enter(self.batch.handle, row, len(group), *map(address, arrays)))
        for sequence in group:
            end = row + sequence.options.beam_size
            self.sources[row:end] = [sequence.source] * (end - row)
            self.tokens[row:end] = self.start
            row = end
        return BatchStats("encode", len(group), len(tokens), 0)

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_tokens: int
    ) -> DecodeStep:
        tokens = min(self.tokens_per_call, max_tokens)
        best, left = np.empty((rows, tokens), np.int32), int32(remaining)
        places = address(left), address(self.tokens), address(best)
        check(self.library.batch_decode(self.batch.handle, rows, tokens, *places))
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
        check(self.library.batch_search(self.batch.handle, searches))
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
        check(self.library.batch_attention(self.batch.handle, row, weights.size, address(weights)))
        return weights

    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        self.tokens[rows] = tokens

    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        from_rows, to_rows = int32(source), int32(target)
        places = address(from_rows), address(to_rows)
        check(self.library.batch_copy(self.batch.handle, len(source), *places))
        self.tokens[target] = self.tokens[source]
        moved = [self.sources[row] for row in source]
        for row, tokens in zip(target, moved, strict=True):
            self.sources[row] = tokens

    def leave(self, first: int, end: int) -> None:
        check(self.library.batch_leave(self.batch.handle, first))


def decode_forced(
    packed: PackedModel, start: int, sources: SequenceOf[list[int]], targets: SequenceOf[list[int]]
) -> Slices[list[Tensor]]:
    """Computes hidden states of given targets, with the same bits as the native decode steps."""
    library, count = packed.library, len(sources)
    hidden = [np.empty((len(target), packed.width), np.float32) for target in targets]
    tokens, best = int32([start] * count), np.empty((count, 1), np.int32)
    batch = NativeBatch(packed, "batch", count)
    lengths, ids = [len(source) for source in sources], np.concatenate(sources)
    arrays = [*map(int32, (lengths, ids, [1] * count, [0] * count, [NO_TOKEN] * count))]
    check(library.batch_enter(batch.handle, 0, count, *map(address, arrays)))
    yield
    for step in range(max(map(len, targets))):
        rows = int32([row for row in range(count) if step < len(targets[row])])
        left = int32([step < len(target) for target in targets])
        places = address(left), address(tokens), address(best)
        check(library.batch_decode(batch.handle, count, 1, *places))
        states = np.empty((len(rows), packed.width), np.float32)
        check(library.batch_hidden(batch.handle, len(rows), address(rows), address(states)))
        for row, state in zip(rows.tolist(), states, strict=True):
            hidden[row][step] = state
            tokens[row] = targets[row][step]
        yield
    return [torch.from_numpy(each) for each in hidden]


class NativeTextEncoder(NativeModel):
    """A native encoder that reads the weights of an int8 PyTorch encoder in place.

    The matrices of the encoder are replaced by packed matrices.
    """

    def __init__(self, encoder: TextEncoder, library: Library | None = None) -> None:
        super().__init__(library)
        self.config = encoder.config
        embedding, positions = encoder.embedding, encoder.embedding.positions
        last = [] if isinstance(encoder.norm, nn.Identity) else [encoder.norm]
        weights = TextWeights(
            self.linears_and_norms([embedding.norm, *encoder.layers.modules(), *last]),
            self.keep(embedding.tokens),
            None if positions is None else self.keep(positions),
            None if embedding.types is None else self.keep(embedding.types[0]),
            self._pointers(encoder.biases(self.config.max_tokens)),
            self._pointers(self._rotations()),
        )
        self.create("text_model", text_sizes(encoder), weights)

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


class TextBatch(NativeBatch, LayerBatch):
    """The native hidden states of a batch of texts."""

    def __init__(self, encoder: NativeTextEncoder, sequences: SequenceOf[list[int]]) -> None:
        super().__init__(encoder, "text_batch")
        self.library, self.config = encoder.library, encoder.config
        self.num_layers = self.config.layers
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


def text_sizes(encoder: TextEncoder) -> TextSizes:
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
