"""Texts of one model in a worker, slice by slice."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from model.checkpoints.families.sentence_transformers import read_folder
from model.errors import ModelError
from model.sequence import BatchStats, EngineLimits
from service.items.length_buckets import LEVEL_TOKENS, level_of
from service.workers.executors.embedding import BATCH_TOKENS, OLDEST_SHARE, EmbeddingQueue, Pass
from service.workers.loading import load_embedder
from service.workers.messages import EmbedTask, WorkerConfig
from tests.tiny_text import write_model

SHORT, LONG = 8, 400


class ManySlices:
    """A pass that takes a slice for every 20 tokens of its longest text, and one."""

    def __init__(self, tasks: Sequence[EmbedTask], order: list[int]) -> None:
        self.tasks = tasks
        self.order = order
        self.left = 1 + max(len(task.ids) for task in tasks) // 20

    def advance(self) -> bool:
        if any(-1 in task.ids for task in self.tasks):
            raise RuntimeError("a fault of the device")
        self.order.append(self.tasks[0].id)
        self.left -= 1
        return self.left > 0

    def take_finished(self) -> dict[int, NDArray[np.float32]]:
        return {
            place: np.array([task.id, len(task.ids)], dtype=np.float32)
            for place, task in enumerate(self.tasks)
        }


class Bench:
    """A queue, and what was computed in which order."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.batches: list[list[int]] = []
        self.queue = EmbeddingQueue(self.new_pass, torch.device("cpu"))

    def new_pass(self, tasks: Sequence[EmbedTask]) -> Pass:
        self.batches.append([task.id for task in tasks])
        return ManySlices(tasks, self.order)

    def finish(self) -> tuple[list[int], list[int]]:
        """Ids of what was embedded and of what failed, as a worker goes on to the end."""
        done: list[int] = []
        failed: list[int] = []
        while len(self.queue):
            try:
                done += [each.id for each in self.queue.advance()]
            except RuntimeError:
                failed += [task.id for task in self.queue.isolate()]
        return done, failed


@pytest.fixture
def bench() -> Bench:
    return Bench()


def text(number: int, length: int = SHORT, is_wrong: bool = False) -> EmbedTask:
    return EmbedTask(number, [-1 if is_wrong else 5] * length)


def test_texts_that_wait_are_computed_together(bench: Bench) -> None:
    bench.queue.add([text(1), text(2)])
    bench.queue.add([text(3)])
    first = bench.queue.advance()
    assert [each.id for each in first] == [1, 2, 3]
    assert np.frombuffer(first[1].vectors, dtype=np.float32).tolist() == [2, SHORT]
    assert bench.queue.drain_stats() == [BatchStats("embed", 3, 3 * SHORT, 0)]
    assert not bench.queue.drain_stats()
    assert not len(bench.queue)


def test_batch_has_so_many_tokens_at_most(bench: Bench) -> None:
    fitting = BATCH_TOKENS // 60
    bench.queue.add(text(number, 60) for number in range(fitting + 2))
    bench.finish()
    assert list(map(len, bench.batches)) == [fitting, 2]


def test_text_longer_than_a_batch_is_one(bench: Bench) -> None:
    bench.queue.add([text(1, LONG), text(2, LONG)])
    assert bench.finish() == ([1, 2], [])
    assert bench.batches == [[1], [2]]


def test_short_text_goes_ahead_of_a_long_one_that_is_computed(bench: Bench) -> None:
    """At the next slice; the long one goes on where it was."""
    bench.queue.add([text(1, LONG)])
    bench.queue.advance()
    bench.queue.add([text(2)])
    assert [each.id for each in bench.queue.advance()] == [2]
    assert bench.finish() == ([1], [])
    assert bench.batches == [[1], [2]]


def test_texts_of_all_levels_are_computed_apart(bench: Bench) -> None:
    lengths = [1, LEVEL_TOKENS[0], LEVEL_TOKENS[0] + 1, LEVEL_TOKENS[1], LEVEL_TOKENS[1] + 1]
    assert [level_of(length) for length in lengths] == [0, 0, 1, 1, 2]
    bench.queue.add(text(number, length) for number, length in enumerate(lengths))
    done, _ = bench.finish()
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert bench.batches[0] == [0, 1]
    assert [2, 3] not in bench.batches  # 321 tokens
    assert [4] in bench.batches


def test_long_text_comes_to_an_end_however_many_short_ones_come(bench: Bench) -> None:
    """With its share of the work, not of the slices: they cost more than those of short ones."""
    bench.queue.add([text(0, LONG)])
    slices = 1 + LONG // 20
    number = 0
    while bench.order.count(0) < slices:
        number += 1
        assert number < 5000
        bench.queue.add([text(number)])
        bench.queue.advance()
    long, short = slices * BATCH_TOKENS, (len(bench.order) - slices) * SHORT
    assert long / (long + short) == pytest.approx(OLDEST_SHARE, abs=0.02)


