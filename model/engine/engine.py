"""Implements the in-flight batch: sequences enter free rows and leave when they are finished.

The engine sees token ids only. It is synchronous and single-threaded: one worker drives one
engine. The runner computes; the engine assigns rows to sequences and collects their tokens.
"""

from collections import deque
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from model.architectures.output import Ids
from model.backends.base import Continuations, Decoded, DecodeStep, ModelRunner
from model.engine.beam import BeamSearch
from model.errors import InputError
from model.sequence import BatchStats, EngineLimits, Finished, Hypothesis, Sequence, check_ids

LOW_LATENCY_TOKENS, LOW_LATENCY_BATCH_TOKENS = 8, 16
"""Limits of the tokens that a low-latency step decodes, per row and for all rows together. A row
gets the larger part: a batch of one row gets 16 tokens (docs/decisions.md, "Native code")."""

SEARCH_TOKENS = 8
"""Maximum number of tokens of each hypothesis that a `Searcher` decodes in one call. If a search
ends after fewer tokens, the call has computed the other tokens in vain."""

SEARCH_ROW_TOKENS = 128
"""Number of tokens that the rows of all searches together may decode before the step decodes the
other rows. These tokens take about as long as a low-latency step of 16 rows."""


@dataclass(eq=False, slots=True)
class Running:
    """A sequence in the batch, and its row numbers. When the sequence leaves, `rows` is emptied."""

    sequence: Sequence
    rows: list[int]


@dataclass(eq=False, slots=True)
class RunningSearch(Running):
    """A running sequence whose search needs each step's log-probabilities before the next step."""

    search: BeamSearch
    is_forced: bool  # whether the next token is one of the prefix

    def forced(self) -> Continuations:
        """Returns the next token of the prefix, whose log-probability counts as 0."""
        prefix, length = self.sequence.options.prefix, self.search.length
        self.is_forced = length + 1 < len(prefix)
        return Continuations([self.search.totals[0]], [0], [prefix[length]])


@dataclass(slots=True)
class LaunchedStep:
    """A launched decode step, and the present row number of each of its outputs.

    A sequence may have moved to another row since the launch. The number -1 stands for a row that
    was freed.
    """

    rows: Ids
    output: DecodeStep


