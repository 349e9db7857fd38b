"""The shares of task kinds in the time of a worker, by a clock that only the tests move."""

from types import SimpleNamespace

import pytest
import torch

from service.tasks.table import EMBEDDING_SHARE
from service.workers import device_time
from service.workers import worker as worker_module
from service.workers.executors import OLDEST_SHARE
from service.workers.messages import Compute
from service.workers.time_share import MAX_CREDIT_SECONDS, MAX_OVERDRAFT_SECONDS
from service.workers.worker import BESIDE_SECONDS, REPORT_SECONDS
from tests.unit.worker_bench import (
    ATTENTION_SLICE_SECONDS,
    POISON,
    TEXT_SLICE_SECONDS,
    TEXT_SLICES,
    Bench,
    Clock,
    pair,
    sentence,
    text,
)

STEP_SECONDS = 0.0004

SHORT, LONG = 8, 360

MANY = range(390)
"""Numbers of more pairs than a test computes."""


@pytest.fixture
def attention_share() -> float:
    """A test may parametrize it."""
    return 0.1


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, attention_share: float) -> Bench:
    clock = Clock()
    monkeypatch.setattr(worker_module, "time", clock)
    monkeypatch.setattr(device_time, "time", clock)
    return Bench(clock, attention_share)


@pytest.mark.parametrize("length", [SHORT, LONG])
def test_embeddings_get_their_share_beside_translations(bench: Bench, length: int) -> None:
    bench.send(*(text(number, length=length) for number in range(10_000)))
    bench.translate(STEP_SECONDS)
    bench.run_for(2.0)
    embedding = bench.text_slices * TEXT_SLICE_SECONDS / 2.0
    assert embedding == pytest.approx(EMBEDDING_SHARE, abs=0.01)
    translation = bench.engine.num_steps * STEP_SECONDS / 2.0
    assert translation == pytest.approx(1 - EMBEDDING_SHARE, abs=0.01)


@pytest.mark.parametrize(
    ("length", "slice_seconds", "slices"),
    [(SHORT, 0.001, TEXT_SLICES), (SHORT, MAX_OVERDRAFT_SECONDS / 2 + 0.001, 2), (LONG, 0.001, 1)],
)
def test_batch_of_short_texts_overdraws_the_credit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, length: int, slice_seconds: float, slices: int
) -> None:
    """A short batch ends without a pause if it is fast; a long batch has one slice a step."""
    monkeypatch.setattr("tests.unit.worker_bench.TEXT_SLICE_SECONDS", slice_seconds)
    bench.send(text(1, length=length))
    bench.translate(STEP_SECONDS)
    bench.loop()
    assert bench.text_slices == slices


def test_overdraft_is_paid_back_before_the_next_batch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.worker_bench.TEXT_SLICE_SECONDS", 0.001)
    bench.translate(STEP_SECONDS)
    bench.send(text(1, length=SHORT))
    bench.loop()
    assert bench.done == [1]
    bench.send(text(2, length=SHORT))
    while bench.text_slices == TEXT_SLICES:
        bench.loop()
    steps = bench.engine.num_steps * STEP_SECONDS
    assert steps * EMBEDDING_SHARE / (1 - EMBEDDING_SHARE) > TEXT_SLICES * 0.001
    assert bench.done == [1, 2]


def test_attention_keeps_its_share_beside_both(bench: Bench) -> None:
    bench.send(*map(text, range(1000)))
    bench.translate(STEP_SECONDS)
    bench.attend_one_by_one(range(2000))
    bench.run_for(2.0)
    attention = bench.capture.slices * ATTENTION_SLICE_SECONDS / 2.0
    assert attention == pytest.approx(0.1, abs=0.01)
    embedding = bench.text_slices * TEXT_SLICE_SECONDS / 2.0
    assert embedding == pytest.approx((1 - attention) * EMBEDDING_SHARE, abs=0.01)


def test_long_step_saves_up_no_long_turn(bench: Bench) -> None:
    bench.send(*map(text, range(100)))
    bench.translate(1.0)
    bench.loop()
    assert 1 <= bench.text_slices <= MAX_CREDIT_SECONDS / TEXT_SLICE_SECONDS + 1