def test_share_of_the_oldest_is_not_saved_up(bench: Bench) -> None:
    """Short texts that were alone owe nothing to a long one that comes then."""
    for number in range(1, 200):
        bench.queue.add([text(number)])
        bench.queue.advance()
    bench.queue.add([text(200, LONG), text(201)])
    bench.queue.advance()
    assert bench.order[-1] == 201


def test_aborted_texts_are_not_computed(bench: Bench) -> None:
    bench.queue.add(text(number) for number in range(4))
    bench.queue.abort([1, 3, 77])
    assert len(bench.queue) == 2
    assert bench.finish() == ([0, 2], [])
    assert bench.batches == [[0, 2]]


def test_text_aborted_while_it_is_computed_is_never_heard_of(bench: Bench) -> None:
    bench.queue.add(text(number, 60) for number in range(3))
    bench.queue.advance()
    bench.queue.abort([1])
    assert bench.finish() == ([0, 2], [])


def test_batch_ends_when_nobody_waits_for_it(bench: Bench) -> None:
    bench.queue.add([text(0, LONG)])
    bench.queue.advance()
    bench.queue.abort([0])
    assert not len(bench.queue)
    bench.queue.add([text(1, LONG)])
    assert bench.finish() == ([1], [])


def test_culprit_fails_alone_and_the_others_answer(bench: Bench) -> None:
    bench.queue.add([text(0), text(1, is_wrong=True), text(2), text(3)])
    assert bench.finish() == ([0, 2, 3], [1])
    assert bench.batches == [[0, 1, 2, 3], [0], [1], [2], [3]]


def test_text_left_of_a_failed_batch_is_not_its_culprit(bench: Bench) -> None:
    """Of two, the one that was given up may have been what failed."""
    bench.queue.add([text(0), text(1, is_wrong=True)])
    bench.queue.current = bench.queue.levels[0]
    bench.queue.current.choose()
    bench.queue.abort([1])
    with pytest.raises(RuntimeError):
        bench.queue.advance()
    assert bench.queue.isolate() == []
    assert bench.finish() == ([0], [])


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingQueue:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder, hidden_size=32, intermediate_size=64)
    config = WorkerConfig((), "cpu", "float32", "auto", EngineLimits(), 1, 0.1)
    loaded = load_embedder(read_folder(folder), config)
    return EmbeddingQueue(loaded.new_pass, loaded.device)


def vectors(queue: EmbeddingQueue, tasks: Sequence[EmbedTask]) -> dict[int, bytes]:
    queue.add(tasks)
    found: dict[int, bytes] = {}
    while len(queue):
        try:
            found |= {each.id: each.vectors for each in queue.advance()}
        except ModelError:
            found |= {task.id: b"" for task in queue.isolate()}
    return found


def test_vector_is_the_same_alone_and_among_others(real: EmbeddingQueue) -> None:
    generator = np.random.default_rng(1)
    lengths = generator.integers(2, 13, size=40)
    tasks = [
        EmbedTask(number, generator.integers(1, 14, size=length).tolist())
        for number, length in enumerate(lengths)
    ]
    together = vectors(real, tasks)
    for task in tasks:
        assert vectors(real, [task])[task.id] == together[task.id]


def test_raw_vector_points_where_the_normal_one_does(real: EmbeddingQueue) -> None:
    found = vectors(real, [EmbedTask(1, [1, 8, 9, 2]), EmbedTask(2, [1, 8, 9, 2], is_raw=True)])
    normal, raw = (np.frombuffer(found[number], dtype=np.float32) for number in (1, 2))
    assert np.linalg.norm(normal) == pytest.approx(1, abs=1e-6)
    assert np.linalg.norm(raw) != pytest.approx(1, abs=0.05)
    np.testing.assert_allclose(raw / np.linalg.norm(raw), normal, atol=1e-6)


def test_tokens_have_a_vector_each(real: EmbeddingQueue) -> None:
    found = vectors(real, [EmbedTask(1, [1, 8, 9, 2], is_per_token=True)])
    assert np.frombuffer(found[1], dtype=np.float32).shape == (4 * 32,)


def test_id_that_is_not_in_the_vocabulary_fails_alone(real: EmbeddingQueue) -> None:
    tasks = [EmbedTask(1, [1, 8, 2]), EmbedTask(2, [1, 10_000, 2]), EmbedTask(3, [1, 9, 2])]
    found = vectors(real, tasks)
    assert found[2] == b""
    assert found[1]
    assert found[3] == vectors(real, tasks[2:])[3]
