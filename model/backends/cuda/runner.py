"""The runtime for GPUs: everything stays on the device, and nothing waits for it.

A step is one launch: a CUDA graph that decodes, chooses each row's likeliest token and leaves it
where the next step reads it. The engine learns the tokens one step late, while the next step is
computed. Shapes are rounded up to a few sizes, for each of which there is a graph.
"""

from bisect import bisect_left
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from model.architectures.decoder import Decoder
from model.architectures.embedding import NO_TOKEN
from model.architectures.encoder import Encoder
from model.architectures.output import FullOutput, force_first
from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import Ids
from model.backends.base import Decoded, Pending, Ready, Scores
from model.backends.cuda.graphs import Function, Graphs, Shape
from model.backends.cuda.staging import Downloads, Slot, Uploads
from model.backends.torch_runner import first_token
from model.config import DecoderKind
from model.layers.attention import mask_bias
from model.layers.cache import DecodingCache
from model.sequence import BatchStats, EngineLimits, Sequence

MIN_ROWS = 8
"""Steps are of so many rows at least. One row costs as much, and a single one takes kernels for
vectors, which sum in another order."""

MIN_WIDTH = 32
"""Sources are padded to so many tokens at least."""

MOST_ROWS = 1024
FEWEST_ROWS = 64
"""Rows of a batch where nobody said how many. A step of the built-in models is some sixty small
kernels, whose launches take as long as their work on 1,000 rows; then time grows with the rows. A
row of theirs takes 0.33 MB: 0.26 of keys and values for 128 source tokens, 0.06 of logits."""

MOVES = (4, 8, 16, 32, 64, 128)
"""Rows moved by one graph; more are moved without."""

ENCODE_TOKENS = 2048
"""Encoding a small batch takes as long as encoding so many tokens more in the batch before:
newcomers of unlike length share a batch up to this much padding."""

ATTENTION = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""The kernel that takes a mask in any shape; cuDNN's would be compiled for every single one."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A sequence, and the first of its rows."""

    sequence: Sequence
    row: int


@dataclass(frozen=True, slots=True)
class Late:
    """A step whose tokens are being copied to the host."""

    slot: Slot
    rows: int
    padding_rows: int

    def wait(self) -> Decoded:
        """Its outcome."""
        self.slot.wait()
        return Decoded(self.slot.numbers[: self.rows, None].copy(), padding_rows=self.padding_rows)


