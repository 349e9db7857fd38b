"""Implements the runner for GPUs: the decoding state stays on the device.

One launch of a CUDA graph decodes several tokens. After each token, the graph stores each row's
most probable token where the next step reads it. The host receives the tokens of a launch while
the device computes the next launch. The number of rows is rounded up to one of a few values. Each
of these values has its own decoding graphs, which serve sources and targets of all lengths.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator
from collections.abc import Sequence as SequenceOf
from functools import partial
from importlib.util import find_spec
from itertools import chain, product

import numpy as np
import torch
from torch import Tensor

from model.architectures.embedding import NO_TOKEN, start_token
from model.architectures.output import FixedShortlist, FullOutput, Ids, force_first
from model.architectures.stack import EncoderDecoder, Stack
from model.backends.base import Continuations, Decoded, DecodeStep, ModelRunner, first_token
from model.backends.cuda.beams import Pending, Search, SearchRows, pack, results
from model.backends.cuda.graphs import Downloads, Function, Graphs, Shape, Slot, Uploads
from model.backends.cuda.records import Records, Weights
from model.backends.decoder_batch import DecodingCache, StepBatch
from model.backends.encoder_batch import begin_batch, encode_padded, round_up, run_whole
from model.layers.attention import PLAIN, Recording, RowKernels, fuse_projections
from model.sequence import BatchStats, EngineLimits, Sequence, batches

MIN_ROWS = 8
"""A step of one row takes as long as a step of eight rows. It would also use kernels for vectors,
which sum in another order and therefore round differently."""

MIN_WIDTH = 32  # smallest padded length of a source, in tokens

FEWEST_ROWS, MOST_ROWS = 64, 1024
"""Bounds of the default number of rows. A row takes 0.33 MB of memory, mostly for the keys and
values of 128 source tokens. For this figure and the next, see docs/decisions.md, "GPU"."""

MOVES = (4, 8, 16, 32, 64, 128)
"""Numbers of rows that a graph can copy. A copy of more rows runs without a graph."""

TOKENS_PER_CALL = 4
"""Number of tokens of each row that one launch decodes.

If the caller asks for fewer tokens, they are decoded without a graph.
"""

BEAM, SEARCH_ROWS = 8, 256
"""Largest number of rows of one search, and of all searches, that a graph decodes.

The second number limits the memory of float32 logits. A larger search is decoded alone, without a
graph.
"""
OUTPUT_MULTIPLE = 64
"""The output layer is padded to a multiple of this number of ids, for which cuBLAS is faster."""

ENCODE_TOKENS = 2048
"""Maximum number of padding tokens that a batch may add to join sources of different lengths.

