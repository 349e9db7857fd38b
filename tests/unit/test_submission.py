"""A submission: results as they finish, the first error, the end."""

import asyncio
from collections.abc import Awaitable, Sequence

import pytest

from model.sequence import DecodingOptions
from service.errors import DeadlineExceededError, InternalError, ServiceError
from service.items import Result, TranslationItem, WorkItem
from service.scheduling.scheduler import Submission

RESULTS = [Result(number, 0.25, 0.5) for number in range(4)]


def started(count: int, seconds: float = 1000.0) -> tuple[Submission, list[Sequence[WorkItem]]]:
    """Returns a submission of so many sentences, and the list of its cancellations."""
    cancelled: list[Sequence[WorkItem]] = []
    items: list[WorkItem] = [
        TranslationItem("en-pt", [5, 0], DecodingOptions()) for _ in range(count)
    ]
    for index, item in enumerate(items):
        item.index = index
    return Submission(items, seconds, cancelled.append), cancelled


def indices(cancelled: list[Sequence[WorkItem]]) -> list[list[int]]:
    return [[item.index for item in items] for items in cancelled]


async def waiting(awaited: Awaitable[object]) -> "asyncio.Task[object]":
    async def wait() -> object:
        return await awaited

    task = asyncio.create_task(wait())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_first_error_stays_and_later_results_are_dropped() -> None:
    submission, cancelled = started(3)
    submission.add([(0, RESULTS[0])])
    submission.fail(InternalError("first"))
    submission.fail(InternalError("second"))
    submission.add([(1, RESULTS[1])])
    assert len(cancelled) == 1
    with pytest.raises(InternalError, match="first"):
        await submission.batch()


@pytest.mark.parametrize("num_finished", [0, 2])
async def test_closed_submission_wakes_its_waiter(num_finished: int) -> None:
    submission, cancelled = started(3)
    for index in range(num_finished):
        submission.add([(index, RESULTS[index])])
    if num_finished:
        assert len(await submission.batch()) == num_finished
    batch = await waiting(submission.batch())
    for _ in range(2):
        submission.close()
    assert indices(cancelled) == [[0, 1, 2]]
    assert await batch == []
    assert await submission.batch() == []
    submission.fail(InternalError("too late for an error"))
    assert await submission.batch() == []


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.01])
async def test_deadline_counts_from_the_start_and_names_the_finished_items(seconds: float) -> None:
    submission, cancelled = started(3, seconds)
    submission.add([(2, RESULTS[2])])
    await submission.batch()
    with pytest.raises(DeadlineExceededError, match="1 of 3"):
        await submission.batch()
    assert indices(cancelled) == [[0, 1, 2]]


@pytest.mark.parametrize("end", ["finish", "fail", "close"])
async def test_end_stops_the_timer(end: str) -> None:
    submission, _ = started(1)
    timer = submission.timer
    if end == "finish":
        submission.add([(0, RESULTS[0])])
    elif end == "fail":
        submission.fail(ServiceError("it failed"))
    else:
        submission.close()
    assert timer.cancelled()
