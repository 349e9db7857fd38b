"""The engine over a runner that runs ahead of it: no token ever reaches another sequence."""

import math
import random
from collections.abc import Sequence as SequenceOf
from typing import cast

import numpy as np
import pytest
import torch

from model.architectures.output import Ids
from model.architectures.stack import EncoderDecoder
from model.backends.base import Continuations, Decoded, DecodeStep, ModelRunner, Scores
from model.engine.engine import Engine
from model.sequence import BatchStats, DecodingOptions, EngineLimits, Finished, Sequence
from tests.tiny import tiny_config

VOCAB = 1000
LIMITS = EngineLimits(max_rows=12, max_source_tokens=10)
CONFIG = tiny_config(source_vocab_size=VOCAB, target_vocab_size=VOCAB, max_length_factor=2.0)
FREE_ROW = (0, 0, 0)


def expected(source: list[int]) -> list[int]:
    """The one target of a source: its first id is a name, its second how long the target is."""
    name, length = source[:2]
    tokens = [token(name, place, length) for place in range(length)]
    return tokens[: CONFIG.max_target_tokens(len(source))]


def token(name: int, place: int, length: int) -> int:
    """Another for each name and place; EOS in the last."""
    return 0 if place == length - 1 else 2 + (name * 37 + place) % (VOCAB - 2)


class AheadRunner(ModelRunner):
    """Computes at once and tells late. It is enough to have each row say who it is and how far.

    Rows that have ended go on, as on a GPU, until they are told to leave.
    """

    def __init__(self, pipeline_depth: int, tokens_per_call: int = 1) -> None:
        self.pipeline_depth = pipeline_depth
        self.tokens_per_call = tokens_per_call
        self.searches_apart = tokens_per_call > 1 or pipeline_depth > 0
        self.model = cast("EncoderDecoder", type("Model", (), {"config": CONFIG}))
        self.launches = 0
        self.clear()

    def clear(self) -> None:
        self.rows = [FREE_ROW] * LIMITS.max_rows
        self.under_way: list[int] = []

    def enter(self, row: int, sequences: SequenceOf[Sequence]) -> list[BatchStats]:
        for sequence in sequences:
            for _ in range(sequence.options.beam_size):
                assert self.rows[row] == FREE_ROW
                self.rows[row] = (sequence.source[0], 0, sequence.source[1])
                row += 1
        return []

    def decode(
        self, rows: int, scored: SequenceOf[list[int]], remaining: Ids, max_tokens: int
    ) -> DecodeStep:
        assert FREE_ROW not in self.rows[:rows]
        assert set(self.rows[rows:]) <= {FREE_ROW}
        assert not self.searches_apart or remaining.max() >= 1
        assert not (scored and self.searches_apart)
        steps = 1 if scored else min(self.tokens_per_call, max_tokens)
        best = np.full((rows, steps), -1)
        for row, left in enumerate(remaining.tolist()):
            best[row] = self._tokens(row, left, best.shape[1])
        ids = np.arange(VOCAB)
        scores = [Scores(self.log_probs(best[group, 0]), ids) for group in scored]
        self.launches += 1
        number, decoded = self.launches, Decoded(best, scores)
        self.under_way.append(number)

        def wait() -> Decoded:
            """Is called once at most, in the order of the steps; a step may be left out."""
            del self.under_way[: self.under_way.index(number) + 1]
            return decoded

        return DecodeStep(steps, wait)

    def search(
        self, groups: SequenceOf[list[int]], totals: SequenceOf[list[float]], steps: int
    ) -> list[list[Continuations]]:
        sums = [*map(list, totals)]
        return [[self._continue(*each) for each in zip(groups, sums, strict=True)]] + (
            [] if steps == 1 else self.search(groups, sums, steps - 1)
        )

    def _continue(self, group: list[int], totals: list[float]) -> Continuations:
        """Continues the rows with their best continuations that do not end; updates the totals."""
        rows = np.array([self._tokens(row, 1, 1)[0] for row in group])
        scores = Scores(self.log_probs(rows), np.arange(VOCAB))
        best = Continuations.of_scores(scores, totals)
        found = zip(best.totals, best.parents, best.ids, strict=True)
        live = [(total, parent) for total, parent, token in found if token and total > -math.inf]
        live += [(-math.inf, live[0][1])] * len(group)
        states = [self.rows[row] for row in group]
        for index, row in enumerate(group):
            totals[index], parent = live[index]
            self.rows[row] = states[parent]
        return best

    def _tokens(self, row: int, left: int, steps: int) -> list[int]:
        """Returns up to `steps` tokens, and -1 once the row has ended or is left out."""
        if left <= 0 and self.searches_apart:
            return [-1] * steps
        tokens: list[int] = []
        while len(tokens) < steps:
            name, place, length = self.rows[row]
            has_ended = bool(tokens) and (tokens[-1] <= 0 or len(tokens) == left)
            tokens.append(-1 if has_ended else token(name, place, length))
            self.rows[row] = (name, place + (not has_ended), length)
        return tokens

    def log_probs(self, best: Ids) -> torch.Tensor:
        certain = torch.full((len(best), VOCAB), -20.0)
        certain[range(len(best)), best] = -0.1
        return certain

    def set_tokens(self, rows: list[int], tokens: list[int]) -> None:
        assert len(rows) == len(tokens)

    def copy(self, source: list[int], target: list[int], is_same_source: bool) -> None:
        moved = [self.rows[row] for row in source]
        for row, state in zip(target, moved, strict=True):
            assert not is_same_source or state[0] == self.rows[row][0]
            self.rows[row] = state

    def leave(self, first: int, end: int) -> None:
        self.rows[first:end] = [FREE_ROW] * (end - first)