Each source is padded at least to the next width in `source_widths`, which is not counted. To encode
these padding tokens takes as long as another small batch.
"""


Placed = tuple[int, Sequence]
"""A sequence that waits to be encoded, after the first of its rows."""


class CudaRunner(ModelRunner):
    """Decodes over the whole vocabulary on a GPU, one launch ahead of the engine.

    Ids outside a shortlist have logits of -inf. The runner also works on a CPU, with the same
    results, without graphs and asynchronous copies.
    """

    pipeline_depth = 1
    tokens_per_call = TOKENS_PER_CALL
    searches_apart = True

    def __init__(
        self, model: EncoderDecoder, limits: EngineLimits, shortlist: FixedShortlist | None = None
    ) -> None:
        config, device = model.config, model.device
        self.model, self.config, self.limits, self.shortlist = model, config, limits, shortlist
        self.row_sizes = sizes(MIN_ROWS, round_up(limits.max_rows), halves_from=256)
        widest = max(MIN_WIDTH, round_up(limits.max_source_tokens))
        self.source_widths = sizes(MIN_WIDTH, widest, halves_from=64)
        self.max_target_tokens = max_target_tokens(model, limits)
        rows = self.row_sizes[-1]
        self.padding_row = rows  # spare row, to which padding is written
        self.cache = DecodingCache(
            config, rows + 1, widest, self.max_target_tokens, device, model.dtype
        )
        self.kernels = row_kernels(device, partial(launch_all, device=device, dtype=model.dtype))
        fuse_projections(model)
        self.tokens = torch.full((rows + 1,), NO_TOKEN, device=device)
        self.first_ids = torch.full((rows + 1,), NO_TOKEN, device=device)
        # Decode steps of the other rows overwrite tokens, cells and positions of all rows.
        self.search_cache, self.search_tokens = self.cache.for_searches(), self.tokens.clone()
        self.search_sizes = [size for size in self.row_sizes if size <= SEARCH_ROWS]
        self.search_rows: set[int] = set()
        self.totals = torch.zeros(BEAM * rows, dtype=torch.float64, device=device)
        self.continuations = torch.zeros(6 * BEAM * rows, dtype=torch.long, device=device)
        forbidden = config.forbidden_ids
        if shortlist is not None:
            others = np.setdiff1d(np.arange(config.target_vocab_size), shortlist.candidates)
            forbidden = [*forbidden, *others.tolist()]
        self.output = FullOutput(model.decoder, forbidden, OUTPUT_MULTIPLE)
        self.logits = torch.zeros(rows, len(self.output.bias), device=device, dtype=model.dtype)
        for part in (model.encoder, model.decoder):
            # Graphs read the address of the table, so it has its full length.
            part.embedding.ensure_length(max(widest, self.max_target_tokens))
        self.tables = model.encoder.embedding.table, model.decoder.embedding.table
        uploads = 2 * max(limits.max_batch_tokens, widest, rows + MOVES[-1])
        self.uploads = Uploads(max(uploads, (3 + 2 * BEAM) * rows), device)
        self.chosen = torch.zeros(rows * self.tokens_per_call, dtype=torch.long, device=device)
        slots = self.pipeline_depth + 2
        self.downloads = Downloads(len(self.chosen), device, slots)
        self.records = Records(config, (self.tokens_per_call, rows, widest), device, slots)
        self.graphs = Graphs(device)

    def capture(self) -> None:
        """Captures all graphs, in some seconds; the batch must be empty."""
        self.uploads.arrived.fill_(1)  # sources of length 0 would give NaN
        self.graphs.capture(self._shapes())
        self.clear()

    def _shapes(self) -> Iterator[tuple[Function, Shape]]:
        for width in reversed(self.source_widths):
            for count in reversed(self._batch_sizes(width)):
                yield self._encode, (count, width)
        for rows in reversed(self.row_sizes):
            shape = rows, self.tokens_per_call
            yield self._decode, shape
            yield self._decode_recording, shape
        for rows, beam in product(reversed(self.search_sizes), (BEAM, 1)):
            yield self._search_step, (rows, rows, beam)
        for count in reversed(MOVES):
            yield self._move, (count,)

    def _batch_sizes(self, width: int) -> list[int]:
        return sizes(1, max(1, self.limits.max_batch_tokens // width), halves_from=16)

    def clear(self) -> None:
        self.cache.clear()
        self.tokens.fill_(NO_TOKEN)
        self.first_ids.fill_(NO_TOKEN)
        self.records.leave(0)
        self.search_rows.clear()

    def enter(self, row: int, sequences: SequenceOf[Sequence]) -> list[BatchStats]:
        """Encodes sequences; copies the first row of each beam to the beam's other rows."""
        waiting, searching = list[Placed](), list[int]()
        source, target = list[int](), list[int]()
        for sequence in sequences:
            waiting.append((row, sequence))
            end = row + sequence.options.beam_size
            if sequence.options.needs_log_probs:
                searching += range(row, end)
            elif sequence.options.return_attention:
                self.records.enter(row, len(sequence.source))
            source += [row] * (end - row - 1)
            target += range(row + 1, end)
            row = end
        stats = [self._enter(width, group) for width, group in self._groups(waiting)]
        if source:
            self.copy(source, target, is_same_source=False)
        if searching:
            self._start_searches(searching)
        return stats

    def _start_searches(self, rows: list[int]) -> None:
        self.search_rows.update(rows)
        self.uploads.send(np.array(rows))
        places = self.uploads.arrived[: len(rows)]
        self.search_cache.start_rows(places)
        self.search_tokens.index_fill_(0, places, start_token(self.config))
        # In these rows, other decode steps then write keys only at this position.
        self.cache.positions.index_fill_(0, places, self.max_target_tokens - 1)

    def _groups(self, waiting: list[Placed]) -> Iterator[tuple[int, list[Placed]]]:
        group, width, padding = list[Placed](), 0, 0
        for each in sorted(waiting, key=lambda placed: len(placed[1].source), reverse=True):
            own = fit(self.source_widths, len(each[1].source))
            fits = (len(group) + 1) * width <= self.limits.max_batch_tokens
            if not (group and fits and padding + width - own <= ENCODE_TOKENS):
                if group:
                    yield width, group
                group, width, padding = [], own, 0
            group.append(each)
            padding += width - own
        yield width, group

    def _enter(self, width: int, group: list[Placed]) -> BatchStats:
        size, count = len(group), fit(self._batch_sizes(width), len(group))
        sequences = [sequence for _, sequence in group]
        lengths, rows = np.ones(count, np.int64), np.full(count, self.padding_row)
        source, first_ids = np.full((count, width), self.config.eos_id), np.full(count, NO_TOKEN)
        lengths[:size] = [len(sequence.source) for sequence in sequences]
        rows[:size] = [row for row, _ in group]
        first_ids[:size] = [first_token(sequence) for sequence in sequences]
        ids = chain.from_iterable(sequence.source for sequence in sequences)
        source[:size][np.arange(width) < lengths[:size, None]] = np.fromiter(ids, np.int64)
        self.uploads.send(source, lengths, rows, first_ids)
        self.graphs.run(self._encode, count, width)
        tokens = int(lengths[:size].sum())
        return BatchStats("encode", size, tokens, count * width - tokens)

    def _encode(self, count: int, width: int) -> None:
        """Encodes the `count` uploaded sources, padded to `width` tokens, into their rows."""
        arrived, tokens = self.uploads.arrived, count * width
        source = arrived[:tokens].view(count, width)  # (B, S)
        lengths, rows, first_ids = arrived[tokens : tokens + 3 * count].view(3, count)
        mask = torch.arange(width, device=rows.device) < lengths[:, None]  # (B, S)
        memory = encode_padded(self.model.encoder, source, mask)
        projected = self.model.decoder.project_cross_kv(memory)
        self.cache.fill_rows(rows, projected, lengths)
        self.tokens.index_fill_(0, rows, start_token(self.config))
        self.first_ids.index_copy_(0, rows, first_ids)

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_tokens: int
    ) -> DecodeStep:
        size, tokens = fit(self.row_sizes, rows), min(max_tokens, self.tokens_per_call)
        function = self._decode_recording if self.records.of_rows else self._decode
        self.graphs.run(function, size, tokens)
        slot = self.downloads.fetch(self.chosen[: tokens * size])
        record = self.records.fetch(tokens, size)
        return DecodeStep(tokens, partial(self._wait, slot, tokens, size, remaining, record))

    def _wait(
        self, slot: Slot, num_tokens: int, size: int, remaining: Ids, record: Callable[[], None]
    ) -> Decoded:
        slot.wait()
        record()
        rows, count = len(remaining), num_tokens * size
        best = slot.numbers[:count].reshape(num_tokens, size)[:, :rows].T.copy()
        is_end = best == self.config.eos_id
        is_after_end = is_end.cumsum(axis=1) > is_end
        is_after_limit = np.arange(num_tokens) >= remaining[:, None]
        best[is_after_end | is_after_limit] = -1
        return Decoded(best, computed_rows=size)

    def attention(self, row: int, tokens: int) -> Weights | None:
        return self.records.read(row, tokens)

    def _decode(self, rows: int, tokens: int) -> None:
        for chosen in self.chosen[: tokens * rows].view(tokens, rows):
            self._step(rows, chosen)

    def _decode_recording(self, rows: int, tokens: int) -> None:
        parts = self.chosen[: tokens * rows].view(tokens, rows)
        for chosen, recording in zip(parts, self.records.recordings(tokens, rows), strict=True):
            self._step(rows, chosen, recording)

    def _step(self, rows: int, chosen: Tensor, recording: Recording | None = None) -> None:
        """Decodes one token of each row, and writes it to `chosen` (B,)."""
        last = self.max_target_tokens - 1
        self.cache.positions[:rows].clamp_(max=last)  # the positions of free rows also advance
        tokens, widths = self.tokens[:rows, None], (last + 1, self.source_widths[-1])
        decoder, kernels = self.model.decoder, self.kernels
        batch = StepBatch(decoder, self.cache, tokens, widths, kernels, recording)
        hidden = run_whole(batch)
        logits = self.logits[:rows]
        self.output.write_logits(hidden, logits)
        if self.config.forces_first:
            force_first(logits, self.cache.positions[:rows], self.first_ids[:rows])
        self.kernels.choose(logits, chosen, self.tokens[:rows])
        self.cache.positions[:rows].add_(1)

    def search(
        self, groups: SequenceOf[list[int]], totals: SequenceOf[list[float]], steps: int
    ) -> Iterator[list[Continuations]]:
        searches = [*zip(groups, totals, strict=True)]
        counts = [SEARCH_ROWS if len(rows) > BEAM else len(rows) for rows in groups]
        parts = [*batches(searches, counts, SEARCH_ROWS)]
        return results([self._search(part, steps) for part in parts], parts)

    def _search(self, searches: list[Search], steps: int) -> Pending:
        rows, beam = sum(len(own) for own, _ in searches), max(len(own) for own, _ in searches)
        groups = len(searches)
        if beam <= BEAM:
            beam, rows = BEAM if beam > 1 else 1, fit(self.search_sizes, rows)
            groups = rows
        packed, count = pack(searches, rows, groups, beam, self.padding_row), groups * beam
        self.uploads.send(packed)
        totals = self.uploads.arrived[len(packed) - count : len(packed)]
        self.totals[:count].copy_(totals.view(torch.float64))
        found = self.continuations.new_empty(steps, 6 * count)
        for step in found:
            self.graphs.run(self._search_step, rows, groups, beam)
            step.copy_(self.continuations[: 6 * count])
        slot = Slot(found.numel(), self.model.device)
        slot.copy(found.flatten(), slot.tensor)
        return slot, (steps, 3, groups, 2 * beam)

    def _search_step(self, rows: int, groups: int, beam: int) -> None:
        """Decodes one token of the uploaded rows of searches, and writes `continuations`."""
        cache, decoder = self.search_cache, self.model.decoder
        searches = SearchRows.unpack(self.uploads.arrived, self.totals, rows, groups, beam)
        own, last = searches.rows, self.max_target_tokens - 1
        tokens = self.search_tokens[own, None]
        widths = last + 1, self.source_widths[-1]
        batch = StepBatch(decoder, cache, tokens, widths, self.kernels, rows=own)
        logits = self.output.float_logits(run_whole(batch))  # (R, V)
        if self.config.forces_first:
            force_first(logits, batch.positions[:, 0], self.first_ids[own])
        cache.positions.index_copy_(0, own, batch.num_keys[0].clamp_max(last))
        likely = logits.log_softmax(dim=-1).topk(min(2 * beam, logits.shape[1]))
        found, next_tokens, parents = searches.advance(*likely, self.config.eos_id)
        self.continuations[: found.numel()].copy_(found.flatten())
        self.search_tokens.index_copy_(0, own, next_tokens)
        if beam > 1:
            cache.copy_rows(parents, own, is_same_source=True)

    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        self.uploads.send(np.array([rows, tokens]))
        places, values = self.uploads.arrived[: 2 * len(rows)].view(2, -1)
        self.search_tokens.index_copy_(0, places, values)

    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        count = next((size for size in MOVES if size >= len(source)), len(source))
        filler = [self.padding_row] * (count - len(source))
        self.uploads.send(np.array([source + filler, target + filler]))
        self.graphs.run(self._move, count)
        self.records.move(source, target)
        if self.search_rows:
            self._move_searches(count)
            pairs = zip(source, target, strict=True)
            moved = {new for old, new in pairs if old in self.search_rows}
            self.search_rows = self.search_rows.difference(source, target) | moved

    def _move(self, count: int) -> None:
        source, target = self.uploads.arrived[: 2 * count].view(2, count)
        self.cache.copy_rows(source, target, is_same_source=False)
        for values in (self.tokens, self.first_ids):
            values.index_copy_(0, target, values[source])

    def _move_searches(self, count: int) -> None:
        source, target = self.uploads.arrived[: 2 * count].view(2, count)
        cell = self.search_cache.cell
        if cell.shape[1]:
            cell.index_copy_(1, target, cell[:, source])
        for values in (self.search_cache.positions, self.search_tokens):
            values.index_copy_(0, target, values[source])

    def leave(self, first: int, end: int) -> None:
        # A decode step treats free rows as padding rows.
        self.records.leave(first)
        self.search_rows = {row for row in self.search_rows if row < first}


