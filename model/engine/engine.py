"""The in-flight batch: sentences enter when rows are free and leave when they are finished.

Token ids only. Synchronous and single-threaded: one worker drives one engine. What is computed is
the runtime's; here is which row belongs to whom, and what becomes of the tokens.
"""

from collections import deque
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np
import torch

from model.architectures.shortlist import Ids
from model.backends.base import Decoded, Pending, Runtime
from model.engine.greedy_rows import GreedyRows
from model.engine.search import Search, new_search
from model.errors import (
    BeamSizeError,
    FirstTokenError,
    UnknownTokenError,
)
from model.sequence import BatchStats, EngineLimits, Finished, Hypothesis, Sequence
from model.tokenization.token_ids import check_ids

FEW_STEPS = 8
"""Tokens of a row that a hurried step gives: 1 to 6 ms on a CPU, up to 16 rows of a small model."""


@dataclass(eq=False, slots=True)
class Running:
    """A sequence in the batch, with the rows that it holds; none once it has left."""

    sequence: Sequence
    rows: list[int]


@dataclass(eq=False, slots=True)
class Searching(Running):
    """One that has to see each step's log-probabilities before the next."""

    search: Search


@dataclass(slots=True)
class Step:
    """A step under way, and where the rows that it computes are by now; -1 once they are gone."""

    rows: Ids
    pending: Pending


