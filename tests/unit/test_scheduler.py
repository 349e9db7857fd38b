"""The scheduler and sentences: rows, lanes, cancellation, deadlines, dead workers, figures."""

import asyncio
import time

import pytest

from model.sequence import BatchStats, Hypothesis
from service.errors import (
    DeadlineExceededError,
    InternalError,
    UnavailableError,
)
from service.items.result import Done, Failed
from service.scheduling.policies import KEPT_SHARE
from service.scheduling.scheduler import Scheduler
from service.workers.messages import Report
from tests.unit.scheduling import (
    FOREVER,
    FakeWorker,
    assert_idle,
    begin,
    numbers,
    pairs,
    run,
    sentences,
    settle,
    texts,
)


def sample(scheduler: Scheduler, name: str, **labels: str) -> float:
    value = scheduler.metrics.registry.get_sample_value(name, labels)
    assert value is not None
    return value


def cancelled(scheduler: Scheduler, where: str) -> float:
    labels = {"task": "translate", "model": "en-pt", "where": where}
    return sample(scheduler, "regard_cancelled_total", **labels)


def slots(scheduler: Scheduler, state: str) -> float:
    return sample(scheduler, "regard_decode_slots", model="en-pt", state=state)


def test_results_are_returned_in_the_order_of_the_sentences() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, sentences(3))
        await settle()
        worker.finish(*reversed(worker.given))
        assert numbers(await request) == [2, 3, 4]
        assert_idle(scheduler)
        assert scheduler.admission.throughput.tokens == 6

    run(test)


def test_results_stream_in_the_order_in_which_they_finish() -> None:
    """Each is yielded while the others are still computed."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        submission = scheduler.submit(sentences(3), time.perf_counter() + FOREVER)
        stream = aiter(submission)
        for item_id in (2, 3, 1):
            worker.finish(item_id)
            index, result = await anext(stream)
            assert (index, numbers([result])) == (item_id - 1, [item_id + 1])
        assert submission.is_closed
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert_idle(scheduler)

    run(test)


def test_items_of_several_kinds_are_one_submission() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        request = begin(scheduler, [*texts(1), *pairs(1, first=5), *sentences(1, first=9)])
        await settle()
        worker.finish(*reversed(worker.given))
        assert numbers(await request) == [2, 5, 9]
        assert_idle(scheduler)

    run(test)


def test_waiting_sentences_are_dispatched_as_rows_become_free() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2)
        request = begin(scheduler, sentences(5))
        await settle()
        assert worker.given == [1, 2]
        assert (slots(scheduler, "used"), slots(scheduler, "free")) == (2, 0)
        worker.finish(2)
        assert worker.given == [1, 2, 3]
        worker.finish(1, 3)
        worker.finish(4, 5)
        results = await request
        assert numbers(results) == [2, 3, 4, 5, 6]
        assert all(result.queue_seconds >= 0 and result.device_seconds > 0 for result in results)
        assert results[4].queue_seconds > results[0].queue_seconds
        assert (slots(scheduler, "used"), slots(scheduler, "free")) == (0, 2)

    run(test)


def test_workers_share_the_waiting_sentences() -> None:
    async def test(scheduler: Scheduler) -> None:
        workers = [FakeWorker(scheduler, f"worker-{number}", rows=8) for number in range(3)]
        request = begin(scheduler, sentences(10))
        await settle()
        assert sorted(len(worker.given) for worker in workers) == [3, 3, 4]
        for worker in workers:
            worker.finish(*worker.given)
        await request

    run(test)


def test_bulk_work_leaves_rows_free_for_a_later_sentence() -> None:
    """Guards a fault: a short sentence waited for the end of one sentence of a document."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2 * KEPT_SHARE)
        document = begin(scheduler, sentences(20, is_bulk=True))
        await settle()
        assert len(worker.held) == 2 * KEPT_SHARE - 2
        assert all(item.is_bulk for item in worker.held.values())
        short = begin(scheduler, sentences(1))
        await settle()
        (new,) = [item.id for item in worker.held.values() if not item.is_bulk]
        worker.finish(new)
        await short
        worker.finish_all()
        assert len(await document) == 20
        assert_idle(scheduler)

    run(test)