def fitting_rows(model: EncoderDecoder, limits: EngineLimits, free_bytes: int) -> int:
    """Returns the default number of rows, a power of two from FEWEST_ROWS to MOST_ROWS.

    If the number is above FEWEST_ROWS, the rows take at most a quarter of the memory that remains
    free beside the graphs. The graphs share the intermediate values of the largest batch, or the
    float32 logits and log-probabilities of searches.
    """
    config, size = model.config, model.dtype.itemsize
    source, target = round_up(limits.max_source_tokens), max_target_tokens(model, limits)
    row = DecodingCache(config, 1, source, target, torch.device("meta"), model.dtype)
    row_bytes = row.num_bytes + config.target_vocab_size * size
    numbers = (5 + 2 * config.decoder_layers) * config.d_model + 2 * config.ffn_dim
    graph_bytes = max(limits.max_batch_tokens, source) * numbers * size
    graph_bytes = max(graph_bytes, 8 * SEARCH_ROWS * config.target_vocab_size)
    rows = max(0, free_bytes - graph_bytes) // 4 // row_bytes
    return max(FEWEST_ROWS, min(MOST_ROWS, 1 << rows.bit_length() >> 1))


def max_target_tokens(model: EncoderDecoder, limits: EngineLimits) -> int:
    """Returns the number of target positions of a row; steps after its end use the last one."""
    return round_up(model.config.max_target_tokens(limits.max_source_tokens) + 1)


