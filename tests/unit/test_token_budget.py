"""The token budget of a model: it shrinks when memory runs out, and recovers."""

import math
from collections import deque
from dataclasses import replace

import pytest

from model.sequence import DecodingOptions
from service.items import TranslationItem
from service.workers import executors
from service.workers.executors import RECOVERY_SECONDS, TokenBudget
from service.workers.messages import Compute
from tests.unit.worker_bench import Clock, sentence
from tests.unit.worker_talk import Start, sentences
from tests.workers import Script


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(executors, "time", clock)
    return clock


def waiting(count: int) -> deque[TranslationItem]:
    return deque(sentence(number) for number in range(count))


def test_budget_shrinks_with_each_failure_and_recovers_step_by_step(clock: Clock) -> None:
    budget = TokenBudget()
    assert len(budget.take(waiting(16), [])) == 16
    budget.shrink(waiting(16))
    assert len(budget.take(waiting(16), [])) == 8
    budget.shrink(waiting(8))
    found = []
    for _ in range(4):
        found.append(len(budget.take(waiting(16), [])))
        clock.now += RECOVERY_SECONDS
    assert found == [4, 8, 16, 16]
    assert budget.limit == math.inf


def test_long_item_that_fails_alone_does_not_raise_the_limit(clock: Clock) -> None:
    budget = TokenBudget()
    budget.shrink(waiting(4))
    budget.shrink(waiting(16))
    assert len(budget.take(waiting(16), [])) == 2


def test_running_items_count_and_a_long_item_still_runs_alone(clock: Clock) -> None:
    budget = TokenBudget()
    budget.shrink(waiting(4))
    items = waiting(4)
    assert len(budget.take(items, waiting(1))) == 1
    assert len(items) == 3
    assert budget.take(items, waiting(2)) == []
    budget.shrink(waiting(1))
    assert len(budget.take(items, [])) == 1


def test_usual_limit_holds_until_memory_runs_out_and_again_later(clock: Clock) -> None:
    budget = TokenBudget(usual=12)
    assert len(budget.take(waiting(16), [])) == 6
    budget.shrink(waiting(6))
    assert len(budget.take(waiting(16), [])) == 3
    clock.now += RECOVERY_SECONDS
    assert len(budget.take(waiting(16), [])) == 6


def test_failure_of_a_long_item_does_not_delay_a_later_recovery(clock: Clock) -> None:
    budget = TokenBudget(usual=16)
    for failed in (waiting(20), waiting(2)):
        budget.shrink(failed)
        clock.now += RECOVERY_SECONDS
        assert len(budget.take(waiting(16), [])) == 8


def test_items_wait_for_rows_in_order_of_arrival(clock: Clock) -> None:
    budget = TokenBudget()
    wide = replace(sentence(2), options=DecodingOptions(beam_size=4))
    items = deque([sentence(1), wide, sentence(3)])
    assert [item.id for item in budget.take(items, [], rows=4)] == [1]
    assert [item.id for item in budget.take(items, [], rows=3)] == []
    assert [item.id for item in budget.take(items, [], rows=5)] == [2, 3]
    assert not items


def test_later_batches_of_a_worker_are_smaller_after_memory_ran_out(
    start: Start, script: Script
) -> None:
    """Every later batch was as large, and failed too."""
    talk = start(max_rows=16)
    script.no_memory = {*range(100, 200)}  # a batch of two sentences is too large
    talk.send(Compute(sentences(*range(8))))
    talk.hear(8)
    assert not talk.failed
    failures = talk.total("out_of_memory")
    assert failures > 1
    talk.send(Compute(sentences(*range(8, 16))))
    talk.hear(16)
    assert not talk.failed
    assert talk.total("out_of_memory") == failures
