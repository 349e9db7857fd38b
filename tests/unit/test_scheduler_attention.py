"""Attention tasks in the scheduler: beside the rows, a few at a worker, settled once."""

import asyncio

import pytest

from service.errors import DeadlineExceededError, InternalError, UnavailableError
from service.scheduling.scheduler import MAX_TASKS, Scheduler
from service.workers.messages import Inspected, Report
from tests.unit.scheduling import (
    FOREVER,
    FakeWorker,
    assert_idle,
    begin,
    begin_inquiry,
    first_tokens,
    inquiries,
    run,
    sentences,
    settle,
    shown_tokens,
)


def cancelled(scheduler: Scheduler, where: str) -> float | None:
    labels = {"task": "attention", "model": "en-pt", "where": where}
    return scheduler.metrics.registry.get_sample_value("regard_cancelled_total", labels)


def waiting(scheduler: Scheduler, name: str) -> float | None:
    labels = {"task": "attention", "model": "en-pt", "lane": "attention"}
    return scheduler.metrics.registry.get_sample_value(f"regard_queue_{name}", labels)


def test_results_come_in_the_order_of_the_inquiries() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin_inquiry(scheduler, inquiries(3))
        await settle()
        worker.show(*reversed(worker.given))
        results = await task
        assert shown_tokens(results) == [2, 3, 4]
        assert all(result.queue_seconds >= 0 and result.device_seconds > 0 for result in results)
        assert_idle(scheduler)

    run(test)


def test_nothing_is_asked_of_nobody() -> None:
    async def test(scheduler: Scheduler) -> None:
        FakeWorker(scheduler)
        assert await scheduler.inspect([], FOREVER) == []

    run(test)


def test_worker_has_few_tasks_at_once() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin_inquiry(scheduler, inquiries(MAX_TASKS + 3))
        await settle()
        assert len(worker.tasks) == MAX_TASKS
        assert (waiting(scheduler, "depth"), waiting(scheduler, "tokens")) == (3, 9)
        worker.show(2)
        assert worker.given[-1] == MAX_TASKS + 1  # the oldest that waits
        while worker.tasks:
            worker.show(*worker.tasks)
        assert shown_tokens(await task) == list(range(2, MAX_TASKS + 5))
        assert_idle(scheduler)

    run(test)


def test_tasks_of_all_models_count_together() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        wanted = [*inquiries(MAX_TASKS), *inquiries(2, "pt-en", first=50)]
        task = begin_inquiry(scheduler, wanted)
        await settle()
        assert len(worker.tasks) == MAX_TASKS
        while worker.tasks:
            worker.show(*worker.tasks)
        assert shown_tokens(await task)[-2:] == [50, 51]
        assert worker.models[MAX_TASKS + 1] == "pt-en"
        assert_idle(scheduler)

    run(test)


def test_oldest_task_is_given_next_whatever_its_model() -> None:
    """The model named first had every place that became free, as long as it was asked."""

    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        tasks = [begin_inquiry(scheduler, inquiries(MAX_TASKS))]
        await settle()
        tasks.append(begin_inquiry(scheduler, inquiries(1, "pt-en")))
        await settle()
        tasks.append(begin_inquiry(scheduler, inquiries(1)))
        await settle()
        worker.show(worker.given[0])
        assert worker.models[worker.given[-1]] == "pt-en"
        while worker.tasks:
            worker.show(*worker.tasks)
        await asyncio.gather(*tasks)
        assert_idle(scheduler)

    run(test)


def test_task_goes_to_the_worker_with_fewest() -> None:
    async def test(scheduler: Scheduler) -> None:
        first, second = (FakeWorker(scheduler, name) for name in ("a", "b"))
        tasks = [begin_inquiry(scheduler, inquiries(3))]
        await settle()
        assert (len(first.tasks), len(second.tasks)) == (2, 1)
        first.show(*first.tasks)
        tasks.append(begin_inquiry(scheduler, inquiries(1)))
        await settle()
        assert (len(first.tasks), len(second.tasks)) == (1, 1)
        for worker in (first, second):
            worker.show(*worker.tasks)
        await asyncio.gather(*tasks)
        assert_idle(scheduler)

    run(test)


