"""The searches against a fake model: log-probabilities that depend on the prefix alone.

The fake is enough because a search sees nothing of a model but these rows.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from model.backends.base import Continuations, Scores
from model.engine.beam import BeamSearch, normalized_score
from model.engine.engine import GreedyRows
from model.sequence import DecodingOptions, Hypothesis

EOS = 0
IDS = np.array([EOS, 7, 5, 9])
MAX_TOKENS = 4
PENALTIES = [0.0, 0.6, 1.0, 2.0]


def advance(search: BeamSearch, log_probs: Tensor) -> None:
    """Advances a search by log-probabilities (k, U) of IDS."""
    scores = Scores(log_probs, IDS)
    search.take(Continuations.of_scores(scores, search.totals))


class FakeModel:
    """A distribution over IDS for each prefix, from a seed."""

    def __init__(self, seed: int, eos_bias: float = 0.0, forbidden: int | None = None) -> None:
        self.seed = seed
        self.eos_bias = eos_bias
        self.forbidden = forbidden

    def log_probs(self, prefix: list[int]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, *prefix)) % 2**31)
        logits = torch.randn(len(IDS), generator=generator)
        logits[0] += self.eos_bias
        if self.forbidden is not None:
            logits[self.forbidden] = -torch.inf
        return logits.log_softmax(-1)

    def run(self, search: BeamSearch) -> list[Hypothesis]:
        """Decodes as an engine does: rows hold prefixes, and follow the search's parents."""
        rows: list[list[int]] = [[] for _ in range(search.num_rows)]
        steps = 0
        while not steps or not search.is_finished:
            advance(search, torch.stack([self.log_probs(row) for row in rows]))
            if search.parents is not None:
                rows = [rows[parent] for parent in search.parents]
            rows = [[*row, token] for row, token in zip(rows, search.next_tokens, strict=True)]
            steps += 1
            assert steps <= search.max_tokens
        return search.hypotheses()

    def total(self, tokens: list[int]) -> float:
        """The sum of the log-probabilities of these tokens."""
        columns = [IDS.tolist().index(token) for token in tokens]
        return math.fsum(
            self.log_probs(tokens[:place])[column].item() for place, column in enumerate(columns)
        )

    def every_target(self, penalty: float) -> list[tuple[float, list[int]]]:
        """Each target that ends in EOS or at the limit, with its score, best first."""
        words = [int(i) for i in IDS if i != EOS]
        ended = [
            [*words_before, EOS]
            for length in range(MAX_TOKENS)
            for words_before in itertools.product(words, repeat=length)
        ]
        capped = [list(target) for target in itertools.product(words, repeat=MAX_TOKENS)]
        scored = [(self.total(t) / len(t) ** penalty, t) for t in ended + capped]
        return sorted(scored, reverse=True)


def plain_beam_search(model: FakeModel, size: int, penalty: float) -> list[tuple[float, list[int]]]:
    """The rule in its shortest form: lists and sorting, no rows.

    Of the 2 `size` best continuations, those by EOS are finished if they are among the first
    `size`, and the first `size` of the others live on; the end comes when `size` are finished
    and none that lives has a better score now than the worst of them.
    """
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, MAX_TOKENS + 1):
        candidates = [
            (total + value, [*tokens, int(token)])
            for total, tokens in live
            for token, value in zip(IDS, model.log_probs(tokens).tolist(), strict=True)
            if value > -math.inf
        ]
        candidates = sorted(candidates, reverse=True)[: 2 * size]
        done = [c for c in candidates[:size] if c[1][-1] == EOS]
        live = [c for c in candidates if c[1][-1] != EOS][:size]
        done += live if length == MAX_TOKENS else []
        finished += [(total / len(tokens) ** penalty, tokens) for total, tokens in done]
        finished = sorted(finished, reverse=True)[:size]
        attainable = max((total for total, _ in live), default=-math.inf) / length**penalty
        if len(finished) == size and finished[-1][0] >= attainable:
            break
    return finished


def as_pairs(hypotheses: list[Hypothesis]) -> list[tuple[float, list[int]]]:
    assert all(h.score is not None for h in hypotheses)
    return [(h.score or 0.0, h.tokens) for h in hypotheses]


def assert_same(
    found: list[tuple[float, list[int]]], expected: list[tuple[float, list[int]]]
) -> None:
    assert [tokens for _, tokens in found] == [tokens for _, tokens in expected]
    # Log-probabilities are float32 in a search's rows; sums of 4 differ by their rounding.
    assert [score for score, _ in found] == pytest.approx([s for s, _ in expected], abs=1e-5)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_the_space_finds_every_target_in_order(seed: int, penalty: float) -> None:
    model = FakeModel(seed)
    expected = model.every_target(penalty)
    options = DecodingOptions(len(expected), len(expected), penalty)
    found = model.run(BeamSearch(options, EOS, MAX_TOKENS))
    assert len(found) == len(expected) == 1 + 3 + 9 + 27 + 81
    assert_same(as_pairs(found), expected)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("eos_bias", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("seed", range(2))
def test_a_narrow_beam_follows_its_rule(
    seed: int, size: int, eos_bias: float, penalty: float
) -> None:
    model = FakeModel(seed, eos_bias)
    options = DecodingOptions(size, size, penalty)
    found = as_pairs(model.run(BeamSearch(options, EOS, MAX_TOKENS)))
    assert_same(found, plain_beam_search(model, size, penalty))
    assert found[0][0] <= model.every_target(penalty)[0][0] + 1e-5


@pytest.mark.parametrize("size", [1, 4])
def test_a_target_ends_at_its_limit(size: int) -> None:
    model = FakeModel(3, eos_bias=-1e4)
    options = DecodingOptions(size, size, return_scores=True)
    for hypothesis in model.run(BeamSearch(options, EOS, MAX_TOKENS)):
        assert len(hypothesis.tokens) == MAX_TOKENS
        assert EOS not in hypothesis.tokens


@pytest.mark.parametrize("size", [1, 3])
def test_eos_at_the_limit_ends_a_target_once(size: int) -> None:
    model = FakeModel(3, eos_bias=1e4)
    options = DecodingOptions(size, size, return_scores=True)
    hypotheses = model.run(BeamSearch(options, EOS, 1))
    assert hypotheses[0].tokens == [EOS]
    assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses)


