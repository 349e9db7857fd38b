"""Embeddings in a worker: half of the time beside translations, by a clock that the test moves."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from model.engine.engine import Engine
from model.sequence import Sequence as SourceSequence
from service.ipc.channel import Channel
from service.workers import time_slicing as side_work
from service.workers import worker as worker_module
from service.workers.executors.embedding import EmbeddingQueue
from service.workers.messages import Abort, Embed, EmbedTask, Report, Work
from service.workers.time_slicing import EMBEDDING_SHARE, MAX_CREDIT_SECONDS
from service.workers.worker import HOLD_ROWS, REPORT_SECONDS, Worker
from tests.tiny import tiny_config, tiny_model
from tests.unit.test_inspection_queue import task
from tests.unit.test_worker_attention import Clock, CountingQueue, FakeEngine

SLICE_SECONDS = 0.003
POISON = 99


class TimedPass:
    """Each slice takes SLICE_SECONDS of the clock; three make a batch."""

    def __init__(self, bench: "Bench", tasks: Sequence[EmbedTask]) -> None:
        self.bench = bench
        self.tasks = tasks
        self.left = 3

    def advance(self) -> bool:
        self.bench.slices += 1
        self.bench.clock.now += SLICE_SECONDS
        if any(POISON in each.ids for each in self.tasks):
            raise self.bench.error
        self.left -= 1
        return self.left > 0

    def take_finished(self) -> dict[int, Any]:
        return {place: np.zeros(2, np.float32) for place in range(len(self.tasks))}


class Bench:
    """A worker without a socket."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.sent: list[Report] = []
        self.slices = 0
        self.error: Exception = RuntimeError("a fault of the device")
        model = tiny_model(tiny_config(), seed=1)
        self.engine = FakeEngine(clock, model)
        self.inspections = CountingQueue(model, clock)
        self.worker = Worker(cast("Channel", SimpleNamespace(send=self.sent.append)))
        self.worker.engines["en-pt"] = cast("Engine", self.engine)
        self.worker.attention.queues["en-pt"] = self.inspections
        self.worker.attention.share = 0.1
        self.worker.last_report = clock.now
        self.add_model("tiny")

    def add_model(self, name: str) -> EmbeddingQueue:
        queue = EmbeddingQueue(lambda tasks: TimedPass(self, tasks), torch.device("cpu"))
        self.worker.embedding.queues[name] = queue
        return queue

    def add(self, *ids: int, length: int = 200, token: int = 5) -> None:
        self.worker._obey(Embed({"tiny": [EmbedTask(i, [token] * length) for i in ids]}))

    def loop(self, times: int = 1) -> None:
        for _ in range(times):
            self.worker._step()
            self.worker._embed()
            self.worker._inspect()
            self.worker._report()

    def translate(self, step_seconds: float) -> None:
        self.engine.num_rows, self.engine.step_seconds = 4, step_seconds

    @property
    def embedded(self) -> list[int]:
        return [each.id for report in self.sent for each in report.embedded]

    @property
    def failed(self) -> list[int]:
        return [each.id for report in self.sent for each in report.failed]


Start = Callable[[], Bench]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    clock = Clock()
    monkeypatch.setattr(worker_module, "time", clock)
    monkeypatch.setattr(side_work, "time", clock)
    return lambda: Bench(clock)


def test_embeddings_get_half_of_the_time_beside_translations(start: Start) -> None:
    bench = start()
    bench.add(*range(1000))
    bench.translate(0.0004)
    begin = bench.clock.now
    while bench.clock.now < begin + 2.0:
        bench.loop()
    assert bench.slices * SLICE_SECONDS / 2.0 == pytest.approx(EMBEDDING_SHARE, abs=0.01)
    assert bench.engine.steps * 0.0004 / 2.0 == pytest.approx(1 - EMBEDDING_SHARE, abs=0.01)


def test_attention_keeps_its_share_beside_both(start: Start) -> None:
    bench = start()
    bench.add(*range(1000))
    bench.translate(0.0004)
    bench.inspections.alone.extend(task(number) for number in range(2000))
    begin = bench.clock.now
    while bench.clock.now < begin + 2.0:
        bench.loop()
    attention = bench.inspections.slices * 0.002 / 2.0
    assert attention == pytest.approx(0.1, abs=0.01)
    embedding = bench.slices * SLICE_SECONDS / 2.0
    assert embedding == pytest.approx((1 - attention) / 2, abs=0.01)


def test_attention_keeps_its_share_beside_embeddings_alone(start: Start) -> None:
    bench = start()
    bench.add(*range(1000))
    bench.inspections.alone.extend(task(number) for number in range(2000))
    begin = bench.clock.now
    while bench.clock.now < begin + 2.0:
        bench.loop()
    assert bench.inspections.slices * 0.002 / 2.0 == pytest.approx(0.1, abs=0.01)


def test_long_step_saves_up_no_long_turn(start: Start) -> None:
    bench = start()
    bench.add(*range(100))
    bench.translate(1.0)
    bench.loop()
    assert 1 <= bench.slices <= MAX_CREDIT_SECONDS / SLICE_SECONDS + 1


