"""Translations of one model in a worker: its in-flight batch, and the parts of failed batches."""

import pytest
import torch

from model.checkpoints.build import new_engine
from model.engine.engine import Engine
from model.sequence import DecodingOptions, EngineLimits, Finished, Hypothesis
from service.items import TRANSLATE, TranslationItem
from service.workers.executors import TranslationExecutor
from service.workers.messages import WorkerConfig
from tests.tiny import LIMITS, assert_same_hypotheses, tiny_config, tiny_model, tiny_sources
from tests.unit.worker_bench import files
from tests.unit.worker_talk import config
from tests.workers import Script

CPU = torch.device("cpu")
MAX_ROWS = 32
NUM_ROWS = 16


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def executor(script: Script) -> TranslationExecutor:
    wanted: WorkerConfig = config(max_rows=MAX_ROWS)
    engine = script.load(files("en", "pt"), wanted).executables[TRANSLATE]
    return TranslationExecutor(engine, CPU)


def items(*ids: int, beam: int = 1, is_bulk: bool = False) -> list[TranslationItem]:
    options = DecodingOptions(beam_size=beam)
    return [
        TranslationItem("en-pt", [100 + number, 0], options, is_bulk=is_bulk, id=number)
        for number in ids
    ]


def step(executor: TranslationExecutor) -> tuple[list[int], list[int]]:
    """Runs one step, as a worker does; returns ids of done and of failed sentences."""
    try:
        return [done.id for done in executor.step()], []
    except RuntimeError:
        return [], [item.id for item in executor.isolate()]


def finish(executor: TranslationExecutor) -> tuple[list[int], list[int]]:
    """Runs steps until nothing is left; returns ids of done and of failed sentences."""
    done: list[int] = []
    failed: list[int] = []
    while executor:
        found = step(executor)
        done += found[0]
        failed += found[1]
    return done, failed


def admitted(script: Script) -> list[int]:
    return [sequence.id for sequence in script.admitted]


def encoded(executor: TranslationExecutor) -> list[int]:
    return [stats.rows for stats in executor.drain_stats() if stats.phase == "encode"]


def test_searches_come_first_in_every_second_step_unless_they_are_bulk(
    executor: TranslationExecutor, script: Script
) -> None:
    script.num_steps = 1
    executor.add([*items(1, 2), *items(3, beam=2), *items(4)])
    assert step(executor) == ([3], [])
    executor.add(items(5, beam=2))
    assert sorted(step(executor)[0]) == [1, 2, 4, 5]
    executor.add([*items(6), *items(7, beam=2), *items(8, beam=2, is_bulk=True)])
    assert step(executor) == ([7], [])
    assert step(executor) == ([6, 8], [])
    assert admitted(script) == [3, 1, 2, 4, 5, 7, 6, 8]


def test_searches_without_free_rows_wait(executor: TranslationExecutor, script: Script) -> None:
    script.num_steps = 3
    first = [*range(MAX_ROWS - 1)]
    executor.add(items(*first))
    step(executor)
    executor.add([*items(50, beam=2), *items(51)])
    step(executor)
    assert admitted(script) == first
    assert sorted(step(executor)[0]) == first
    assert sorted(finish(executor)[0]) == [50, 51]


def test_items_without_free_rows_wait_in_order(
    executor: TranslationExecutor, script: Script
) -> None:
    script.num_steps = 2
    first, late = [*range(MAX_ROWS)], [*range(MAX_ROWS, MAX_ROWS + 4)]
    executor.add(items(*first, *late))
    assert executor.step() == []
    assert admitted(script) == first
    executor.abort([first[0], late[0]])
    assert executor.engine.num_rows == MAX_ROWS - 1
    done, failed = finish(executor)
    assert admitted(script) == [*first, *late[1:]]
    assert (sorted(done), failed) == ([*first[1:], *late[1:]], [])


def test_items_join_the_batch_and_leave_it_one_by_one(executor: TranslationExecutor) -> None:
    executor.add(items(1))
    assert step(executor) == ([], [])
    executor.add(items(2, beam=3, is_bulk=True))
    assert step(executor) == ([1], [])
    assert (executor.num_running, executor.engine.num_rows) == (1, 3)
    assert step(executor) == ([2], [])
    assert (executor.num_running, executor.engine.num_rows) == (0, 0)


def test_rows_of_an_aborted_item_are_free_at_once(
    executor: TranslationExecutor, script: Script
) -> None:
    executor.add(items(1, beam=MAX_ROWS))
    executor.step()
    executor.abort([1])
    assert script.aborted == [1]
    assert executor.engine.num_rows == 0
    assert not executor.current.given_up  # ids of aborted items do not pile up
    executor.add(items(2, beam=MAX_ROWS))
    assert finish(executor) == ([2], [])


def test_item_at_fault_fails_alone_and_the_others_are_decoded_again(
    executor: TranslationExecutor, script: Script
) -> None:
    script.poison = {103}
    executor.add(items(1, 2, 3, 4))
    assert finish(executor) == ([1, 2, 4], [3])
    # One batch of four, then its halves, then the halves of the second half.
    assert admitted(script) == [1, 2, 3, 4, 1, 2, 3, 4, 3, 4]
    assert executor.engine.num_rows == 0


