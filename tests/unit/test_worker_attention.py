"""Attention in a worker: its share beside translations, by a clock that only the test moves."""

from collections.abc import Iterator

import pytest

from tests.unit.worker_bench import ATTENTION_SLICE_SECONDS, Start, benches, pair

STEP_SECONDS = 0.0004
MANY = range(390)
"""Numbers of more pairs than a test computes."""


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    with benches(monkeypatch) as start:
        yield start


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_attention_gets_its_share_of_the_time_beside_translations(
    start: Start, share: float
) -> None:
    bench = start(share)
    bench.attend_one_by_one(MANY)
    bench.translate(STEP_SECONDS)
    begin = bench.clock.now
    bench.run_for(1.0)
    assert bench.attention
    spent = bench.capture.slices * ATTENTION_SLICE_SECONDS
    assert spent / (bench.clock.now - begin) == pytest.approx(share, abs=0.01)
    translation = bench.engine.num_steps * STEP_SECONDS
    assert spent + translation == pytest.approx(bench.clock.now - begin)


def test_no_time_is_saved_up_without_translations(start: Start) -> None:
    bench = start(0.5)
    bench.attend_one_by_one(MANY)
    bench.translate(0.003, rows=1)
    bench.loop()
    assert bench.attention.credit != 0.0
    bench.stop_translating()
    bench.loop()
    assert bench.attention.credit == 0.0


def test_attention_is_computed_in_the_gaps_between_translations(start: Start) -> None:
    """With a wait of 2 ms after each translation, attention took half as long again."""
    bench = start(0.25)
    bench.attend_one_by_one(MANY)
    bench.translate(STEP_SECONDS)
    bench.loop()
    bench.stop_translating()
    before = bench.capture.slices
    bench.worker._receive()
    bench.loop()
    assert bench.waits == 0
    assert bench.capture.slices > before


def test_models_divide_the_time_beside_translations(start: Start) -> None:
    """A turn that is one slice must not let the first model compute all slices."""
    bench = start(0.1)
    bench.translate(0.002)
    for model in bench.captures:
        bench.attend_one_by_one(range(100), model)
    while sum(capture.slices for capture in bench.captures.values()) < 40:
        bench.loop()
    assert [capture.slices for capture in bench.captures.values()] == [20, 20]


def test_results_are_sent_at_once(start: Start) -> None:
    bench = start(0.5)
    bench.translate(0.0001)
    bench.send(pair(1), pair(2))
    while bench.attention:
        assert not bench.done
        bench.loop()
    assert bench.done == [1, 2]
