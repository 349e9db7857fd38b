"""The in-flight batch: sentences enter when rows are free and leave when they are finished.

Token ids only. Synchronous and single-threaded: one worker drives one engine.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from model.attention import mask_bias
from model.cache import DecodingCache
from model.decoding import Search, new_search
from model.errors import BeamSizeError, EmptySourceError, SourceTooLongError, UnknownTokenError
from model.output import FullOutput, OutputLayer, ShortlistOutput
from model.sequence import BatchStats, EngineLimits, Finished, Sequence
from model.shortlist import Shortlist
from model.transformer import NO_TOKEN, EncoderDecoder

MIN_WIDTH = 32
"""Sources are padded to at least this many tokens: attention kernels sum over fewer keys in
another order, and in float32 the bits of a sentence's result would depend on how far its batch
is padded."""

WIDTH_MULTIPLE = 8
"""And to a multiple of this, for the same reason, and so that few shapes occur."""

MAX_SPREAD = 1.25
"""Sentences are encoded together up to this ratio of the widest to the narrowest."""

MIN_ROWS = 4
"""A step computes at least this many rows: below it, CPU matrix products take kernels that
sum in another order, and the same sentence would get other bits alone than in a batch."""


@dataclass(eq=False, slots=True)
class Running:
    """A sequence in the batch, with the rows that it holds."""

    sequence: Sequence
    search: Search
    rows: list[int] = field(default_factory=list)


class Engine:
    """Translates sequences that are admitted at any time, one `step` for all of them at a time.

    Args:
        model: On its device and in its precision.
        limits: Rows and tokens.
        shortlist: Restricts each sentence's output; None for the whole vocabulary.
    """

    def __init__(
        self, model: EncoderDecoder, limits: EngineLimits, shortlist: Shortlist | None = None
    ) -> None:
        self.model = model
        self.config = model.config
        self.limits = limits
        self.shortlist = shortlist
        self.max_source_width = round_up(limits.max_source_tokens)
        self.max_target_width = round_up(self.config.max_target_tokens(limits.max_source_tokens))
        self.clear()

    def clear(self) -> None:
        """Forgets every sequence; the way back after an error in the middle of a step."""
        rows = max(self.limits.max_rows, MIN_ROWS)
        self.cache = DecodingCache(
            self.config,
            rows,
            self.max_source_width,
            self.max_target_width,
            self.model.device,
            self.model.dtype,
        )
        self.output = self._output_layer(rows)
        self.running: dict[int, Running] = {}
        self.owners: list[Running] = []  # of rows 0 to n - 1
        self.tokens = np.full(rows, NO_TOKEN, np.int64)
        self.widths = np.zeros(rows, np.int64)
        self.lengths = np.zeros(rows, np.int64)
        self.stats: list[BatchStats] = []

    def _output_layer(self, rows: int) -> OutputLayer:
        forbidden = [i for i in (self.config.unk_id, self.config.pad_id) if i is not None]
        if self.shortlist is None:
            return FullOutput(self.model.decoder, forbidden)
        return ShortlistOutput(self.model.decoder, forbidden, self.shortlist, rows)

    @property
    def num_rows(self) -> int:
        """Rows in use."""
        return len(self.owners)

    @property
    def free_rows(self) -> int:
        """Rows that newcomers may take."""
        return self.limits.max_rows - self.num_rows

    def drain_stats(self) -> list[BatchStats]:
        """What was computed since the last call."""
        stats, self.stats = self.stats, []
        return stats

    def check(self, sequence: Sequence) -> None:
        """Refuses what can never be translated.

        Raises:
            EmptySourceError: No tokens.
            SourceTooLongError: More tokens than the limit.
            UnknownTokenError: An id outside the vocabulary.
            BeamSizeError: A beam wider than the batch.
        """
        length, limit = len(sequence.source), self.limits.max_source_tokens
        if not length:
            raise EmptySourceError("the source has no tokens")
        if length > limit:
            raise SourceTooLongError(
                f"the source has {length} tokens; the limit is {limit}. Split the text."
            )
        if not 0 <= min(sequence.source) <= max(sequence.source) < self.config.source_vocab_size:
            raise UnknownTokenError(
                f"the source has ids from {min(sequence.source)} to {max(sequence.source)}; "
                f"the vocabulary has {self.config.source_vocab_size}"
            )
        if not 1 <= sequence.options.beam_size <= self.limits.max_rows:
            raise BeamSizeError(
                f"beam size is {sequence.options.beam_size}; "
                f"it must be from 1 to {self.limits.max_rows}"
            )

    @torch.inference_mode()
    def admit(self, sequences: SequenceOf[Sequence]) -> None:
        """Encodes newcomers, those of like length together, and gives them rows.

        The caller sees to it that `free_rows` suffice and that `check` passes.
        """
        for sequence in sequences:
            self.check(sequence)
        needed = sum(sequence.options.beam_size for sequence in sequences)
        if needed > self.free_rows:
            raise BeamSizeError(f"{needed} rows wanted; {self.free_rows} are free")
        for group in self._groups(sequences):
            self._encode(group)

    def _groups(self, sequences: SequenceOf[Sequence]) -> list[list[Sequence]]:
        groups: list[list[Sequence]] = []
        for sequence in sorted(sequences, key=lambda s: len(s.source)):
            width = round_up(len(sequence.source))
            group = groups[-1] if groups else []
            fits = (len(group) + 1) * width <= self.limits.max_batch_tokens
            if group and fits and width <= MAX_SPREAD * round_up(len(group[0].source)):
                group.append(sequence)
            else:
                groups.append([sequence])
        return groups

    def _encode(self, group: list[Sequence]) -> None:
        lengths = torch.tensor([len(sequence.source) for sequence in group])
        width = round_up(int(lengths.max()))
        source = torch.full((len(group), width), self.config.eos_id)
        for row, sequence in enumerate(group):
            source[row, : len(sequence.source)] = torch.tensor(sequence.source)
        device = self.model.device
        mask = (torch.arange(width) < lengths[:, None]).to(device)  # (B, S)
        memory, _ = self.model.encoder(source.to(device), mask)
        projected = self.model.decoder.project_memory(memory)
        bias = mask_bias(mask, self.model.dtype)[:, None, None, :]  # (B, 1, 1, S)
        copies = [i for i, sequence in enumerate(group) for _ in range(sequence.options.beam_size)]
        if len(copies) > len(group):
            projected = [(key[copies], value[copies]) for key, value in projected]
            bias = bias[copies]
        rows = self._take_rows(group, width)
        self.cache.fill_rows(torch.tensor(rows, device=device), projected, bias)
        tokens = int(lengths.sum())
        padding = len(group) * width - tokens
        self.stats.append(BatchStats("encode", len(group), tokens, padding))

    def _take_rows(self, group: list[Sequence], width: int) -> list[int]:
        first = self.num_rows
        start = NO_TOKEN if self.config.start_id is None else self.config.start_id
        for sequence in group:
            limit = self.config.max_target_tokens(len(sequence.source))
            search = new_search(sequence.options, self.config.eos_id, limit)
            running = Running(sequence, search)
            self.running[sequence.id] = running
            for _ in range(search.num_rows):
                self.output.enter(self.num_rows, sequence.source)
                running.rows.append(self.num_rows)
                self.owners.append(running)
        rows = list(range(first, self.num_rows))
        self.tokens[rows], self.widths[rows], self.lengths[rows] = start, width, 0
        return rows

    @torch.inference_mode()
    def step(self) -> list[Finished]:
        """One more token for every row in use; the sequences that ended with it."""
        if not self.owners:
            return []
        logits = self._decode()
        self._choose(logits)
        finished = [running for running in self.running.values() if running.search.is_finished]
        self._release(finished)
        return [Finished(r.sequence.id, r.search.hypotheses()) for r in finished]

    @torch.inference_mode()
    def abort(self, sequence_id: int) -> bool:
        """Frees the rows of a sequence at once; False if it is not in the batch."""
        running = self.running.get(sequence_id)
        if running is None:
            return False
        self._release([running])
        return True

    def _decode(self) -> Tensor:
        live = self.num_rows
        rows = max(live, MIN_ROWS)
        last = int(self.lengths[:live].max())
        target_width = min(round_up(last + 1), self.max_target_width)
        state = self.cache.view(rows, int(self.widths[:live].max()), 1, target_width)
        tokens = torch.from_numpy(self.tokens[:rows, None]).to(self.model.device)  # (B, 1)
        hidden, _, _ = self.model.decoder(tokens, state, last)
        self.cache.advance(live)
        self.lengths[:live] += 1
        self.stats.append(BatchStats("decode", live, live, rows - live))
        return self.output.logits(hidden[:, 0])[:live]  # (B, U)

    def _choose(self, logits: Tensor) -> None:
        best = self.output.token_ids(argmax(logits))
        scored = [r for r in self.running.values() if r.search.needs_log_probs]
        ids = self.output.token_ids(np.arange(logits.shape[1])) if scored else best
        for running in scored:
            running.search.advance(torch.log_softmax(logits[running.rows], dim=-1), ids)
        self._reorder(scored)
        for row, (running, token) in enumerate(zip(self.owners, best.tolist(), strict=True)):
            if not running.search.needs_log_probs:
                running.search.append(token)
                self.tokens[row] = token
        for running in scored:
            self.tokens[running.rows] = running.search.next_tokens

    def _reorder(self, beams: list[Running]) -> None:
        source, target = [], []
        for running in beams:
            for row, parent in zip(running.rows, running.search.parents or [], strict=False):
                if row != running.rows[parent]:
                    source.append(running.rows[parent])
                    target.append(row)
        if source:
            self._copy(source, target, is_same_source=True)

    def _copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        device = self.model.device
        from_rows, to_rows = (torch.tensor(rows, device=device) for rows in (source, target))
        self.cache.copy_rows(from_rows, to_rows, is_same_source)

    def _release(self, leaving: list[Running]) -> None:
        """Takes sequences out, and moves the last rows into the places they leave."""
        if not leaving:
            return
        holes = {row for running in leaving for row in running.rows}
        for running in leaving:
            del self.running[running.sequence.id]
        kept = self.num_rows - len(holes)
        source = [row for row in range(kept, self.num_rows) if row not in holes]
        target = sorted(row for row in holes if row < kept)
        for old, new in zip(source, target, strict=True):
            owner = self.owners[old]
            owner.rows[owner.rows.index(old)] = new
            self.owners[new] = owner
        if source:
            self._copy(source, target, is_same_source=False)
            self.output.move(source, target)
            for values in (self.tokens, self.widths, self.lengths):
                values[target] = values[source]
        self.cache.positions[kept : self.num_rows] = 0  # what computes along stays in bounds
        for row in range(kept, self.num_rows):
            self.output.leave(row)
        del self.owners[kept:]


def round_up(tokens: int) -> int:
    """The width to which so many tokens are padded."""
    return max(MIN_WIDTH, -(-tokens // WIDTH_MULTIPLE) * WIDTH_MULTIPLE)


def argmax(logits: Tensor) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The best column of each row; numpy's is vectorised on the CPU, torch's is not."""
    if logits.device.type == "cpu":
        best: np.ndarray[tuple[int], np.dtype[np.int64]] = logits.numpy().argmax(axis=-1)
        return best
    return logits.argmax(dim=-1).cpu().numpy()