def test_a_longer_target_wins_under_a_stronger_penalty() -> None:
    short = normalized_score([-1.0, -1.0], 1.0)
    long = normalized_score([-0.8] * 5, 1.0)
    assert short == -1.0
    assert long == pytest.approx(-0.8)
    assert normalized_score([-1.0, -1.0], 0.0) == -2.0 > normalized_score([-0.8] * 5, 0.0)
    assert normalized_score([-1.0, -2.0, -3.0], 2.0) == pytest.approx(-6 / 9)


def test_the_best_hypotheses_come_first_and_no_more_than_wanted() -> None:
    model = FakeModel(1)
    hypotheses = model.run(BeamSearch(DecodingOptions(5, 2), EOS, MAX_TOKENS))
    all_five = model.run(BeamSearch(DecodingOptions(5, 5), EOS, MAX_TOKENS))
    assert hypotheses == all_five[:2]
    scores = [score for score, _ in as_pairs(all_five)]
    assert scores == sorted(scores, reverse=True)
    assert len({tuple(h.tokens) for h in all_five}) == 5


@pytest.mark.parametrize("size", [1, 4])
def test_log_probs_are_those_of_the_tokens(size: int) -> None:
    model = FakeModel(2)
    options = DecodingOptions(size, size, 0.6, return_scores=True)
    for hypothesis in model.run(BeamSearch(options, EOS, MAX_TOKENS)):
        assert len(hypothesis.log_probs) == len(hypothesis.tokens)
        for place, value in enumerate(hypothesis.log_probs):
            column = IDS.tolist().index(hypothesis.tokens[place])
            expected = model.log_probs(hypothesis.tokens[:place])[column].item()
            assert value == pytest.approx(expected, abs=1e-6)
        assert hypothesis.score == normalized_score(hypothesis.log_probs, 0.6)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_a_forbidden_token_is_never_taken(seed: int, size: int) -> None:
    model = FakeModel(seed, forbidden=2)
    options = DecodingOptions(size, size, return_scores=True)
    for hypothesis in model.run(BeamSearch(options, EOS, MAX_TOKENS)):
        assert 5 not in hypothesis.tokens


def test_a_beam_that_can_only_end_ends() -> None:
    """Every continuation is EOS: one hypothesis, and rows that go on must add none."""
    search = BeamSearch(DecodingOptions(3, 3), EOS, MAX_TOKENS)
    only_eos = torch.tensor([0.0, -torch.inf, -torch.inf, -torch.inf]).expand(3, -1)
    for _ in range(MAX_TOKENS):
        advance(search, only_eos)
        assert search.next_tokens == [EOS] * 3
    assert search.is_finished
    assert [h.tokens for h in search.hypotheses()] == [[EOS]]


def test_a_beam_with_fewer_ways_than_rows_gives_each_once() -> None:
    search = BeamSearch(DecodingOptions(4, 4), EOS, 2)
    two_ways = torch.tensor([-0.7, -0.7, -torch.inf, -torch.inf]).expand(4, -1)
    advance(search, two_ways)
    advance(search, two_ways)
    assert sorted(h.tokens for h in search.hypotheses()) == [[EOS], [7, EOS], [7, 7]]


def test_greedy_takes_the_best_token_each_time() -> None:
    model = FakeModel(4, eos_bias=-1.0)
    (found,) = model.run(BeamSearch(DecodingOptions(return_scores=True), EOS, 9))
    for place, token in enumerate(found.tokens):
        assert token == IDS[int(model.log_probs(found.tokens[:place]).argmax())]
    assert found.tokens[-1] == EOS or len(found.tokens) == 9


def new_rows(*limits: int) -> GreedyRows:
    rows = GreedyRows(max_rows=len(limits), max_tokens=max(limits), eos_id=EOS)
    rows.enter(0, limits)
    return rows


def append(rows: GreedyRows, *tokens: int) -> list[int]:
    return rows.append(np.arange(len(tokens)), np.array(tokens)[:, None])


def test_tokens_go_where_their_rows_are_now_and_nowhere_once_they_are_gone() -> None:
    rows = new_rows(5, 5, 5)
    rows.append(np.array([2, -1, 0]), np.array([[7], [8], [9]]))
    assert [rows.target(row) for row in range(3)] == [[9], [], [7]]


def test_several_tokens_at_once_go_up_to_the_end_of_each_row() -> None:
    rows = new_rows(6, 2, 6, 6)
    append(rows, 3, 3, 3, 3)
    assert rows.remaining(4).tolist() == [5, 1, 5, 5]
    best = np.array([[5, 6, 7], [5, -1, -1], [5, EOS, -1], [8, 8, 8]])
    assert rows.append(np.array([0, 1, 2, -1]), best) == [1, 2]
    assert [rows.target(row) for row in range(4)] == [[3, 5, 6, 7], [3, 5], [3, 5, EOS], [3]]