def new_source(chance: random.Random, name: int) -> list[int]:
    """Some targets end at the limit of twice the source, some with EOS before."""
    source = [2 + name % (VOCAB - 2), chance.randint(1, 24)]
    return [*source, *([5] * chance.randint(0, 7)), 0]


OPTIONS = [DecodingOptions()] * 6 + [DecodingOptions(return_scores=True), DecodingOptions(3, 1)]


@pytest.mark.parametrize(
    ("pipeline_depth", "tokens_per_call"),
    [(0, 1), (1, 1), (2, 1), (0, 3), (0, 8), (1, 3), (1, 8), (2, 4)],
)
@pytest.mark.parametrize("has_searches", [False, True], ids=["greedy", "searches too"])
@pytest.mark.parametrize("seed", range(2))
def test_no_token_reaches_another_sequence(
    pipeline_depth: int, tokens_per_call: int, has_searches: bool, seed: int
) -> None:
    chance = random.Random(seed)
    engine = Engine(AheadRunner(pipeline_depth, tokens_per_call), LIMITS)
    sources: dict[int, list[int]] = {}
    ended: set[int] = set()
    most_under_way = 0

    def settle(results: list[Finished]) -> None:
        for result in results:
            assert result.id not in ended
            assert result.hypotheses[0].tokens == expected(sources[result.id])
            ended.add(result.id)

    for _ in range(400):
        choice = chance.random()
        options = chance.choice(OPTIONS[: None if has_searches else 6])
        if choice < 0.4 and options.beam_size <= engine.free_rows:
            name = len(sources)
            sources[name] = new_source(chance, name)
            engine.admit([Sequence(name, sources[name], options)])
        elif choice < 0.5 and engine.running:
            name = chance.choice(list(engine.running))
            assert engine.abort(name)
            ended.add(name)
        else:
            settle(engine.step())
            most_under_way = max(most_under_way, len(engine.launched))
        assert engine.num_rows == sum(len(running.rows) for running in engine.running.values())
    while engine.num_rows:
        settle(engine.step())
    assert ended == set(sources)
    assert len(sources) > 80
    assert most_under_way == pipeline_depth