class Engine:
    """Translates sequences that are admitted at any time, one `step` for all at a time.

    Args:
        runtime: The model on its device.
        limits: Rows and tokens.

    Attributes:
        is_hurried: Whether a `step` gives a few tokens of a row at most, where the runtime could
            give more: newcomers wait as long, and so does whatever else the caller has to do.
    """

    def __init__(self, runtime: Runtime, limits: EngineLimits) -> None:
        self.runtime = runtime
        self.model = runtime.model
        self.config = runtime.model.config
        self.limits = limits
        self.stats: list[BatchStats] = []
        self.is_hurried = False
        longest = self.config.max_target_tokens(limits.max_source_tokens)
        self.greedy = GreedyRows(limits.max_rows, longest, self.config.eos_id)
        self.clear()

    def clear(self) -> None:
        """Forgets every sequence; the way back after an error in the middle of a step."""
        self.runtime.clear()
        self.running: dict[int, Running] = {}
        self.searching: dict[int, Searching] = {}
        self.owners: list[Running] = []  # of rows 0 to n - 1
        self.steps: deque[Step] = deque()
        self.stats = []

    @property
    def num_rows(self) -> int:
        """Rows in use."""
        return len(self.owners)

    @property
    def free_rows(self) -> int:
        """Rows that newcomers may take."""
        return self.limits.max_rows - self.num_rows

    @property
    def tokens_per_step(self) -> int:
        """Tokens of a row that one `step` may give."""
        return min(self.runtime.steps, FEW_STEPS) if self.is_hurried else self.runtime.steps

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
            FirstTokenError: A first token that the model does not take.
        """
        size, limit = self.config.source_vocab_size, self.limits.max_source_tokens
        check_ids("source", sequence.source, size, limit)
        if not 1 <= sequence.options.beam_size <= self.limits.max_rows:
            raise BeamSizeError(
                f"beam size is {sequence.options.beam_size}; "
                f"it must be from 1 to {self.limits.max_rows}"
            )
        self._check_first(sequence.first_id)

    def _check_first(self, first_id: int | None) -> None:
        if first_id is None:
            return
        if not self.config.forces_first:
            raise FirstTokenError(f"no target of this model begins with a given token ({first_id})")
        if not 0 <= first_id < self.config.target_vocab_size:
            raise UnknownTokenError(
                f"a target is to begin with id {first_id}; "
                f"the vocabulary has {self.config.target_vocab_size}"
            )
        if first_id in self.config.forbidden_ids:
            raise FirstTokenError(f"a target is to begin with id {first_id}, which is never said")

    @torch.inference_mode()
    def admit(self, sequences: SequenceOf[Sequence]) -> None:
        """Encodes newcomers and gives them rows.

        The caller sees to it that `free_rows` suffice and that `check` passes.
        """
        for sequence in sequences:
            self.check(sequence)
        needed = sum(sequence.options.beam_size for sequence in sequences)
        if needed > self.free_rows:
            raise BeamSizeError(f"{needed} rows wanted; {self.free_rows} are free")
        # Those of like length stand side by side: a runtime that pads encodes them together.
        newcomers = sorted(sequences, key=lambda sequence: len(sequence.source))
        if newcomers:
            self.stats += self.runtime.enter(self.num_rows, newcomers)
        for sequence in newcomers:
            self._take_rows(sequence)

    def _take_rows(self, sequence: Sequence) -> None:
        options = sequence.options
        limit = self.config.max_target_tokens(len(sequence.source))
        rows = list(range(self.num_rows, self.num_rows + options.beam_size))
        running = Running(sequence, rows)
        if options.needs_log_probs:
            search = new_search(options, self.config.eos_id, limit)
            running = self.searching[sequence.id] = Searching(sequence, rows, search)
        for row in rows:
            self.greedy.enter(row, 0 if options.needs_log_probs else limit)
        self.owners += [running] * len(rows)
        self.running[sequence.id] = running

    @torch.inference_mode()
    def step(self) -> list[Finished]:
        """At least one more token for every row; the sequences that are known to have ended.

        A runtime with a lag says so that many steps late, except to searches that have to see
        each step's log-probabilities before the next.
        """
        if not self.owners:
            return []
        searching = list(self.searching.values())
        lag = 0 if searching else self.runtime.lag
        finished = self._settle(lag)
        if self.owners:
            self._launch(searching)
            finished += self._settle(lag, searching)
        return finished

    def _launch(self, searching: list[Searching]) -> None:
        groups = [running.rows for running in searching]
        remaining = self.greedy.remaining(self.num_rows)
        pending = self.runtime.decode(self.num_rows, groups, remaining, self.tokens_per_step)
        self.steps.append(Step(np.arange(self.num_rows), pending))

    def _settle(self, lag: int, searching: SequenceOf[Searching] = ()) -> list[Finished]:
        """Takes the outcome of all but the last `lag` steps."""
        finished: list[Finished] = []
        while len(self.steps) > lag:
            step = self.steps.popleft()
            finished += self._choose(step.rows, step.pending.wait(), searching)
        return finished

    def _choose(
        self, rows: Ids, decoded: Decoded, searching: SequenceOf[Searching]
    ) -> list[Finished]:
        counts = (decoded.best >= 0).sum(axis=0)  # (K,)
        self.stats += [
            BatchStats("decode", count, count, decoded.padding_rows)
            for count in counts[counts > 0].tolist()
        ]
        for running, scores in zip(searching, decoded.scores, strict=True):
            running.search.advance(scores.log_probs, scores.ids)
        self._reorder(searching)
        found = [running for running in searching if running.search.is_finished]
        finished = [Finished(r.sequence.id, r.search.hypotheses()) for r in found]
        ended = self.greedy.append(rows, decoded.best)
        for row in ended:
            hypothesis = Hypothesis(self.greedy.target(row))
            finished.append(Finished(self.owners[row].sequence.id, [hypothesis]))
        self._release([*found, *(self.owners[row] for row in ended)])
        for running in searching:
            if running.rows:
                self.runtime.set_tokens(running.rows, running.search.next_tokens)
        return finished

    @torch.inference_mode()
    def abort(self, sequence_id: int) -> bool:
        """Frees the rows of a sequence at once; False if it is not in the batch."""
        running = self.running.get(sequence_id)
        if running is None:
            return False
        self._release([running])
        return True

    def _reorder(self, beams: SequenceOf[Searching]) -> None:
        source, target = [], []
        for running in beams:
            for row, parent in zip(running.rows, running.search.parents or [], strict=False):
                if row != running.rows[parent]:
                    source.append(running.rows[parent])
                    target.append(row)
        if source:
            self.runtime.copy(source, target, is_same_source=True)

    def _release(self, leaving: list[Running]) -> None:
        """Takes sequences out, and moves the last rows into the places they leave."""
        if not leaving:
            return
        holes = {row for running in leaving for row in running.rows}
        for running in leaving:
            del self.running[running.sequence.id]
            self.searching.pop(running.sequence.id, None)
            running.rows = []
        end, kept = self.num_rows, self.num_rows - len(holes)
        source = [row for row in range(kept, end) if row not in holes]
        target = sorted(row for row in holes if row < kept)
        self._follow(holes, source, target)
        if source:
            self._move(source, target)
        self.runtime.leave(kept, end)
        del self.owners[kept:]
        if not self.owners:
            self.steps.clear()  # nobody is left whom their outcome concerns

    def _move(self, source: list[int], target: list[int]) -> None:
        for old, new in zip(source, target, strict=True):
            owner = self.owners[old]
            owner.rows[owner.rows.index(old)] = new
            self.owners[new] = owner
        self.greedy.move(source, target)
        self.runtime.copy(source, target, is_same_source=False)

    def _follow(self, holes: set[int], source: list[int], target: list[int]) -> None:
        """Has the steps under way know where their rows are now."""
        if not self.steps:
            return
        places = np.arange(self.limits.max_rows + 1)
        places[source] = target
        places[[*holes, -1]] = -1  # the last place is that of a row already gone
        for step in self.steps:
            step.rows = places[step.rows]