@pytest.mark.parametrize("rows", [1, 4, 8])
def test_bulk_work_takes_all_rows_where_a_beam_needs_them(rows: int) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=rows)
        request = begin(scheduler, sentences(2, beam=rows, is_bulk=True))
        await settle()
        worker.finish(1)
        worker.finish(2)
        await request

    run(test)


def test_worker_with_most_free_rows_gets_a_single_sentence() -> None:
    async def test(scheduler: Scheduler) -> None:
        first, second = (FakeWorker(scheduler, name, rows=8) for name in ("a", "b"))
        requests = [begin(scheduler, sentences(1)) for _ in range(6)]
        await settle()
        assert (len(first.given), len(second.given)) == (3, 3)
        for worker in (first, second):
            worker.finish(*worker.given)
        await asyncio.gather(*requests)

    run(test)


def test_wide_beam_is_given_to_the_worker_with_room_for_it() -> None:
    """Guards a fault: the worker's share of the rows was smaller, and so the beam waited."""

    async def test(scheduler: Scheduler) -> None:
        busy, idle = FakeWorker(scheduler, "busy", rows=8), FakeWorker(scheduler, "idle", rows=8)
        requests = [begin(scheduler, sentences(12))]
        await settle()
        idle.finish(*idle.given)
        busy.finish(busy.given[0])
        requests.append(begin(scheduler, sentences(1, beam=8)))
        await settle()
        assert idle.used_rows("en-pt") == 8
        for worker in (busy, idle):
            worker.finish_all()
        await asyncio.gather(*requests)
        assert_idle(scheduler)

    run(test)


def test_each_model_has_rows_of_its_own() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=1)
        request = begin(scheduler, [*sentences(1), *sentences(1, model="pt-en", first=9)])
        await settle()
        assert [worker.held[i].model for i in worker.given] == ["en-pt", "pt-en"]
        worker.finish(2, 1)
        assert numbers(await request) == [2, 9]

    run(test)


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


def test_request_without_any_worker_is_refused_at_once() -> None:
    async def test(scheduler: Scheduler) -> None:
        with pytest.raises(UnavailableError, match="loading") as refused:
            scheduler.submit(sentences(1), time.perf_counter() + FOREVER)
        assert refused.value.retry_after_seconds == 1
        assert_idle(scheduler)

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
        with pytest.raises(UnavailableError, match="died twice") as failed:
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
        with pytest.raises(UnavailableError, match="died twice"):
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


def test_figures_of_a_report_are_counted() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        batches = {BatchStats("encode", 2, 10, 6): 3, BatchStats("decode", 0, 0, 0): 1}
        report = Report(
            batches={"en-pt": batches},
            splits={"en-pt": 3},
            out_of_memory={"en-pt": 2},
            memory_bytes={"resident": 77},
        )
        scheduler.report(worker, report)
        assert sample(scheduler, "regard_batch_splits_total", model="en-pt") == 3
        assert sample(scheduler, "regard_oom_total", model="en-pt") == 2
        labels = {"worker": "worker-0", "kind": "resident"}
        assert sample(scheduler, "regard_device_memory_bytes", **labels) == 77
        kind = {"task": "translate", "model": "en-pt"}
        assert sample(scheduler, "regard_batches_total", **kind, phase="encode") == 3
        assert sample(scheduler, "regard_batch_tokens_sum", **kind, phase="encode") == 30
        assert sample(scheduler, "regard_tokens_total", **kind, kind="padding") == 18
        assert sample(scheduler, "regard_batch_padding_ratio_sum", **kind) == 3 * 6 / 16

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
