import asyncio

import pytest

from model.sequence import BatchStats, Hypothesis
from service.errors import (
    DeadlineExceededError,
    InternalError,
    UnavailableError,
)
from service.scheduling.scheduler import Scheduler
from service.scheduling.worker_state import KEPT_SHARE
from service.workers.messages import Done, Failed, Report
from tests.unit.scheduling import (
    FOREVER,
    FakeWorker,
    assert_idle,
    begin,
    first_tokens,
    run,
    sentences,
    settle,
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


def test_results_come_in_the_order_of_the_sentences() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin(scheduler, sentences(3))
        await settle()
        worker.finish(*reversed(worker.given))
        assert first_tokens(await task) == [2, 3, 4]
        assert_idle(scheduler)
        assert scheduler.admission.throughput.tokens == 6

    run(test)


def test_what_waits_is_given_out_as_rows_become_free() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2)
        task = begin(scheduler, sentences(5))
        await settle()
        assert worker.given == [1, 2]
        assert (slots(scheduler, "used"), slots(scheduler, "free")) == (2, 0)
        worker.finish(2)
        assert worker.given == [1, 2, 3]
        worker.finish(1, 3)
        worker.finish(4, 5)
        results = await task
        assert first_tokens(results) == [2, 3, 4, 5, 6]
        assert all(result.queue_seconds >= 0 and result.device_seconds > 0 for result in results)
        assert results[4].queue_seconds > results[0].queue_seconds
        assert (slots(scheduler, "used"), slots(scheduler, "free")) == (0, 2)

    run(test)


def test_workers_share_what_waits() -> None:
    async def test(scheduler: Scheduler) -> None:
        workers = [FakeWorker(scheduler, f"worker-{number}", rows=8) for number in range(3)]
        task = begin(scheduler, sentences(10))
        await settle()
        assert sorted(len(worker.given) for worker in workers) == [3, 3, 4]
        for worker in workers:
            worker.finish(*worker.given)
        await task

    run(test)


def test_bulk_work_leaves_rows_to_who_comes_later() -> None:
    """A short sentence waited for the end of one of a document's."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2 * KEPT_SHARE)
        document = begin(scheduler, sentences(20), is_bulk=True)
        await settle()
        assert len(worker.held) == 2 * KEPT_SHARE - 2
        assert worker.bulk == {*worker.held}
        short = begin(scheduler, sentences(1))
        await settle()
        (new,) = worker.held.keys() - worker.bulk
        worker.finish(new)
        await short
        while worker.held:
            worker.finish(*worker.held)
        assert len(await document) == 20
        assert_idle(scheduler)

    run(test)


@pytest.mark.parametrize("rows", [1, 4, 8])
def test_bulk_work_takes_all_rows_where_a_beam_needs_them(rows: int) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=rows)
        task = begin(scheduler, sentences(2, beam=rows), is_bulk=True)
        await settle()
        worker.finish(1)
        worker.finish(2)
        await task

    run(test)


def test_freest_worker_gets_a_lone_sentence() -> None:
    async def test(scheduler: Scheduler) -> None:
        first, second = (FakeWorker(scheduler, name, rows=8) for name in ("a", "b"))
        tasks = [begin(scheduler, sentences(1)) for _ in range(6)]
        await settle()
        assert (len(first.given), len(second.given)) == (3, 3)
        for worker in (first, second):
            worker.finish(*worker.given)
        await asyncio.gather(*tasks)

    run(test)


def test_wide_beam_goes_where_it_fits_whatever_the_shares_are() -> None:
    """Half of it is no more than half of a share, and so it once waited beside an idle worker."""

    async def test(scheduler: Scheduler) -> None:
        busy, idle = FakeWorker(scheduler, "busy", rows=8), FakeWorker(scheduler, "idle", rows=8)
        tasks = [begin(scheduler, sentences(12))]
        await settle()
        idle.finish(*idle.given)
        busy.finish(busy.given[0])
        tasks.append(begin(scheduler, sentences(1, beam=8)))
        await settle()
        assert idle.rows_used("en-pt") == 8
        for worker in (busy, idle):
            worker.finish(*worker.held)
        await asyncio.gather(*tasks)
        assert_idle(scheduler)

    run(test)


def test_models_have_rows_of_their_own() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=1)
        task = begin(scheduler, [*sentences(1), *sentences(1, model="pt-en", first=9)])
        await settle()
        assert [worker.models[i] for i in worker.given] == ["en-pt", "pt-en"]
        worker.finish(2, 1)
        assert first_tokens(await task) == [2, 9]

    run(test)


@pytest.mark.parametrize("seconds", [0.0, FOREVER])
def test_sentences_nobody_waits_for_leave_queue_and_worker(seconds: float) -> None:
    """By the end of the task, or of its time: the future awaited was taken for settled."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2)
        task = begin(scheduler, sentences(5), seconds=seconds)
        await asyncio.sleep(0)  # once: the deadline may be now
        if seconds:
            task.cancel()
        with pytest.raises(asyncio.CancelledError if seconds else DeadlineExceededError):
            await task
        assert worker.given == [1, 2]
        assert not worker.held
        assert (cancelled(scheduler, "running"), cancelled(scheduler, "queued")) == (2, 3)
        assert (slots(scheduler, "used"), slots(scheduler, "free")) == (0, 2)
        assert_idle(scheduler)

    run(test)