def test_items_that_arrive_during_retries_wait_for_their_end(
    executor: TranslationExecutor, script: Script
) -> None:
    script.poison = {101}
    executor.add(items(1, 2))
    assert step(executor) == ([], [])
    executor.add(items(3))
    executor.add(items(4))
    running = []
    while executor:
        step(executor)
        running.append([*executor.current.running])
    assert running == [[], [2], [], [3, 4], []]
    assert admitted(script) == [1, 2, 1, 2, 3, 4]
    assert encoded(executor)[-1] == 2


def test_finished_item_is_not_decoded_again(executor: TranslationExecutor, script: Script) -> None:
    executor.add(items(1))
    executor.step()
    executor.add(items(2, 3))
    assert step(executor) == ([1], [])
    script.poison = {103}
    assert step(executor) == ([], [])
    assert finish(executor) == ([2], [3])
    assert admitted(script)[3:] == [2, 3]


def test_item_that_cannot_be_encoded_fails_alone(
    executor: TranslationExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    admit = executor.engine.admit

    def refuse(sequences: list[TranslationItem]) -> None:
        if any(sequence.id == 2 for sequence in sequences):
            raise RuntimeError("it cannot be encoded")
        admit(sequences)  # type: ignore[arg-type]

    monkeypatch.setattr(executor.engine, "admit", refuse)
    executor.add(items(1, 2, 3))
    assert finish(executor) == ([1, 3], [2])


@pytest.mark.parametrize(
    ("aborted", "done", "failed"),
    [([1, 3], [2], [4]), ([1, 2], [3], [4]), ([1, 2, 3, 4], [], [])],
    ids=["one of each half", "the half that is decoded", "all"],
)
def test_aborted_items_of_a_failed_batch_are_not_decoded_again(
    aborted: list[int],
    done: list[int],
    failed: list[int],
    executor: TranslationExecutor,
    script: Script,
) -> None:
    script.poison, script.stuck = {104}, {101}
    executor.add(items(1, 2, 3, 4))
    step(executor)
    step(executor)
    assert [*executor.current.running] == [1, 2]
    executor.abort(aborted)
    assert script.aborted == [number for number in aborted if number < 3]
    executor.add(items(5, 6))
    assert finish(executor) == ([*done, 5, 6], failed)
    assert not {*aborted} & {*admitted(script)[6:]}


def test_fault_without_items_fails_none(executor: TranslationExecutor) -> None:
    executor.add(items(1))
    executor.step()
    executor.abort([1])
    assert executor.isolate() == []
    assert not executor


def test_item_that_is_left_alone_in_the_engine_is_at_fault(
    executor: TranslationExecutor, script: Script
) -> None:
    """An aborted item leaves the engine, so that it cannot make a later step fail."""
    executor.add(items(1, 2))
    executor.step()
    executor.abort([1])
    script.poison = {102}
    assert step(executor) == ([], [2])


@pytest.mark.parametrize("ending", ["aborted", "done", "failed"])
def test_engine_has_low_latency_until_bulk_work_ends(
    executor: TranslationExecutor, script: Script, ending: str
) -> None:
    executor.add(items(99, is_bulk=True))
    executor.add(items(*range(NUM_ROWS)))
    executor.step()
    low_latency = [executor.engine.low_latency]
    executor.abort([*range(NUM_ROWS)])
    if ending == "aborted":
        executor.abort([99])
    else:
        script.poison = {199} if ending == "failed" else set()
        finish(executor)
    assert not executor
    executor.add(items(*range(NUM_ROWS)))
    executor.step()
    low_latency.append(executor.engine.low_latency)
    assert low_latency == [True, False]


@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_sentence_that_is_decoded_again_has_the_same_translation(
    num_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real engine fails once, after some tokens."""
    model = tiny_model(tiny_config(), seed=1)
    limits = EngineLimits(LIMITS.max_rows * 4, LIMITS.max_source_tokens, LIMITS.max_batch_tokens)
    sources = tiny_sources(12)

    def translate(executor: TranslationExecutor) -> dict[int, list[Hypothesis]]:
        executor.add(
            TranslationItem("en-pt", source, DecodingOptions(beam_size=1 + number % 2), id=number)
            for number, source in enumerate(sources)
        )
        found: dict[int, list[Hypothesis]] = {}
        while executor:
            try:
                found |= {done.id: done.value for done in executor.step()}
            except RuntimeError:
                assert executor.isolate() == []
        return found

    expected = translate(TranslationExecutor(new_engine(model, limits), CPU))
    engine = new_engine(model, limits)
    decode, num_calls = Engine.step, 0

    def fail_once(only_searches: bool) -> list[Finished]:
        nonlocal num_calls
        num_calls += 1
        if num_calls == num_steps:
            raise RuntimeError("a fault of the device")
        return decode(engine, only_searches)

    monkeypatch.setattr(engine, "step", fail_once)
    found = translate(TranslationExecutor(engine, CPU))
    assert num_calls > num_steps
    assert found.keys() == expected.keys()
    for number, hypotheses in expected.items():
        assert_same_hypotheses(found[number], hypotheses)