def test_encoding_of_newcomers_counts_as_translating(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was left out, and embeddings got less than half beside many short sentences."""
    bench = start()

    def admit(_sequences: Sequence[SourceSequence]) -> None:
        bench.clock.now += 0.002

    messages = [[Work({"en-pt": [SourceSequence(1, [5, 0])]})]]
    channel = SimpleNamespace(has_message=lambda: bool(messages), receive=messages.pop)
    monkeypatch.setattr(bench.worker, "channel", channel)
    monkeypatch.setattr(bench.engine, "admit", admit, raising=False)
    bench.translate(0.0)
    bench.worker._receive()
    assert bench.worker.embedding.credit == pytest.approx(0.002)
    assert bench.worker.attention.credit == pytest.approx(0.002 / 9)


def test_worker_that_does_not_translate_computes_one_slice_a_turn(start: Start) -> None:
    """So that a sentence or a short text that comes waits for one slice at most."""
    bench = start()
    bench.add(1)
    for turn in range(1, 4):
        bench.loop()
        assert bench.slices == turn
    assert bench.embedded == [1]
    assert bench.worker.is_idle


def test_models_take_turns(start: Start) -> None:
    bench = start()
    other = bench.add_model("other")
    other.add([EmbedTask(2, [5])])
    bench.add(1)
    bench.loop(3)
    assert sorted(bench.embedded) == [1, 2]


def test_vectors_are_sent_at_once(start: Start) -> None:
    """Beside a full batch too, where results of translations wait for others."""
    bench = start()
    bench.engine.num_rows, bench.engine.step_seconds = worker_module.HOLD_ROWS, 0.001
    bench.add(1)
    while bench.slices < 3:
        assert not bench.embedded
        bench.loop()
    assert bench.embedded == [1]


def test_figures_tell_of_the_batch(start: Start) -> None:
    bench = start()
    bench.add(1, 2, length=20)
    while not bench.worker.is_idle:
        bench.loop()
    (batch,) = [batch for report in bench.sent for batch in report.batches.get("tiny", {})]
    assert (batch.phase, batch.rows, batch.tokens, batch.padding_tokens) == ("embed", 2, 40, 0)


def test_worker_speaks_in_the_middle_of_a_long_batch(start: Start) -> None:
    """The server takes one that says nothing for one that hangs."""
    bench = start()
    bench.add(1)
    bench.clock.now += 2 * REPORT_SECONDS
    bench.loop()
    assert len(bench.sent) == 1
    assert not bench.embedded


def test_aborted_text_is_never_heard_of(start: Start) -> None:
    bench = start()
    bench.add(1, 2, 3, length=20)
    bench.worker._obey(Abort([2]))
    bench.loop()
    bench.worker._obey(Abort([3]))
    bench.loop(5)
    assert bench.embedded == [1]
    assert bench.worker.is_idle


def test_text_that_cannot_be_embedded_fails_alone(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    bench = start()
    bench.add(1, length=20)
    bench.add(7, length=20, token=POISON)
    bench.add(2, length=20)
    while not bench.worker.is_idle:
        bench.loop()
    bench.loop()
    assert (bench.embedded, bench.failed) == ([1, 2], [7])
    assert "text 7 cannot be computed" in caplog.text
    assert [report.splits for report in bench.sent if report.splits] == [{"tiny": 1}]


def test_lack_of_memory_is_told(start: Start) -> None:
    bench = start()
    bench.error = torch.OutOfMemoryError("too much")
    bench.add(7, token=POISON)
    bench.loop(2)
    (failed,) = [each for report in bench.sent for each in report.failed]
    assert failed.is_out_of_memory
    assert [r.out_of_memory for r in bench.sent if r.out_of_memory] == [{"tiny": 1}]


@pytest.mark.parametrize(
    ("rows", "has_text", "low_latency"),
    [(HOLD_ROWS, False, False), (HOLD_ROWS - 1, False, True), (HOLD_ROWS, True, True)],
)
def test_translations_are_hurried_in_small_batches_and_beside_texts(
    start: Start, rows: int, has_text: bool, low_latency: bool
) -> None:
    bench = start()
    bench.engine.num_rows = rows
    if has_text:
        bench.add(1)
    bench.worker._step()
    assert cast("Engine", bench.engine).low_latency is low_latency


def test_translations_are_hurried_while_there_is_bulk_work_among_them(start: Start) -> None:
    """Who comes then waits for the end of a step, and has its own sentence alone."""
    bench = start()
    bench.engine.num_rows = HOLD_ROWS
    engine = cast("Engine", bench.engine)
    (name,) = bench.worker.engines
    sequences = [SourceSequence(number, [5, 0]) for number in (1, 2)]
    bench.worker._obey(Work({name: sequences}, bulk=[2]))
    bench.worker.held[name] = {each.id: each for each in bench.worker.newcomers.pop(name)}
    bench.worker._step()
    assert engine.low_latency
    bench.worker._obey(Abort([2]))
    bench.worker._step()
    assert not engine.low_latency