class Engine:
    """Translates sequences that are admitted at any time; a `step` decodes tokens of all."""

    def __init__(self, runner: ModelRunner, limits: EngineLimits) -> None:
        self.runner = runner
        self.model = runner.model
        self.config = runner.model.config
        # Whether a step can leave out the rows that belong to no search. A runner with a pipeline
        # decodes them while the host waits for searches.
        self.searches_apart = runner.searches_apart and not runner.pipeline_depth
        self.limits = limits
        # Short steps (see LOW_LATENCY_TOKENS) let waiting sequences, and the caller's other work,
        # start sooner.
        self.low_latency = False
        longest = self.config.max_target_tokens(limits.max_source_tokens)
        self.greedy = GreedyRows(limits.max_rows, longest, self.config.eos_id)
        self._forget()

    def clear(self) -> None:
        """Drops every sequence. Call it after an error in the middle of a step."""
        self.runner.clear()
        self._forget()

    def _forget(self) -> None:
        self.running: dict[int, Running] = {}
        self.searching: dict[int, RunningSearch] = {}
        self.owners: list[Running] = []  # owners[row] is the sequence of that row
        self.launched: deque[LaunchedStep] = deque()
        self.stats: list[BatchStats] = []

    @property
    def num_rows(self) -> int:
        return len(self.owners)

    @property
    def free_rows(self) -> int:
        return self.limits.max_rows - self.num_rows

    @property
    def tokens_per_step(self) -> int:
        most = self.runner.tokens_per_call
        if self.low_latency:
            few = LOW_LATENCY_BATCH_TOKENS // max(1, self.num_rows)
            return min(most, max(few, LOW_LATENCY_TOKENS))
        return most

    def drain_stats(self) -> list[BatchStats]:
        stats, self.stats = self.stats, []
        return stats

    def check(self, sequence: Sequence) -> None:
        """Raises InputError if the engine can never translate the sequence."""
        size, limit = self.config.source_vocab_size, self.limits.max_source_tokens
        check_ids("source", sequence.source, size, limit)
        if not 1 <= sequence.options.beam_size <= self.limits.max_rows:
            raise InputError(
                f"beam size is {sequence.options.beam_size}; "
                f"it must be from 1 to {self.limits.max_rows}"
            )
        if prefix := sequence.options.prefix:
            limit = self.config.max_target_tokens(len(sequence.source)) - 1
            check_ids("target prefix", prefix, self.config.target_vocab_size, limit)
            if never := {*prefix} & {*self.config.forbidden_ids, self.config.eos_id}:
                raise InputError(f"the target prefix has ids that no target has: {sorted(never)}")
        if (first := sequence.first_id) is not None:
            if not self.config.forces_first:
                raise InputError(f"this model accepts no first token for its targets, as {first}")
            check_ids("first token of the target", [first], self.config.target_vocab_size)
            if first in self.config.forbidden_ids:
                raise InputError(f"the first token of the target, {first}, is never generated")

    @torch.inference_mode()
    def admit(self, sequences: SequenceOf[Sequence]) -> None:
        """Encodes sequences and assigns rows to them, after it has checked all of them."""
        for sequence in sequences:
            self.check(sequence)
        needed = sum(sequence.options.beam_size for sequence in sequences)
        if needed > self.free_rows:
            raise InputError(f"{needed} rows are needed; {self.free_rows} are free")
        # The sequences are sorted by length, because a runner that pads encodes neighbours
        # together.
        waiting = sorted(sequences, key=lambda sequence: len(sequence.source))
        if waiting:
            self.stats += self.runner.enter(self.num_rows, waiting)
        self._take_rows(waiting)

    def _take_rows(self, sequences: SequenceOf[Sequence]) -> None:
        first, limits = self.num_rows, list[int]()
        for sequence in sequences:
            options = sequence.options
            limit = self.config.max_target_tokens(len(sequence.source))
            rows = list(range(self.num_rows, self.num_rows + options.beam_size))
            running = Running(sequence, rows)
            if options.needs_log_probs:
                search = BeamSearch(options, self.config.eos_id, limit)
                is_forced = options.prefix != ()
                running = RunningSearch(sequence, rows, search, is_forced)
                self.searching[sequence.id] = running
                limit = 0
            limits += [limit] * len(rows)
            self.owners += [running] * len(rows)
            self.running[sequence.id] = running
        self.greedy.enter(first, limits)

    @torch.inference_mode()
    def step(self, only_searches: bool = False) -> list[Finished]:
        """Decodes at least one token of each row in use, and returns the finished sequences.

        With `only_searches`, the rows that belong to no search are left out, if `searches_apart` is
        true and the batch has a search. With a pipeline depth of n, a sequence without a search is
        returned at most n calls after its last token.
        """
        if not self.owners:
            return []
        searching = list(self.searching.values())
        if not searching or not self.runner.searches_apart:
            return self._decode(searching)
        if self.searches_apart:
            return self._step_apart(only_searches)
        found = self._launch_search(searching, self._search_steps(searching))
        finished = self._decode([])
        return finished + self._take(searching, found)

    def _decode(self, searching: list[RunningSearch]) -> list[Finished]:
        """Decodes all rows; without `searching`, it leaves out the rows of searches."""
        depth = self.runner.pipeline_depth
        finished = self._collect(depth)
        remaining = self._remaining()
        if searching or remaining.any():
            self._launch(searching, remaining)
        else:
            depth = 0  # the launched calls bring every row to its limit
        return finished + self._collect(depth, searching)

    def _remaining(self) -> Ids:
        remaining = self.greedy.remaining(self.num_rows)
        for step in self.launched:
            rows = step.rows[step.rows >= 0]
            remaining[rows] = np.maximum(remaining[rows] - step.output.num_tokens, 0)
        return remaining

    def _step_apart(self, only_searches: bool) -> list[Finished]:
        finished: list[Finished] = []
        steps = 0
        while searching := list(self.searching.values()):
            rows = sum(len(each.rows) for each in searching)
            if steps >= max(self.tokens_per_step, SEARCH_ROW_TOKENS // rows):
                break  # the other rows are decoded between two parts of a search
            count = self._search_steps(searching)
            finished += self._take(searching, self._launch_search(searching, count))
            steps += count
        return finished if only_searches else finished + self._decode([])

    def _search_steps(self, searching: list[RunningSearch]) -> int:
        left = [each.search.max_tokens - each.search.length for each in searching]
        left += [1 for each in searching if each.is_forced]
        return min(SEARCH_TOKENS, *left)

    def _launch_search(
        self, searching: list[RunningSearch], steps: int
    ) -> Iterable[list[Continuations]]:
        groups = [each.rows for each in searching]
        return self.runner.search(groups, [each.search.totals for each in searching], steps)

    def _take(
        self, searching: list[RunningSearch], found: Iterable[list[Continuations]]
    ) -> list[Finished]:
        num_rows = sum(len(each.rows) for each in searching)
        for step in found:
            live = 0
            for each, best in zip(searching, step, strict=True):
                if not each.search.is_finished:
                    is_forced = each.is_forced
                    each.search.take(each.forced() if is_forced else best)
                    live += len(each.rows)
                    if is_forced:
                        self.runner.set_tokens(each.rows, each.search.next_tokens)
            if live:
                self.stats.append(BatchStats("decode", live, live, num_rows - live))
        ended, finished = ended_searches(searching)
        self._release([*ended])
        return finished

    def _launch(self, searching: list[RunningSearch], remaining: Ids) -> None:
        groups = [running.rows for running in searching]
        output = self.runner.decode(self.num_rows, groups, remaining, self.tokens_per_step)
        self.launched.append(LaunchedStep(np.arange(self.num_rows), output))

    def _collect(self, depth: int, searching: SequenceOf[RunningSearch] = ()) -> list[Finished]:
        finished: list[Finished] = []
        while len(self.launched) > depth:
            step = self.launched.popleft()
            finished += self._append(step.rows, step.output.wait(), searching)
        return finished

    def _append(
        self, rows: Ids, decoded: Decoded, searching: SequenceOf[RunningSearch]
    ) -> list[Finished]:
        computed = decoded.computed_rows
        for count in ((decoded.best >= 0) & (rows >= 0)[:, None]).sum(axis=0).tolist():
            if count:
                padding = computed - count if computed else 0
                self.stats.append(BatchStats("decode", count, count, padding))
        for running, scores in zip(searching, decoded.scores, strict=True):
            if running.is_forced:
                best = running.forced()
            else:
                best = Continuations.of_scores(scores, running.search.totals)
            running.search.take(best)
        self._reorder(searching)
        found, finished = ended_searches(searching)
        ended = self.greedy.append(rows, decoded.best)
        for row in ended:
            sequence, hypothesis = self.owners[row].sequence, Hypothesis(self.greedy.target(row))
            if sequence.options.return_attention:
                hypothesis.attention = self.runner.attention(row, len(hypothesis.tokens))
            finished.append(Finished(sequence.id, [hypothesis]))
        self._release([*found, *(self.owners[row] for row in ended)])
        for running in searching:
            if running.rows:
                self.runner.set_tokens(running.rows, running.search.next_tokens)
        return finished

    @torch.inference_mode()
    def abort(self, sequence_id: int) -> bool:
        """Returns False if the batch has no such sequence."""
        running = self.running.get(sequence_id)
        if running is None:
            return False
        self._release([running])
        return True

    def _reorder(self, beams: SequenceOf[RunningSearch]) -> None:
        source, target = [], []
        for running in beams:
            for row, parent in zip(running.rows, running.search.parents or [], strict=False):
                if row != running.rows[parent]:
                    source.append(running.rows[parent])
                    target.append(row)
        if source:
            self.runner.copy(source, target, is_same_source=True)

    def _release(self, leaving: list[Running]) -> None:
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
        self._renumber_launched(holes, source, target)
        if source:
            for old, new in zip(source, target, strict=True):
                owner = self.owners[old]
                owner.rows[owner.rows.index(old)] = new
                self.owners[new] = owner
            self.greedy.move(source, target)
            self.runner.copy(source, target, is_same_source=False)
        self.runner.leave(kept, end)
        del self.owners[kept:]
        if not self.owners:
            self.launched.clear()  # no sequence needs the tokens of these steps

    def _renumber_launched(self, holes: set[int], source: list[int], target: list[int]) -> None:
        if not self.launched:
            return
        numbers = np.arange(self.limits.max_rows + 1)
        numbers[source] = target
        numbers[[*holes, -1]] = -1  # the number of a row freed earlier is -1 and remains -1
        for step in self.launched:
            step.rows = numbers[step.rows]


def ended_searches(
    searching: SequenceOf[RunningSearch],
) -> tuple[list[RunningSearch], list[Finished]]:
    ended = [each for each in searching if each.search.is_finished]
    return ended, [Finished(each.sequence.id, each.search.hypotheses()) for each in ended]


class GreedyRows:
    """The tokens and length limits of all rows that belong to no search, as arrays.

    A Python loop over a thousand rows would take longer than the decode step on a GPU.
    """

    def __init__(self, max_rows: int, max_tokens: int, eos_id: int) -> None:
        self.tokens = np.zeros((max_rows, max_tokens), np.int32)
        self.lengths = np.zeros(max_rows, np.int64)
        self.limits = np.zeros(max_rows, np.int64)  # 0 for the rows of a search
        self.eos_id = eos_id

    def enter(self, first: int, limits: SequenceOf[int]) -> None:
        rows = slice(first, first + len(limits))
        self.lengths[rows], self.limits[rows] = 0, limits

    def remaining(self, rows: int) -> Ids:
        left: Ids = self.limits[:rows] - self.lengths[:rows]
        return left

    def append(self, rows: Ids, best: NDArray[np.integer]) -> list[int]:
        """Appends tokens best[i] to row rows[i]; returns the rows that have ended.

        A row number of -1 stands for a row that was freed in the meantime. A token of -1 stands for
        a step after the end of a row, or for a row that was not decoded.
        """
        is_taken = (rows >= 0) & (self.limits[rows] > 0)
        rows, best = rows[is_taken], best[is_taken]
        is_token = best >= 0  # (B, steps)
        index, step = is_token.nonzero()
        lengths = self.lengths[rows]
        self.tokens[rows[index], lengths[index] + step] = best[is_token]
        lengths += is_token.sum(axis=1)
        self.lengths[rows] = lengths
        has_ended = (best == self.eos_id).any(axis=1) | (lengths >= self.limits[rows])
        ended: list[int] = rows[has_ended].tolist()
        return ended

    def move(self, source: SequenceOf[int], target: SequenceOf[int]) -> None:
        arrays: list[NDArray[np.generic]] = [self.tokens, self.lengths, self.limits]
        for values in arrays:
            values[target] = values[source]

    def target(self, row: int) -> list[int]:
        tokens: list[int] = self.tokens[row, : self.lengths[row]].tolist()
        return tokens