def test_rows_of_the_cancelled_go_to_who_waits() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2)
        leaving = begin(scheduler, sentences(2))
        staying = begin(scheduler, sentences(2, first=8))
        await settle()
        leaving.cancel()
        await settle()
        assert worker.given == [1, 2, 3, 4]
        worker.finish(3, 4)
        assert first_tokens(await staying) == [8, 9]

    run(test)


def test_result_that_was_on_its_way_is_ignored() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin(scheduler, sentences(2))
        await settle()
        task.cancel()
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
        assert first_tokens(await good) == [8, 9]
        assert_idle(scheduler)

    run(test)


def test_deadline_tells_how_far_it_came() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin(scheduler, sentences(3), seconds=0.05)
        await settle()
        worker.finish(3)
        with pytest.raises(DeadlineExceededError, match="1 of 3 sentences"):
            await task
        assert cancelled(scheduler, "running") == 2

    run(test)


def test_nobody_to_do_it_is_told_at_once() -> None:
    async def test(scheduler: Scheduler) -> None:
        with pytest.raises(UnavailableError, match="loading") as told:
            await begin(scheduler, sentences(1))
        assert told.value.retry_after_seconds == 1

    run(test)


def test_sentences_of_a_dead_worker_come_first_again() -> None:
    async def test(scheduler: Scheduler) -> None:
        first = FakeWorker(scheduler, "first", rows=2)
        task = begin(scheduler, sentences(4))
        await settle()
        first.die()
        assert slots(scheduler, "free") == 0
        first.die()  # is nothing new
        second = FakeWorker(scheduler, "second", rows=3)
        assert second.given == [1, 2, 3]
        second.finish(1, 2, 3)
        second.finish(4)
        assert first_tokens(await task) == [2, 3, 4, 5]

    run(test)


def test_second_death_over_a_sentence_is_its_last() -> None:
    async def test(scheduler: Scheduler) -> None:
        first = FakeWorker(scheduler, "first", rows=1)
        task, other = begin(scheduler, sentences(1)), begin(scheduler, sentences(1, first=9))
        await settle()
        first.die()
        FakeWorker(scheduler, "second", rows=1).die()
        with pytest.raises(UnavailableError, match="died twice") as told:
            await task
        assert told.value.retry_after_seconds == 1
        third = FakeWorker(scheduler, "third", rows=1)
        third.finish(*third.given)
        assert first_tokens(await other) == [9]
        assert_idle(scheduler)

    run(test)


def test_closing_fails_what_waits_and_what_runs_and_what_comes() -> None:
    async def test(scheduler: Scheduler) -> None:
        FakeWorker(scheduler, rows=1)
        tasks = [begin(scheduler, sentences(1)), begin(scheduler, sentences(1))]
        await settle()
        scheduler.close()
        tasks.append(begin(scheduler, sentences(1)))
        for result in await asyncio.gather(*tasks, return_exceptions=True):
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
def test_what_happens_in_the_moment_of_a_cancellation_is_nobodys(
    end: str, has_died_before: bool
) -> None:
    """The future is cancelled already; the request has not run since to say so."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin(scheduler, sentences(1))
        await settle()
        if has_died_before:
            worker.die()
            worker = FakeWorker(scheduler)
        task.cancel()
        getattr(worker, end)(*([] if end == "die" else [1]))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert_idle(scheduler)

    run(test)
