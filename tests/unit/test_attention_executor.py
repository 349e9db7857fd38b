"""Attention of one model in a worker, slice by slice, computed by a tiny model."""

from functools import partial

import pytest

from model.architectures.stack import EncoderDecoder
from model.config import DecoderKind
from model.encoding.capture_pass import TeacherForcedPass
from model.errors import ModelError
from model.sequence import BatchStats
from service.items import Done
from service.workers.executors import AttentionExecutor
from tests.attention_jobs import assert_maps_close, results
from tests.tiny import tiny_config, tiny_model
from tests.unit.worker_bench import PAIRS, pair


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    return tiny_model(tiny_config(decoder=DecoderKind.SSRU), seed=1)


@pytest.fixture
def executor(model: EncoderDecoder) -> AttentionExecutor:
    return AttentionExecutor(partial(TeacherForcedPass, model), model.device)


def finish(executor: AttentionExecutor) -> tuple[list[Done], list[int]]:
    done: list[Done] = []
    failed: list[int] = []
    while executor:
        try:
            done += executor.step()
        except (ModelError, RuntimeError):
            failed += [item.id for item in executor.isolate()]
    return done, failed


def ids(done: list[Done]) -> list[int]:
    return [each.id for each in done]


def rows(executor: AttentionExecutor) -> list[int]:
    return [stats.rows for stats in executor.drain_stats()]


def test_waiting_items_are_computed_together(
    executor: AttentionExecutor, model: EncoderDecoder
) -> None:
    items = [pair(number) for number in range(3)]
    executor.add(items[:2])
    executor.add(items[2:])
    done, failed = finish(executor)
    assert (ids(done), failed) == ([0, 1, 2], [])
    expected = results(model, [item.job for item in items])
    for each, maps in zip(done, expected, strict=True):
        (found,) = each.value
        assert_maps_close(found, maps, atol=0)
    tokens = sum(len(source) + len(target) for source, target in PAIRS[:3])
    assert executor.drain_stats() == [BatchStats("attention", 3, tokens, 0)]
    assert not executor.drain_stats()


def test_each_step_computes_one_slice(executor: AttentionExecutor) -> None:
    """An item that arrives meanwhile waits for the next batch."""
    executor.add([pair(1)])
    assert executor.step() == []
    executor.add([pair(2)])
    done: list[Done] = []
    num_steps = 1
    while not done:
        done = executor.step()
        num_steps += 1
    assert num_steps > 4
    assert ids(done) == [1]
    assert ids(finish(executor)[0]) == [2]
    assert rows(executor) == [1, 1]


def test_fault_in_the_middle_of_a_batch_is_isolated_too(
    executor: AttentionExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault occurs once. Of two items, the aborted one may have caused it."""
    executor.add([pair(0), pair(1)])
    executor.step()
    executor.abort([0])

    def fail() -> bool:
        raise RuntimeError("a fault of the device")

    monkeypatch.setattr(executor.current.batch, "advance", fail)
    executor.add([pair(2)])
    done, failed = finish(executor)
    assert (ids(done), failed) == ([1, 2], [])
    assert rows(executor) == [1, 1]