def sizes(first: int, last: int, halves_from: int) -> list[int]:
    """Returns `first`, 2 * `first`, 4 * `first` and so on below `last`, and then `last`.

    Sizes of at least `halves_from` are followed by 1.5 times the size, if that is below `last`.
    """
    found, size = {last}, first
    while size < last:
        found.add(size)
        if size >= halves_from:
            found.add(min(size * 3 // 2, last))
        size *= 2
    return sorted(found)


def fit(allowed: list[int], wanted: int) -> int:
    return allowed[bisect_left(allowed, wanted)]


logger = logging.getLogger("regard.graphs")

MIN_CAPABILITY = (8, 0)
"""Compute capability of the oldest GPUs for which Triton compiles kernels (Ampere)."""


def row_kernels(device: torch.device, launch: Callable[[RowKernels], object]) -> RowKernels:
    """Returns Triton's kernels if Triton can compile them for the device, else PyTorch's.

    `launch` launches each kernel that the caller needs. Triton compiles a kernel at its first
    launch. It needs a C compiler, and a writable folder for the compiled code, such as
    TRITON_CACHE_DIR.
    """
    if device.type != "cuda" or find_spec("triton") is None:
        return PLAIN
    if torch.cuda.get_device_capability(device) < MIN_CAPABILITY:
        return PLAIN
    try:
        from model.backends.cuda.triton_kernels import TritonKernels

        kernels = TritonKernels()
        launch(kernels)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # Triton raises errors of many types
        logger.warning(
            "Triton cannot compile kernels, so PyTorch computes, and takes longer: %s", error
        )
        return PLAIN
    return kernels


@torch.inference_mode()
def text_kernels(encoder: Stack) -> RowKernels | None:
    """Returns the kernels for batches of texts on a GPU, and None on a CPU."""
    if encoder.device.type != "cuda":
        return None
    return row_kernels(
        encoder.device, lambda kernels: run_whole(begin_batch(encoder, [[0]], (), kernels))
    )


def launch_all(kernels: RowKernels, device: torch.device, dtype: torch.dtype) -> None:
    heads = torch.zeros(1, 1, 1, 32, device=device, dtype=dtype)
    vector, ids = heads[0], torch.ones(1, 1, dtype=torch.long, device=device)
    norm = torch.nn.LayerNorm(32, device=device, dtype=dtype)
    with torch.inference_mode():
        for new in (None, (heads, heads)):
            kernels.attend(heads, heads.clone(), heads.clone(), ids[0], new)
        kernels.embed(0 * ids, 0 * ids, vector[0], vector[0], 1.0)
        kernels.add_norm(vector, vector, norm)
        kernels.recur(vector, vector, torch.zeros_like(vector[0]))
        kernels.choose(vector[0], ids[0], ids[0].clone())