def test_time_of_encoding_counts_as_translating(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, embeddings received less than their share beside many short sentences."""
    messages = [[Compute([sentence(1)])]]
    channel = SimpleNamespace(
        has_message=lambda: bool(messages), receive=messages.pop, wait=lambda _: None
    )
    monkeypatch.setattr(bench.worker, "channel", channel)
    bench.engine.admit_seconds = 0.002
    bench.worker._receive()
    bench.worker._compute()
    assert bench.embedding.credit == pytest.approx(0.002 * EMBEDDING_SHARE / (1 - EMBEDDING_SHARE))
    assert bench.attention.credit == pytest.approx(0.002 / 9)


def test_worker_without_translations_computes_one_slice_a_turn(bench: Bench) -> None:
    """A sentence or a short text that arrives waits for one slice at most."""
    bench.send(text(1))
    for turn in range(1, TEXT_SLICES + 1):
        bench.loop()
        assert bench.text_slices == turn
    assert bench.done == [1]
    assert bench.worker.is_idle


def test_models_whose_texts_are_equally_long_take_turns(bench: Bench) -> None:
    """The model with the oldest text gets no more slices."""
    bench.send(*[text(number, length=LONG) for number in range(20)])
    bench.send(*[text(number, "other", length=LONG) for number in range(20, 40)])
    bench.loop(20 * TEXT_SLICES)
    assert [number < 20 for number in bench.done] == 10 * [True, False]


def test_short_texts_of_a_model_come_before_long_texts_of_another(bench: Bench) -> None:
    bench.send(*[text(number, "other", length=LONG) for number in range(8)])
    bench.loop()
    bench.send(text(100, length=SHORT))
    bench.loop(TEXT_SLICES)
    assert bench.done == [100]


def test_long_texts_of_a_model_keep_a_share_beside_short_texts_of_another(bench: Bench) -> None:
    bench.send(*[text(number, "other", length=LONG) for number in range(20)])
    bench.send(*[text(number, length=SHORT) for number in range(20, 4000)])
    while not bench.done or bench.done[-1] != 19:
        bench.loop()
    assert 20 * TEXT_SLICES / bench.text_slices == pytest.approx(OLDEST_SHARE, abs=0.01)


def test_worker_reports_in_the_middle_of_a_long_batch(bench: Bench) -> None:
    """The server ends a worker that is silent."""
    bench.send(text(1))
    bench.clock.now += 2 * REPORT_SECONDS
    bench.loop()
    assert len(bench.sent) == 1
    assert not bench.done


def test_halves_of_a_failed_batch_leave_time_for_translations(bench: Bench) -> None:
    bench.send(*(text(number, length=8) for number in range(31)), text(31, length=8, token=POISON))
    bench.translate(STEP_SECONDS)
    begin = bench.clock.now
    while not bench.failed:
        bench.loop()
    translation = bench.engine.num_steps * STEP_SECONDS
    embedding = bench.text_slices * TEXT_SLICE_SECONDS
    earned = translation * EMBEDDING_SHARE / (1 - EMBEDDING_SHARE)
    assert embedding == pytest.approx(earned, abs=MAX_CREDIT_SECONDS)
    assert translation + embedding == pytest.approx(bench.clock.now - begin)
    assert sorted(bench.done) == [*range(31)]
    bench.run_for(2 * REPORT_SECONDS)
    assert bench.total("splits", "tiny") == 5  # of 32, 16, 8, 4 and 2 texts


def test_text_that_runs_out_of_memory_is_reported_as_such(bench: Bench) -> None:
    bench.error = torch.OutOfMemoryError("too much")
    bench.send(text(7, token=POISON))
    bench.loop(2)
    (failed,) = [each for report in bench.sent for each in report.failed]
    assert failed.is_out_of_memory
    assert bench.total("out_of_memory", "tiny") == 1
    assert bench.total("splits", "tiny") == 0


@pytest.mark.parametrize(
    ("rows", "has_text", "low_latency"),
    [(16, False, False), (1, False, False), (1, True, True), (16, True, True)],
)
def test_batch_has_low_latency_beside_texts(
    bench: Bench, rows: int, has_text: bool, low_latency: bool
) -> None:
    bench.translate(STEP_SECONDS, rows)
    if has_text:
        bench.send(text(1))
    assert bench.has_low_latency() is low_latency


def test_batch_has_low_latency_for_a_moment_after_texts(bench: Bench) -> None:
    """The next text may arrive during the step."""
    bench.send(text(1))
    bench.finish()
    bench.translate(STEP_SECONDS)
    assert bench.has_low_latency()
    bench.clock.now += BESIDE_SECONDS
    assert not bench.has_low_latency()


def test_batch_has_low_latency_beside_another_model(bench: Bench) -> None:
    bench.translate(STEP_SECONDS)
    assert not bench.has_low_latency()
    bench.send(sentence(1, "pt-en"))
    assert bench.has_low_latency()
    bench.abort(1)
    assert not bench.has_low_latency()


@pytest.mark.parametrize("attention_share", [0.1, 0.25, 0.5, 0.9])
def test_attention_gets_its_share_of_the_time_beside_translations(
    bench: Bench, attention_share: float
) -> None:
    bench.attend_one_by_one(MANY)
    bench.translate(STEP_SECONDS)
    begin = bench.clock.now
    bench.run_for(1.0)
    assert bench.attention
    spent = bench.capture.slices * ATTENTION_SLICE_SECONDS
    assert spent / (bench.clock.now - begin) == pytest.approx(attention_share, abs=0.01)
    translation = bench.engine.num_steps * STEP_SECONDS
    assert spent + translation == pytest.approx(bench.clock.now - begin)


@pytest.mark.parametrize("attention_share", [0.5])
def test_no_time_is_saved_up_without_translations(bench: Bench) -> None:
    bench.attend_one_by_one(MANY)
    bench.translate(0.003, rows=1)
    bench.loop()
    assert bench.attention.credit != 0.0
    bench.stop_translating()
    bench.loop()
    assert bench.attention.credit == 0.0


@pytest.mark.parametrize("attention_share", [0.25])
def test_attention_is_computed_in_the_gaps_between_translations(bench: Bench) -> None:
    """With a wait of 2 ms after each translation, attention took half as long again."""
    bench.attend_one_by_one(MANY)
    bench.translate(STEP_SECONDS)
    bench.loop()
    bench.stop_translating()
    before = bench.capture.slices
    bench.worker._receive()
    bench.loop()
    assert bench.waits == 0
    assert bench.capture.slices > before


def test_models_divide_the_time_beside_translations(bench: Bench) -> None:
    """A turn that is one slice must not let the first model compute all slices."""
    bench.translate(0.002)
    for model in bench.captures:
        bench.attend_one_by_one(range(100), model)
    while sum(capture.slices for capture in bench.captures.values()) < 40:
        bench.loop()
    assert [capture.slices for capture in bench.captures.values()] == [20, 20]


@pytest.mark.parametrize("attention_share", [0.5])
def test_results_are_sent_at_once(bench: Bench) -> None:
    bench.translate(0.0001)
    bench.send(pair(1), pair(2))
    while bench.attention:
        assert not bench.done
        bench.loop()
    assert bench.done == [1, 2]
