"""Tasks of one model, slice by slice, on a model small enough to be run here and now."""

from functools import partial

import numpy as np
import pytest

from model.architectures.seq2seq import EncoderDecoder
from model.config import DecoderKind
from model.encoding.teacher_forced import TeacherForcedPass
from model.errors import ModelError, UnknownTokenError
from model.inspection.query import AttentionJob, AttentionKind, resolve_query
from model.sequence import BatchStats
from service.workers.executors.attention import InspectionQueue
from service.workers.messages import AttentionTask, Inspected
from tests.attention_jobs import assert_maps_close, random_pairs, results
from tests.tiny import VOCAB_SIZE, tiny_config, tiny_model

PAIRS = random_pairs(6, seed=5, longest=20)


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    return tiny_model(tiny_config(decoder=DecoderKind.SSRU), seed=1)


@pytest.fixture
def queue(model: EncoderDecoder) -> InspectionQueue:
    return InspectionQueue(partial(TeacherForcedPass, model), model.device)


def task(number: int, is_wrong: bool = False) -> AttentionTask:
    """One of the pairs; a wrong one has an id that the model does not know."""
    source, target = PAIRS[number % len(PAIRS)]
    source = [VOCAB_SIZE, *source] if is_wrong else source
    query = resolve_query(tiny_config(), [AttentionKind.ENCODER, AttentionKind.CROSS])
    return AttentionTask(number, AttentionJob(source, target, (query,)))


def finish(queue: InspectionQueue) -> tuple[list[Inspected], list[int]]:
    """All results, and the ids of what failed, as a worker goes on to the end."""
    inspected: list[Inspected] = []
    failed: list[int] = []
    while len(queue):
        try:
            inspected += queue.advance()
        except (ModelError, RuntimeError):
            failed += [task.id for task in queue.isolate()]
    return inspected, failed


def ids(inspected: list[Inspected]) -> list[int]:
    return [each.id for each in inspected]


def test_tasks_that_wait_are_computed_together(
    queue: InspectionQueue, model: EncoderDecoder
) -> None:
    tasks = [task(number) for number in range(3)]
    queue.add(tasks[:2])
    queue.add(tasks[2:])
    assert len(queue) == 3
    inspected, failed = finish(queue)
    assert (ids(inspected), failed) == ([0, 1, 2], [])
    expected = results(model, [task.job for task in tasks])
    for each, maps in zip(inspected, expected, strict=True):
        (found,) = each.results
        assert isinstance(maps, dict)
        assert_maps_close(found, maps, atol=0)
    tokens = sum(len(source) + len(target) for source, target in PAIRS[:3])
    assert queue.drain_stats() == [BatchStats("attention", 3, tokens, 0)]
    assert not queue.drain_stats()


def test_a_slice_at_a_time(queue: InspectionQueue) -> None:
    """Nothing is computed before its turn, and what comes meanwhile waits for the next pass."""
    queue.add([task(1)])
    assert queue.advance() == []
    queue.add([task(2)])
    inspected: list[Inspected] = []
    calls = 1
    while not inspected:
        inspected = queue.advance()
        calls += 1
    assert calls > 4
    assert ids(inspected) == [1]
    assert len(queue) == 1
    assert ids(finish(queue)[0]) == [2]
    assert [stats.rows for stats in queue.drain_stats()] == [1, 1]


def test_aborted_tasks_are_not_computed(queue: InspectionQueue) -> None:
    queue.add(task(number) for number in range(4))
    queue.abort([1, 3, 77])
    assert len(queue) == 2
    assert ids(finish(queue)[0]) == [0, 2]
    assert [stats.rows for stats in queue.drain_stats()] == [2]


def test_task_aborted_while_it_runs_is_never_heard_of(queue: InspectionQueue) -> None:
    queue.add(task(number) for number in range(3))
    queue.advance()
    queue.abort([1])
    inspected, failed = finish(queue)
    assert (ids(inspected), failed) == ([0, 2], [])


def test_pass_ends_when_nobody_waits_for_it(queue: InspectionQueue) -> None:
    queue.add([task(0), task(1)])
    queue.advance()
    queue.add([task(2)])
    queue.abort([0])
    assert len(queue) == 3  # the pass goes on
    queue.abort([1])
    assert len(queue) == 1
    assert ids(finish(queue)[0]) == [2]
    assert [stats.rows for stats in queue.drain_stats()] == [1]


def test_culprit_fails_alone_and_the_others_answer(queue: InspectionQueue) -> None:
    queue.add([task(0), task(1, is_wrong=True), task(2), task(3)])
    inspected, failed = finish(queue)
    assert (ids(inspected), failed) == ([0, 2, 3], [1])
    assert [stats.rows for stats in queue.drain_stats()] == [1, 1, 1]


def test_fault_in_the_middle_of_a_pass_is_isolated_too(
    queue: InspectionQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once only: then all of its tasks are computed, one by one."""
    queue.add([task(0), task(1)])
    queue.advance()

    def fail() -> bool:
        raise RuntimeError("a fault of the device")

    assert queue.attention_pass is not None
    monkeypatch.setattr(queue.attention_pass, "advance", fail)
    queue.add([task(2)])
    inspected, failed = finish(queue)
    assert (ids(inspected), failed) == ([0, 1, 2], [])


def test_aborted_task_of_a_failed_pass_is_not_tried_again(queue: InspectionQueue) -> None:
    queue.add([task(0), task(1, is_wrong=True), task(2)])
    with pytest.raises(UnknownTokenError, match="vocabulary"):
        queue.advance()
    assert queue.isolate() == []
    queue.abort([2])
    assert len(queue) == 2
    queue.abort([0])
    assert len(queue) == 1
    assert finish(queue) == ([], [1])


def test_task_left_of_a_failed_pass_is_not_its_culprit(queue: InspectionQueue) -> None:
    """Of two, the one that was given up may have been what failed."""
    queue.add([task(0), task(1)])
    queue.advance()
    queue.abort([0])
    assert queue.isolate() == []
    inspected, failed = finish(queue)
    assert (ids(inspected), failed) == ([1], [])


def test_results_are_those_of_a_task_alone(queue: InspectionQueue, model: EncoderDecoder) -> None:
    queue.add(task(number) for number in range(6))
    for each in finish(queue)[0]:
        (alone,) = results(model, [task(each.id).job])
        assert isinstance(alone, dict)
        for kind, values in each.results[0].items():
            np.testing.assert_allclose(values, alone[kind], rtol=0, atol=1e-6)
