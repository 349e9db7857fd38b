"""The scheduler and requests that end early: cancelled, late, failed, or with their workers."""

import asyncio
import time
from collections.abc import Callable

import pytest

from benchmarks.capacity.virtual_time import Clock, virtual_time
from model.sequence import DecodingOptions, Hypothesis
from service.errors import (
    DeadlineExceededError,
    InternalError,
    UnavailableError,
)
from service.items.result import Done, Failed
from service.items.translation import TranslationItem
from service.scheduling.scheduler import Scheduler
from service.workers.messages import Report
from tests.unit.scheduling import (
    FOREVER,
    FakeWorker,
    assert_idle,
    begin,
    make_scheduler,
    numbers,
    run,
    sample,
    sentences,
    settle,
    slots,
)

SECRET = "Rumpelstiltskin"


def cancelled(scheduler: Scheduler, where: str) -> float:
    labels = {"task": "translate", "model": "en-pt", "where": where}
    return sample(scheduler, "regard_cancelled_total", **labels)


@pytest.mark.parametrize("seconds", [0.0, FOREVER])
def test_sentences_of_an_ended_request_leave_queue_and_worker(seconds: float) -> None:
    """The request ends at its deadline, or because its task is cancelled."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2)
        request = begin(scheduler, sentences(5), seconds)
        await asyncio.sleep(0)  # once: the deadline may be now
        if seconds == FOREVER:
            request.cancel()
        with pytest.raises(asyncio.CancelledError if seconds == FOREVER else DeadlineExceededError):
            await request
        assert worker.given == [1, 2]
        assert not worker.held
        assert (cancelled(scheduler, "running"), cancelled(scheduler, "queued")) == (2, 3)
        assert (slots(scheduler, "used"), slots(scheduler, "free")) == (0, 2)
        assert_idle(scheduler)

    run(test)


def test_closed_submission_wakes_its_waiter_and_cancels_its_items() -> None:
    """The lease closes a submission while another task still waits for its results."""

    async def test(scheduler: Scheduler) -> None:
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
        assert_idle(scheduler)

    run(test)


def test_rows_of_a_cancelled_request_are_given_to_the_waiting_sentences() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2)
        leaving = begin(scheduler, sentences(2))
        staying = begin(scheduler, sentences(2, first=8))
        await settle()
        leaving.cancel()
        await settle()
        assert worker.given == [1, 2, 3, 4]
        worker.finish(3, 4)
        assert numbers(await staying) == [8, 9]

    run(test)


def test_report_about_a_cancelled_sentence_is_ignored() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, sentences(2))
        await settle()
        request.cancel()
        await settle()
        late = Report(
            done=[Done(1, [Hypothesis([2, 0])])], failed=[Failed(2, "RuntimeError", False)]
        )
        scheduler.report(worker, late)
        assert_idle(scheduler)
        assert scheduler.admission.throughput.tokens == 0

    run(test)


@pytest.mark.parametrize("is_out_of_memory", [False, True])
def test_failure_of_one_sentence_ends_its_request_alone(is_out_of_memory: bool) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=8)
        bad, good = begin(scheduler, sentences(4)), begin(scheduler, sentences(2, first=8))
        await settle()
        worker.fail(1, 3, is_out_of_memory=is_out_of_memory)
        with pytest.raises(InternalError, match="memory" if is_out_of_memory else "RuntimeError"):
            await bad
        assert cancelled(scheduler, "running") == 2
        worker.finish(5, 6)
        assert numbers(await good) == [8, 9]
        assert_idle(scheduler)

    run(test)


def test_failed_sentence_is_noticed_before_the_sentences_ahead_of_it_have_ended() -> None:
    """Guards a fault: results were awaited in order, so that the first sentence held up an error.

    The sentences that are left leave the worker and the queue at once.
    """

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=3)
        bad = begin(scheduler, sentences(5))
        await settle()
        worker.fail(2)
        assert not worker.held
        assert (cancelled(scheduler, "running"), cancelled(scheduler, "queued")) == (2, 2)
        with pytest.raises(InternalError, match="RuntimeError"):
            await bad
        assert_idle(scheduler)

    run(test)


def test_error_takes_the_place_of_results_that_have_not_been_read() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        submission = scheduler.submit(sentences(3), time.perf_counter() + FOREVER)
        worker.finish(1)
        worker.fail(2)
        for _ in range(2):
            with pytest.raises(InternalError, match="RuntimeError"):
                await submission.batch()
        assert_idle(scheduler)

    run(test)


def test_deadline_error_names_the_number_of_finished_sentences() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, sentences(3), seconds=0.05)
        await settle()
        worker.finish(3)
        with pytest.raises(DeadlineExceededError, match="1 of 3 sentences"):
            await request
        assert cancelled(scheduler, "running") == 2

    run(test)


def test_sentences_of_a_dead_worker_are_first_again() -> None:
    async def test(scheduler: Scheduler) -> None:
        first = FakeWorker(scheduler, "first", rows=2)
        request = begin(scheduler, sentences(4))
        await settle()
        first.die()
        assert slots(scheduler, "free") == 0
        first.die()  # the second time changes nothing
        second = FakeWorker(scheduler, "second", rows=3)
        assert second.given == [1, 2, 3]
        second.finish(1, 2, 3)
        second.finish(4)
        assert numbers(await request) == [2, 3, 4, 5]

    run(test)


def test_second_death_over_a_sentence_fails_its_request() -> None:
    async def test(scheduler: Scheduler) -> None:
        first = FakeWorker(scheduler, "first", rows=1)
        request, other = begin(scheduler, sentences(1)), begin(scheduler, sentences(1, first=9))
        await settle()
        first.die()
        FakeWorker(scheduler, "second", rows=1).die()
        with pytest.raises(UnavailableError, match="two workers died") as failed:
            await request
        assert failed.value.retry_after_seconds == 1
        third = FakeWorker(scheduler, "third", rows=1)
        third.finish(*third.given)
        assert numbers(await other) == [9]
        assert_idle(scheduler)

    run(test)


def test_second_death_over_a_request_leaves_none_of_its_sentences_behind() -> None:
    """One of its sentences has seen two deaths and the others one: all of them are dropped."""

    async def test(scheduler: Scheduler) -> None:
        first = FakeWorker(scheduler, "first", rows=1)
        request = begin(scheduler, sentences(5))
        await settle()
        first.die()
        second = FakeWorker(scheduler, "second", rows=3)
        assert second.given == [1, 2, 3]
        second.die()
        with pytest.raises(UnavailableError, match="two workers died"):
            await request
        assert not FakeWorker(scheduler, "third").given
        assert_idle(scheduler)

    run(test)


def test_closing_fails_waiting_running_and_later_sentences() -> None:
    async def test(scheduler: Scheduler) -> None:
        FakeWorker(scheduler, rows=1)
        requests = [begin(scheduler, sentences(1)), begin(scheduler, sentences(1))]
        await settle()
        scheduler.close()
        requests.append(begin(scheduler, sentences(1)))
        for result in await asyncio.gather(*requests, return_exceptions=True):
            assert isinstance(result, UnavailableError)
            assert "the server is stopping" in result.message

    run(test)


@pytest.mark.parametrize("end", ["finish", "fail", "die"])
@pytest.mark.parametrize("has_died_before", [False, True])
def test_item_that_ends_while_its_request_is_cancelled_leaves_nothing_behind(
    end: str, has_died_before: bool
) -> None:
    """The task is cancelled already, and has not run since to close its submission."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, sentences(1))
        await settle()
        if has_died_before:
            worker.die()
            worker = FakeWorker(scheduler)
        request.cancel()
        getattr(worker, end)(*([] if end == "die" else [1]))
        with pytest.raises(asyncio.CancelledError):
            await request
        assert_idle(scheduler)

    run(test)


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


@pytest.mark.parametrize("broken", ["finish", "add"])
def test_fault_in_the_handling_of_a_result_fails_its_request_alone(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=8)
        ended, other = begin(scheduler, sentences(2)), begin(scheduler, sentences(2, first=8))
        await settle()

        def fail(*_: object) -> None:
            raise ValueError(SECRET)

        first = next(iter(scheduler.workers[worker].held.values()))
        place = first.queue.pace if broken == "add" else first.receiver
        with monkeypatch.context() as patched:
            patched.setattr(place, broken, fail)
            worker.finish(first.id)
        worker.finish_all()
        with pytest.raises(InternalError, match="lost"):
            await ended
        assert numbers(await other) == [8, 9]
        assert "ValueError" in caplog.text
        assert SECRET not in caplog.text
        assert_idle(scheduler)

    run(test)