@pytest.mark.parametrize("pipeline_depth", [0, 1, 2])
def test_a_target_is_known_after_its_tokens_and_the_pipeline_depth(pipeline_depth: int) -> None:
    engine = Engine(AheadRunner(pipeline_depth), LIMITS)
    engine.admit([Sequence(0, [7, 4, 5, 0])])
    results = [engine.step() for _ in range(4 + pipeline_depth)]
    assert [len(result) for result in results] == [0] * (3 + pipeline_depth) + [1]
    assert not engine.launched
    assert engine.step() == []


def test_nothing_is_launched_after_the_last_token_of_every_row() -> None:
    """Both targets end at the limit of 8 tokens, which four launches of two tokens reach."""
    engine = Engine(AheadRunner(1, tokens_per_call=2), LIMITS)
    engine.admit([Sequence(0, [7, 24, 5, 0]), Sequence(1, [8, 24, 5, 0])])
    results = [engine.step() for _ in range(5)]
    assert [len(result) for result in results] == [0, 0, 0, 0, 2]
    runner = cast("AheadRunner", engine.runner)
    assert runner.launches == 4


def test_steps_in_one_go_are_counted_one_by_one() -> None:
    """Two targets of two and of four tokens, three a call."""
    engine = Engine(AheadRunner(0, tokens_per_call=3), LIMITS)
    engine.admit([Sequence(0, [7, 2, 5, 0]), Sequence(1, [8, 4, 5, 0])])
    assert [result.id for result in engine.step()] == [0]
    assert [result.id for result in engine.step()] == [1]
    rows = [stats.rows for stats in engine.drain_stats() if stats.phase == "decode"]
    assert rows == [2, 2, 1, 1]


@pytest.mark.parametrize(
    ("rows", "tokens"), [(0, 16), (1, 16), (2, 8), (3, 8), (4, 8), (16, 8), (64, 8)]
)
def test_a_low_latency_step_decodes_more_tokens_of_fewer_rows(rows: int, tokens: int) -> None:
    limits = EngineLimits(max_rows=64, max_source_tokens=10)
    engine = Engine(AheadRunner(0, tokens_per_call=48), limits)
    engine.admit([Sequence(row, [7, 2, 5, 0]) for row in range(min(rows, LIMITS.max_rows))])
    engine.owners += engine.owners[:1] * (rows - engine.num_rows)
    assert engine.tokens_per_step == 48
    engine.low_latency = True
    assert engine.tokens_per_step == tokens


def test_a_search_does_not_shorten_the_calls_of_other_sequences() -> None:
    engine = Engine(AheadRunner(0, tokens_per_call=3), LIMITS)
    search = DecodingOptions(return_scores=True)
    engine.admit([Sequence(0, [7, 5, 5, 0]), Sequence(1, [8, 5, 5, 0], search)])
    engine.step()
    assert engine.greedy.remaining(2).tolist() == [5, 0]  # of a limit of 8
    rows = [stats.rows for stats in engine.drain_stats() if stats.phase == "decode"]
    assert rows == [1] * (5 + 3)  # the whole search, and three tokens of the other sequence


def test_a_search_does_not_wait_for_the_calls_of_other_sequences() -> None:
    """Each call decodes eight tokens of the search, and launches the next call of the others."""
    engine = Engine(AheadRunner(1, tokens_per_call=2), LIMITS)
    search = DecodingOptions(return_scores=True)
    engine.admit([Sequence(0, [7, 9, 5, 5, 5, 0]), Sequence(1, [8, 10, 5, 5, 5, 0], search)])
    assert engine.step() == []
    assert engine.searching[1].search.length == 8
    assert len(engine.launched) == 1
    (result,) = engine.step()
    assert result.hypotheses[0].tokens == expected([8, 10, 5, 5, 5, 0])
    assert engine.greedy.lengths[0] == 2
    assert len(engine.launched) == 1
