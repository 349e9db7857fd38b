"""The scheduler and requests that end early: cancelled, late, failed, or with their workers."""

import asyncio
import time
from collections.abc import Callable

import pytest

from benchmarks.capacity.virtual_time import Clock, virtual_time
from model.sequence import DecodingOptions
from service.errors import DeadlineExceededError, InternalError, UnavailableError
from service.items import Done, TranslationItem
from service.scheduling.scheduler import Scheduler
from service.workers.messages import Report
from tests.unit.scheduling import (
    FOREVER,
    FakeWorker,
    assert_idle,
    begin,
    begun,
    echo,
    make_scheduler,
    numbers,
    sample,
    sentences,
    settle,
)

SECRET = "Rumpelstiltskin"


def cancelled(scheduler: Scheduler, where: str) -> float:
    labels = {"task": "translate", "model": "en-pt", "where": where}
    return sample(scheduler, "regard_cancelled_total", **labels)


async def test_closed_submission_wakes_its_waiter_and_cancels_its_items(
    scheduler: Scheduler,
) -> None:
    """The lease closes a submission while another task still waits for its results."""
    worker = FakeWorker(scheduler, rows=2)
    submission = scheduler.submit(sentences(5), time.perf_counter() + FOREVER)
    waiting = asyncio.create_task(submission.batch())
    await settle()
    submission.close()
    assert not worker.held
    assert await waiting == []
    assert (cancelled(scheduler, "running"), cancelled(scheduler, "queued")) == (2, 3)
    submission.close()  # the second time changes nothing
    assert (cancelled(scheduler, "running"), cancelled(scheduler, "queued")) == (2, 3)


async def test_error_takes_the_place_of_results_that_have_not_been_read(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    """A later error changes nothing."""
    submission = scheduler.submit(sentences(3), time.perf_counter() + FOREVER)
    worker.finish(1)
    worker.fail(2)
    submission.fail(UnavailableError("a later error"))
    for _ in range(2):
        with pytest.raises(InternalError, match="RuntimeError"):
            await submission.batch()


async def test_deadline_error_names_the_number_of_finished_sentences(
    scheduler: Scheduler, worker: FakeWorker
) -> None:
    request = await begun(scheduler, sentences(3), seconds=0.05)
    worker.finish(3)
    with pytest.raises(DeadlineExceededError, match="1 of 3 sentences"):
        await request
    assert cancelled(scheduler, "running") == 2


async def test_second_death_over_a_request_leaves_none_of_its_sentences_behind(
    scheduler: Scheduler,
) -> None:
    """One of its sentences has seen two deaths and the others one: all of them are dropped."""
    first = FakeWorker(scheduler, "first", rows=1)
    request = await begun(scheduler, sentences(5))
    first.die()
    second = FakeWorker(scheduler, "second", rows=3)
    assert second.given == [1, 2, 3]
    second.die()
    with pytest.raises(UnavailableError, match="two workers died"):
        await request
    assert not FakeWorker(scheduler, "third").given


@pytest.mark.parametrize("end", ["finish", "fail", "die"])
@pytest.mark.parametrize("has_died_before", [False, True])
async def test_item_that_ends_while_its_request_is_cancelled_leaves_nothing_behind(
    end: str, has_died_before: bool, scheduler: Scheduler, worker: FakeWorker
) -> None:
    """The task is cancelled already, and has not run since to close its submission."""
    request = await begun(scheduler, sentences(1))
    if has_died_before:
        worker.die()
        worker = FakeWorker(scheduler)
    request.cancel()
    getattr(worker, end)(*([] if end == "die" else [1]))
    with pytest.raises(asyncio.CancelledError):
        await request


def test_any_number_of_late_requests_end_in_one_dispatch() -> None:
    """Each failed request cancels its other sentence. A dispatch inside this cancellation would
    fail the next request, and so on: 300 requests were too many nested calls for Python."""
    turns: list[Callable[[], None]] = []
    options = DecodingOptions()
    with virtual_time(Clock()) as clock:
        scheduler = make_scheduler(turns.append)
        worker = FakeWorker(scheduler, rows=64)
        first = [TranslationItem("en-pt", [2] * 100, options) for _ in range(64)]
        running = scheduler.submit(first, 10.0)
        turns.pop()()
        requests = []
        for _ in range(300):
            pair = [TranslationItem("en-pt", [2] * size, options) for size in (100, 4)]
            requests.append(scheduler.submit(pair, 2.0, client="one"))
        clock.now = 1.5
        worker.finish(*list(worker.held)[:8])
        while turns:
            turns.pop()()
        assert all(isinstance(each.error, DeadlineExceededError) for each in requests)
        worker.finish_all()
        assert not running.left
        assert_idle(scheduler)


@pytest.mark.parametrize("broken", ["receiver", "pace"])
async def test_fault_in_the_handling_of_a_result_fails_its_request_alone(
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    scheduler: Scheduler,
) -> None:
    """It withdraws the other item of the request, which the same report contains."""
    worker = FakeWorker(scheduler, rows=8)
    ended, other = begin(scheduler, sentences(2)), await begun(scheduler, sentences(2, first=8))

    def fail(*_: object) -> None:
        raise ValueError(SECRET)

    first = next(iter(scheduler.workers[worker].held.values()))
    place = first.queue.pace if broken == "pace" else first.receiver
    done = [Done(item.id, echo(item)) for item in worker.held.values()][:2]
    with monkeypatch.context() as patched:
        patched.setattr(place, "add", fail)
        scheduler.report(worker, Report(done=done))
    worker.finish_all()
    with pytest.raises(InternalError, match="lost"):
        await ended
    assert numbers(await other) == [8, 9]
    assert "ValueError" in caplog.text
    assert SECRET not in caplog.text