class CudaRuntime:
    """Decodes the whole vocabulary on a GPU, one step ahead of the engine.

    Runs on a CPU too, step by step the same, without graphs and without anything to wait for.

    Args:
        model: On its device and in its precision.
        limits: Rows and tokens.
    """

    lag = 1
    steps = 1

    def __init__(self, model: EncoderDecoder, limits: EngineLimits) -> None:
        config, device = model.config, model.device
        self.model, self.config, self.limits = model, config, limits
        longest = config.max_target_tokens(limits.max_source_tokens) + self.lag
        self.row_sizes = sizes(MIN_ROWS, round_up(limits.max_rows), halves_from=256)
        widest = max(MIN_WIDTH, round_up(limits.max_source_tokens))
        self.widths_of_sources = sizes(MIN_WIDTH, widest, halves_from=64)
        self.widths_of_targets = sizes(MIN_WIDTH, round_up(longest))
        if config.decoder is DecoderKind.SSRU:  # nothing is as wide as the target
            self.widths_of_targets = self.widths_of_targets[-1:]
        rows = self.row_sizes[-1]
        self.nobody = rows  # the row of those who only fill a size
        self.cache = DecodingCache(
            config, rows + 1, widest, self.widths_of_targets[-1], device, model.dtype
        )
        self.tokens = torch.full((rows + 1,), NO_TOKEN, device=device)
        self.first_ids = torch.full((rows + 1,), NO_TOKEN, device=device)
        self.output = FullOutput(model.decoder, config.forbidden_ids)
        self.logits = torch.zeros(rows, config.target_vocab_size, device=device, dtype=model.dtype)
        self.tables = [self._positions(model.encoder), self._positions(model.decoder)]
        self.uploads = Uploads(2 * max(limits.max_batch_tokens, widest, rows + MOVES[-1]), device)
        self.downloads = Downloads(rows, device, slots=self.lag + 2)
        self.graphs = Graphs(device)
        self.widths = np.zeros(rows, np.int64)
        self.lengths = np.zeros(rows, np.int64)

    def _positions(self, part: Encoder | Decoder) -> Tensor:
        """A table as long as it can be needed; graphs read it where it lies now."""
        part.embedding.reach(max(self.widths_of_sources[-1], self.widths_of_targets[-1]))
        return part.embedding.table

    def capture(self) -> None:
        """Makes the graphs, some seconds' work; nothing may be in the batch."""
        self.uploads.arrived.fill_(1)  # as a length too: attention to nothing is not a number
        self.graphs.capture(self._shapes())
        self.clear()

    def _shapes(self) -> Iterator[tuple[Function, Shape]]:
        """All there are, the largest first."""
        for width in reversed(self.widths_of_sources):
            for count in reversed(self._batch_sizes(width)):
                yield self._encode, (count, width)
        lists = self.row_sizes, self.widths_of_sources, self.widths_of_targets
        for shape in product(*(reversed(values) for values in lists)):
            yield self._step, shape
        for shape in product(reversed(MOVES), (False, True)):
            yield self._move, shape

    def _batch_sizes(self, width: int) -> list[int]:
        return sizes(1, max(1, self.limits.max_batch_tokens // width), halves_from=16)

    def clear(self) -> None:
        """Forgets every row; what a graph reads stays where it is."""
        self.cache.clear()
        self.tokens.fill_(NO_TOKEN)
        self.first_ids.fill_(NO_TOKEN)

    def enter(self, row: int, sequences: SequenceOf[Sequence]) -> list[BatchStats]:
        """Encodes newcomers; the other rows of a beam are copies of its first."""
        newcomers, source, target = [], list[int](), list[int]()
        for sequence in sequences:
            newcomers.append(Newcomer(sequence, row))
            end = row + sequence.options.beam_size
            source += [row] * (end - row - 1)
            target += range(row + 1, end)
            row = end
        stats = [self._enter(width, group) for width, group in self._groups(newcomers)]
        if source:
            self.copy(source, target, is_same_source=False)
        return stats

    def _groups(self, newcomers: list[Newcomer]) -> Iterator[tuple[int, list[Newcomer]]]:
        """Those to be encoded together, and the width to which they are padded."""
        group, width, padding = list[Newcomer](), 0, 0
        for newcomer in sorted(newcomers, key=source_tokens, reverse=True):
            own = fit(self.widths_of_sources, source_tokens(newcomer))
            fits = (len(group) + 1) * width <= self.limits.max_batch_tokens
            if group and fits and padding + width - own <= ENCODE_TOKENS:
                group.append(newcomer)
                padding += width - own
                continue
            if group:
                yield width, group
            group, width, padding = [newcomer], own, 0
        if group:
            yield width, group

    def _enter(self, width: int, group: list[Newcomer]) -> BatchStats:
        count = fit(self._batch_sizes(width), len(group))
        source = np.full((count, width), self.config.eos_id)
        lengths, rows = np.ones(count, np.int64), np.full(count, self.nobody)
        first_ids = np.full(count, NO_TOKEN)
        for index, newcomer in enumerate(group):
            lengths[index], rows[index] = source_tokens(newcomer), newcomer.row
            first_ids[index] = first_token(newcomer.sequence)
            source[index, : lengths[index]] = newcomer.sequence.source
        self.uploads.send(source, lengths, rows, first_ids)
        self.graphs.run(self._encode, count, width)
        taken = rows[: len(group)]
        self.widths[taken], self.lengths[taken] = width, 0
        tokens = int(lengths[: len(group)].sum())
        return BatchStats("encode", len(group), tokens, count * width - tokens)

    def _encode(self, count: int, width: int) -> None:
        """Gives `count` sources of `width` tokens their rows, as they arrived."""
        arrived, tokens = self.uploads.arrived, count * width
        source = arrived[:tokens].view(count, width)  # (B, S)
        lengths, rows, first_ids = arrived[tokens : tokens + 3 * count].view(3, count)
        mask = torch.arange(width, device=rows.device) < lengths[:, None]  # (B, S)
        with sdpa_kernel(ATTENTION):
            memory, _ = self.model.encoder(source, mask)
        projected = self.model.decoder.project_memory(memory)
        bias = mask_bias(mask, self.model.dtype)[:, None, None, :]  # (B, 1, 1, S)
        self.cache.fill_rows(rows, projected, bias)
        start = NO_TOKEN if self.config.start_id is None else self.config.start_id
        self.tokens.index_fill_(0, rows, start)
        self.first_ids.index_copy_(0, rows, first_ids)

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_steps: int
    ) -> Pending:
        """One more token for each row; scores are waited for."""
        size = fit(self.row_sizes, rows)
        source_width = fit(self.widths_of_sources, int(self.widths[:rows].max()))
        longest = int(self.lengths[:rows].max()) + 1
        target_width = fit(self.widths_of_targets, longest)
        self.graphs.run(self._step, size, source_width, target_width)
        self.lengths[:rows] += 1
        late = Late(self.downloads.fetch(self.tokens[:rows]), rows, size - rows)
        if not scored:
            return late
        return Ready(replace(late.wait(), scores=self._scores(scored)))

    def _step(self, rows: int, source_width: int, target_width: int) -> None:
        """One token for the first rows, in use or not."""
        self.cache.positions[:rows].clamp_(max=target_width - 1)  # of those not in use
        state = self.cache.view(rows, source_width, 1, target_width)
        with sdpa_kernel(ATTENTION):
            hidden, _, _ = self.model.decoder(self.tokens[:rows, None], state, target_width - 1)
        logits = self.logits[:rows]
        self.output.write_logits(hidden[:, 0], logits)
        if self.config.forces_first:
            force_first(logits, self.cache.positions[:rows], self.first_ids[:rows])
        self.tokens[:rows].copy_(logits.argmax(dim=-1))
        self.cache.advance(rows)

    def _scores(self, scored: SequenceOf[list[int]]) -> list[Scores]:
        """Log-probabilities from the logits of the last step, on the host."""
        rows = [row for group in scored for row in group]
        log_probs = torch.log_softmax(self.logits[rows].float(), dim=-1).cpu()
        ids = np.arange(self.config.target_vocab_size)
        parts = log_probs.split_with_sizes([len(group) for group in scored])
        return [Scores(part, ids) for part in parts]

    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        """Has rows go on with other tokens than their likeliest."""
        self.uploads.send(np.array([rows, tokens]))
        places, values = self.uploads.arrived[: 2 * len(rows)].view(2, -1)
        self.tokens.index_copy_(0, places, values)

    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        """Row target[i] becomes what row source[i] was."""
        for values in (self.widths, self.lengths):
            values[target] = values[source]
        count = next((size for size in MOVES if size >= len(source)), len(source))
        filler = [self.nobody] * (count - len(source))
        self.uploads.send(np.array([source + filler, target + filler]))
        self.graphs.run(self._move, count, is_same_source)

    def _move(self, count: int, is_same_source: bool) -> None:
        source, target = self.uploads.arrived[: 2 * count].view(2, count)
        self.cache.copy_rows(source, target, is_same_source)
        for values in (self.tokens, self.first_ids):
            values.index_copy_(0, target, values[source])

    def leave(self, first: int, end: int) -> None:
        """Rows compute along, for nobody, until others enter them."""


def fitting_rows(model: EncoderDecoder, limits: EngineLimits, free_bytes: int) -> int:
    """How many rows a batch has where nobody said, in a quarter of the free memory at most.

    Args:
        model: On its device and in its precision.
        limits: Tokens.
        free_bytes: Memory of the device.
    """
    config = model.config
    source = round_up(limits.max_source_tokens)
    target = round_up(config.max_target_tokens(limits.max_source_tokens) + CudaRuntime.lag)
    row = DecodingCache(config, 1, source, target, torch.device("meta"), model.dtype)
    row_bytes = row.num_bytes + config.target_vocab_size * model.dtype.itemsize
    rows = free_bytes // 4 // row_bytes
    return max(FEWEST_ROWS, min(MOST_ROWS, 1 << rows.bit_length() >> 1))


def sizes(first: int, last: int, halves_from: int | None = None) -> list[int]:
    """`first` doubled again and again up to `last`.

    With `halves_from`, also the numbers halfway between two of them, from that one on.
    """
    found, size = {last}, first
    while size < last:
        found.add(size)
        if halves_from is not None and size >= halves_from:
            found.add(min(size * 3 // 2, last))
        size *= 2
    return sorted(found)


def fit(allowed: list[int], wanted: int) -> int:
    """The smallest of these sizes in which so many have a place."""
    return allowed[bisect_left(allowed, wanted)]


def round_up(count: int) -> int:
    """To a multiple of eight, in which matrix units and masks are aligned."""
    return -(-count // 8) * 8


def source_tokens(newcomer: Newcomer) -> int:
    """How long its source is."""
    return len(newcomer.sequence.source)