def test_tasks_take_no_rows_and_wait_for_none() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler, rows=2)
        translations = begin(scheduler, sentences(4))
        shown = begin_inquiry(scheduler, inquiries(2, first=40))
        await settle()
        assert (len(worker.held), len(worker.tasks)) == (2, 2)
        worker.show(*worker.tasks)
        assert shown_tokens(await shown) == [40, 41]
        while worker.held:
            worker.finish(*worker.held)
        assert first_tokens(await translations) == [2, 3, 4, 5]
        assert scheduler.admission.throughput.tokens == 8  # of translations alone
        assert_idle(scheduler)

    run(test)


def test_tasks_of_a_dead_worker_go_to_another_before_all_others() -> None:
    async def test(scheduler: Scheduler) -> None:
        doomed = FakeWorker(scheduler, "doomed")
        task = begin_inquiry(scheduler, inquiries(MAX_TASKS + 2))
        await settle()
        doomed.die()
        heir = FakeWorker(scheduler, "heir")
        assert heir.given == doomed.given
        while heir.tasks:
            heir.show(*heir.tasks)
        assert shown_tokens(await task) == list(range(2, MAX_TASKS + 4))
        assert_idle(scheduler)

    run(test)


def test_second_death_over_a_task_fails_its_request() -> None:
    async def test(scheduler: Scheduler) -> None:
        task = begin_inquiry(scheduler, inquiries(1))
        with pytest.raises(UnavailableError, match="loading"):
            await task
        workers = [FakeWorker(scheduler, name) for name in ("a", "b")]
        task = begin_inquiry(scheduler, inquiries(1))
        await settle()
        for worker in workers:
            worker.die()
        with pytest.raises(UnavailableError, match="twice"):
            await task
        assert_idle(scheduler)

    run(test)


def test_failure_of_one_task_ends_its_request_alone() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        bad, good = begin_inquiry(scheduler, inquiries(2)), begin_inquiry(scheduler, inquiries(1))
        await settle()
        worker.fail(1)
        with pytest.raises(InternalError, match="RuntimeError"):
            await bad
        assert cancelled(scheduler, "running") == 1
        worker.show(3)
        assert shown_tokens(await good) == [2]
        assert_idle(scheduler)

    run(test)


@pytest.mark.parametrize("seconds", [0.0, FOREVER])
def test_tasks_nobody_waits_for_leave_queue_and_worker(seconds: float) -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin_inquiry(scheduler, inquiries(MAX_TASKS + 2), seconds)
        await asyncio.sleep(0)  # once: the deadline may be now
        if seconds:
            task.cancel()
        with pytest.raises(asyncio.CancelledError if seconds else DeadlineExceededError):
            await task
        assert len(worker.given) == MAX_TASKS
        assert not worker.tasks
        assert (cancelled(scheduler, "running"), cancelled(scheduler, "queued")) == (MAX_TASKS, 2)
        assert_idle(scheduler)

    run(test)


def test_places_of_the_cancelled_go_to_who_waits() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        leaving = begin_inquiry(scheduler, inquiries(MAX_TASKS))
        staying = begin_inquiry(scheduler, inquiries(1, first=90))
        await settle()
        assert MAX_TASKS + 1 not in worker.tasks
        leaving.cancel()
        await settle()
        assert [*worker.tasks] == [MAX_TASKS + 1]
        worker.show(MAX_TASKS + 1)
        assert shown_tokens(await staying) == [90]
        assert_idle(scheduler)

    run(test)


def test_result_that_was_on_its_way_is_ignored() -> None:
    async def test(scheduler: Scheduler) -> None:
        worker = FakeWorker(scheduler)
        task = begin_inquiry(scheduler, inquiries(1))
        await settle()
        task.cancel()
        await settle()
        scheduler.report(worker, Report(inspected=[Inspected(1, [])]))
        assert_idle(scheduler)

    run(test)


def test_end_of_the_server_ends_tasks_that_wait_and_that_run() -> None:
    async def test(scheduler: Scheduler) -> None:
        FakeWorker(scheduler)
        tasks = [begin_inquiry(scheduler, inquiries(count)) for count in (MAX_TASKS, 2)]
        await settle()
        scheduler.close()
        for task in [*tasks, begin_inquiry(scheduler, inquiries(1))]:
            with pytest.raises(UnavailableError, match="stopping"):
                await task

    run(test)
