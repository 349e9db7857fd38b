"""Attention in a worker: its share beside translations, by a clock that only the test moves."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from model.architectures.seq2seq import EncoderDecoder
from model.encoding.teacher_forced import TeacherForcedPass
from model.engine.engine import Engine
from model.sequence import BatchStats, Finished
from service.ipc.channel import Channel
from service.workers import time_slicing as side_work
from service.workers import worker as worker_module
from service.workers.executors.attention import InspectionQueue
from service.workers.messages import Abort, Inspect, Report
from service.workers.time_slicing import MAX_CREDIT_SECONDS
from service.workers.worker import REPORT_SECONDS, Worker
from tests.tiny import tiny_config, tiny_model
from tests.unit.test_inspection_queue import task

SLICE_SECONDS = 0.002


class Clock:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


class FakeEngine:
    """Some rows that take so long a step, and never finish."""

    tokens_per_step = 1

    def __init__(self, clock: Clock, model: EncoderDecoder) -> None:
        self.clock = clock
        self.model = model
        self.num_rows = 0
        self.step_seconds = 0.0
        self.steps = 0
        self.stats: list[BatchStats] = []

    def step(self) -> list[Finished]:
        self.steps += self.num_rows > 0
        self.clock.now += self.step_seconds if self.num_rows else 0.0
        return []

    def abort(self, _sequence_id: int) -> bool:
        return False

    def drain_stats(self) -> list[BatchStats]:
        stats, self.stats = self.stats, []
        return stats


class CountingQueue(InspectionQueue):
    """Each slice takes SLICE_SECONDS of the clock."""

    def __init__(self, model: EncoderDecoder, clock: Clock) -> None:
        super().__init__(partial(TeacherForcedPass, model), model.device)
        self.model = model
        self.clock = clock
        self.slices = 0

    def advance(self) -> list[Any]:
        self.slices += 1
        self.clock.now += SLICE_SECONDS
        return super().advance()


class Bench:
    """A worker without a socket."""

    def __init__(self, clock: Clock, share: float) -> None:
        self.clock = clock
        self.sent: list[Report] = []
        model = tiny_model(tiny_config(), seed=1)
        self.engine = FakeEngine(clock, model)
        self.queue = CountingQueue(model, clock)
        self.worker = Worker(cast("Channel", SimpleNamespace(send=self.sent.append)))
        self.worker.engines["en-pt"] = cast("Engine", self.engine)
        self.worker.attention.queues["en-pt"] = self.queue
        self.worker.attention.share = share
        self.worker.last_report = clock.now

    def add(self, *ids: int) -> None:
        self.worker._obey(Inspect({"en-pt": [task(number) for number in ids]}))

    def loop(self, times: int = 1) -> None:
        for _ in range(times):
            self.worker._step()
            self.worker._inspect()
            self.worker._report()

    @property
    def inspected(self) -> list[int]:
        return [each.id for report in self.sent for each in report.inspected]

    @property
    def failed(self) -> list[int]:
        return [each.id for report in self.sent for each in report.failed]


Start = Callable[..., Bench]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    clock = Clock()
    monkeypatch.setattr(worker_module, "time", clock)
    monkeypatch.setattr(side_work, "time", clock)
    return lambda share=0.25: Bench(clock, share)


def endless(bench: Bench) -> None:
    """As many tasks as any test could compute, one after the other."""
    bench.add(*range(4))
    while bench.queue.slices < 4:
        bench.loop()
    bench.queue.slices = 0
    for number in range(10, 400, 2):  # each pass a few slices
        bench.queue.alone.extend([task(number), task(number + 1)])


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_attention_gets_its_share_of_the_time_beside_translations(
    start: Start, share: float
) -> None:
    bench = start(share)
    endless(bench)
    bench.engine.num_rows, bench.engine.step_seconds = 4, 0.0004
    begin = bench.clock.now
    while bench.clock.now < begin + 1.0:
        bench.loop()
        assert len(bench.queue)
    spent = bench.queue.slices * SLICE_SECONDS
    assert spent / (bench.clock.now - begin) == pytest.approx(share, abs=0.01)
    assert spent + bench.engine.steps * 0.0004 == pytest.approx(bench.clock.now - begin)


def test_long_step_saves_up_no_long_turn(start: Start) -> None:
    """A step of a second is worth no more than MAX_CREDIT_SECONDS, some slices."""
    bench = start(0.5)
    endless(bench)
    bench.engine.num_rows, bench.engine.step_seconds = 4, 1.0
    bench.loop()
    assert 1 <= bench.queue.slices <= MAX_CREDIT_SECONDS / SLICE_SECONDS + 1


def test_nothing_is_saved_up_while_nothing_is_translated(start: Start) -> None:
    bench = start(0.5)
    endless(bench)
    bench.engine.num_rows, bench.engine.step_seconds = 1, 0.004
    bench.loop()
    bench.engine.num_rows = 0
    bench.loop()
    assert bench.worker.attention.credit == 0.0


def test_idle_worker_computes_one_slice_a_turn(start: Start) -> None:
    """So that a sentence that comes waits for one slice at most."""
    bench = start()
    bench.add(1)
    for turn in range(1, 4):
        bench.loop()
        assert bench.queue.slices == turn


def test_models_take_turns(start: Start) -> None:
    bench = start()
    other = CountingQueue(bench.queue.model, bench.clock)
    bench.worker.engines["pt-en"] = cast("Engine", FakeEngine(bench.clock, other.model))
    bench.worker.attention.queues["pt-en"] = other
    bench.worker._obey(Inspect({"en-pt": [task(1)], "pt-en": [task(2)]}))
    bench.loop(2)
    assert (bench.queue.slices, other.slices) == (2, 2)
    while not bench.worker.is_idle:
        bench.loop()
    assert sorted(bench.inspected) == [1, 2]


def test_models_share_what_there_is_beside_translations(start: Start) -> None:
    """Where a turn was one slice, the first model got them all for as long as it had tasks."""
    bench = start(0.1)
    other = CountingQueue(bench.queue.model, bench.clock)
    bench.worker.engines["pt-en"] = cast("Engine", FakeEngine(bench.clock, other.model))
    bench.worker.attention.queues["pt-en"] = other
    bench.engine.num_rows, bench.engine.step_seconds = 4, 0.002
    for queue in (bench.queue, other):
        queue.alone.extend(task(number) for number in range(100))
    while bench.queue.slices + other.slices < 40:
        bench.loop()
    assert bench.queue.slices == other.slices == 20


def test_results_are_sent_at_once(start: Start) -> None:
    """Beside a full batch too, where results of translations wait for others."""
    bench = start(0.5)
    bench.engine.num_rows, bench.engine.step_seconds = worker_module.HOLD_ROWS, 0.0001
    bench.add(1, 2)
    while len(bench.queue):
        assert not bench.inspected
        bench.loop()
    assert bench.inspected == [1, 2]


def test_share_goes_to_who_is_left_when_one_model_is_done(start: Start) -> None:
    bench = start(0.5)
    other = CountingQueue(bench.queue.model, bench.clock)
    bench.worker.engines["pt-en"] = cast("Engine", FakeEngine(bench.clock, other.model))
    bench.worker.attention.queues["pt-en"] = other
    bench.engine.num_rows, bench.engine.step_seconds = 4, 0.002
    bench.worker._obey(Inspect({"en-pt": [task(1)], "pt-en": [task(2)]}))
    for _ in range(200):
        bench.loop()
    assert sorted(bench.inspected) == [1, 2]


def test_worker_speaks_in_the_middle_of_a_long_pass(start: Start) -> None:
    """It sent nothing before the end, and the server took it for one that hangs."""
    bench = start()
    bench.add(1)
    bench.loop()
    assert not bench.sent
    bench.clock.now += 2 * REPORT_SECONDS
    bench.loop()
    assert len(bench.sent) == 1
    assert not bench.inspected
    assert bench.sent[0].memory_bytes["resident"] > 0


def test_figures_tell_of_the_pass(start: Start) -> None:
    bench = start()
    bench.add(1, 2)
    while not bench.worker.is_idle:
        bench.loop()
    (batch,) = [batch for report in bench.sent for batch in report.batches.get("en-pt", {})]
    assert (batch.phase, batch.rows, batch.padding_tokens) == ("attention", 2, 0)


def test_aborted_task_is_never_heard_of(start: Start) -> None:
    bench = start()
    bench.add(1, 2, 3)
    bench.worker._obey(Abort([2]))
    bench.loop()
    bench.worker._obey(Abort([3]))
    while not bench.worker.is_idle:
        bench.loop()
    assert bench.inspected == [1]


def test_aborting_all_leaves_an_idle_worker(start: Start) -> None:
    bench = start()
    bench.add(1, 2)
    bench.loop()
    bench.worker._obey(Abort([1, 2]))
    assert bench.worker.is_idle
    bench.loop(3)
    assert not bench.inspected
    assert not bench.failed


def test_task_that_cannot_be_computed_fails_alone(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    bench = start()
    wrong = task(7, is_wrong=True)
    bench.worker._obey(Inspect({"en-pt": [task(1), wrong, task(2)]}))
    while not bench.worker.is_idle:
        bench.loop()
    bench.loop()
    assert (bench.inspected, bench.failed) == ([1, 2], [7])
    assert "attention task 7 cannot be computed" in caplog.text


def test_lack_of_memory_is_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = start()

    def fail(_queue: InspectionQueue) -> None:
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setattr(InspectionQueue, "_choose", fail)
    bench.add(1)
    bench.queue.running = [bench.queue.waiting.popleft()]
    bench.loop()
    (failed,) = [each for report in bench.sent for each in report.failed]
    assert failed.is_out_of_memory
    assert [report.out_of_memory for report in bench.sent if report.out_of_memory] == [{"en-pt": 1}]
    assert bench.worker.is_idle
