"""Embeddings of one model in a worker, batch by batch and slice by slice."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from model.sequence import BatchStats
from service.items import BUCKET_TOKENS, EmbeddingItem, bucket_of
from service.items import CPU_BATCH_TOKENS as BATCH_TOKENS
from service.workers.executors import OLDEST_SHARE, EmbeddingExecutor

SHORT, LONG = 8, 400


class ManySlices:
    """A batch that takes one slice, and one more for every 20 tokens of its longest text."""

    def __init__(self, items: Sequence[EmbeddingItem], bench: "Bench") -> None:
        self.items, self.bench = items, bench
        self.slices_left = 1 + max(item.num_tokens for item in items) // 20

    def advance(self) -> bool:
        if any(-1 in item.ids for item in self.items):
            raise RuntimeError("a fault of the device")
        self.bench.order.append(self.items[0].id)
        self.slices_left -= 1
        return self.slices_left > 0

    @property
    def is_ready(self) -> bool:
        return self.bench.is_ready

    def take_finished(self) -> dict[int, NDArray[np.float32]]:
        if any(item.id in self.bench.unreadable for item in self.items):
            raise RuntimeError("a fault of the device")
        return {
            index: np.array([item.id, item.num_tokens], dtype=np.float32)
            for index, item in enumerate(self.items)
        }


class Bench:
    """An executor that records its batches.

    Attributes:
        order: Id of the first text of each slice's batch, in order.
        batches: Ids of the texts of each batch, in order.
        is_ready: Whether the device has computed all slices.
        unreadable: Ids of texts whose results cannot be read.
    """

    def __init__(self) -> None:
        self.order: list[int] = []
        self.batches: list[list[int]] = []
        self.is_ready = True
        self.unreadable: list[int] = []
        self.executor = EmbeddingExecutor(self.begin, torch.device("cpu"))

    def begin(self, items: Sequence[EmbeddingItem]) -> Any:
        self.batches.append([item.id for item in items])
        return ManySlices(items, self)

    def finish(self) -> tuple[list[int], list[int]]:
        done: list[int] = []
        failed: list[int] = []
        while self.executor:
            try:
                done += [each.id for each in self.executor.step()]
            except RuntimeError:
                failed += [item.id for item in self.executor.isolate()]
        return done, failed


@pytest.fixture
def bench() -> Bench:
    return Bench()


def text(number: int, length: int = SHORT, is_wrong: bool = False) -> EmbeddingItem:
    return EmbeddingItem("tiny", [-1 if is_wrong else 5] * length, id=number)


def test_waiting_texts_are_computed_together(bench: Bench) -> None:
    bench.executor.add([text(1), text(2)])
    bench.executor.add([text(3)])
    first = bench.executor.step()
    assert [each.id for each in first] == [1, 2, 3]
    assert np.frombuffer(first[1].value, dtype=np.float32).tolist() == [2, SHORT]
    assert bench.executor.drain_stats() == [BatchStats("embed", 3, 3 * SHORT, 0)]
    assert not bench.executor.drain_stats()
    assert not bench.executor


def test_batch_has_a_limited_number_of_tokens(bench: Bench) -> None:
    fitting = BATCH_TOKENS // 60
    bench.executor.add(text(number, 60) for number in range(fitting + 2))
    bench.finish()
    assert list(map(len, bench.batches)) == [fitting, 2]


def test_texts_of_different_buckets_are_computed_separately(bench: Bench) -> None:
    lengths = [1, BUCKET_TOKENS[0], BUCKET_TOKENS[0] + 1, BUCKET_TOKENS[1], BUCKET_TOKENS[1] + 1]
    assert [bucket_of(length) for length in lengths] == [0, 0, 1, 1, 2]
    bench.executor.add(text(number, length) for number, length in enumerate(lengths))
    done, _ = bench.finish()
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert bench.batches[0] == [0, 1]
    assert [2, 3] not in bench.batches  # 321 tokens
    assert [4] in bench.batches


def test_long_text_ends_however_many_short_ones_arrive(bench: Bench) -> None:
    """It receives its share of the work, not of the slices: slices of long texts cost more."""
    bench.executor.add([text(0, LONG)])
    slices = 1 + LONG // 20
    number = 0
    while bench.order.count(0) < slices:
        number += 1
        assert number < 5000
        bench.executor.add([text(number)])
        bench.executor.step()
    long, short = slices * BATCH_TOKENS, (len(bench.order) - slices) * SHORT
    assert long / (long + short) == pytest.approx(OLDEST_SHARE, abs=0.02)


def test_share_of_the_oldest_is_not_saved_up(bench: Bench) -> None:
    """Short texts without longer ones owe nothing to a long one that arrives later."""
    for number in range(1, 200):
        bench.executor.add([text(number)])
        bench.executor.step()
    bench.executor.add([text(200, LONG), text(201)])
    bench.executor.step()
    assert bench.order[-1] == 201


def test_aborted_texts_are_not_computed(bench: Bench) -> None:
    bench.executor.add(text(number) for number in range(4))
    bench.executor.abort([1, 3, 77])
    assert bench.finish() == ([0, 2], [])
    assert bench.batches == [[0, 2]]


def test_text_aborted_while_it_is_computed_has_no_result(bench: Bench) -> None:
    bench.executor.add(text(number, 60) for number in range(3))
    bench.executor.step()
    bench.executor.abort([1])
    assert bench.finish() == ([0, 2], [])


def two_batches(bench: Bench) -> list[int]:
    """Computes the first of two batches on a device that has not ended it; returns its ids."""
    bench.is_ready = False
    bench.executor.add(text(number, 60) for number in range(BATCH_TOKENS // 60 + 2))
    for _ in range(1 + 60 // 20):
        assert bench.executor.step() == []
    (first,) = bench.batches
    return first


@pytest.mark.parametrize("is_ready", [True, False])
def test_next_batch_begins_while_a_gpu_computes_the_last(bench: Bench, is_ready: bool) -> None:
    first = two_batches(bench)
    bench.is_ready = is_ready
    done = bench.executor.step()
    assert len(bench.batches) == 2
    assert [each.id for each in done] == (first if is_ready else [])
    rest, _ = bench.finish()
    assert [*[each.id for each in done], *rest] == [*range(len(first) + 2)]


def test_text_aborted_before_its_batch_is_read_has_no_result(bench: Bench) -> None:
    first = two_batches(bench)
    bench.executor.abort([first[0]])
    assert bench.finish() == ([*range(1, len(first) + 2)], [])
    other = Bench()
    other.executor.abort(range(len(two_batches(other)) + 2))
    assert not other.executor


def test_batch_that_cannot_be_read_is_computed_again_in_parts(bench: Bench) -> None:
    first = two_batches(bench)
    bench.unreadable = [first[1]]
    done, failed = bench.finish()
    assert (sorted(done), failed) == ([0, *range(2, len(first) + 2)], [1])


def test_halves_go_ahead_of_waiting_texts_of_their_bucket(bench: Bench) -> None:
    bench.executor.add([text(0), text(1, is_wrong=True)])
    with pytest.raises(RuntimeError):
        bench.executor.step()
    assert bench.executor.num_running == 2
    assert bench.executor.isolate() == []
    bench.executor.add([text(2), text(3)])
    assert bench.finish() == ([0, 2, 3], [1])
    assert bench.batches == [[0, 1], [0], [1], [2, 3]]


def test_short_text_goes_ahead_of_halves_of_long_ones(bench: Bench) -> None:
    middle = BUCKET_TOKENS[0] + 1
    bench.executor.add([text(0, middle), text(1, middle, is_wrong=True)])
    with pytest.raises(RuntimeError):
        bench.executor.step()
    bench.executor.isolate()
    bench.executor.add([text(2)])
    assert [each.id for each in bench.executor.step()] == [2]
    assert bench.finish() == ([0], [1])
    assert bench.batches == [[0, 1], [2], [0], [1]]


def test_batch_that_fails_leaves_the_batches_of_other_buckets(bench: Bench) -> None:
    bench.executor.add([text(0, LONG)])
    bench.executor.step()
    bench.executor.add([text(1, is_wrong=True), text(2)])
    assert bench.finish() == ([2, 0], [1])
    assert bench.batches == [[0], [1, 2], [1], [2]]  # the long text was not begun again
