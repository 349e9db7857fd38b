"""Tries the jobs of dead workers again, and fails the jobs of failed devices."""

from collections.abc import Callable, Iterable, Sequence

from service.errors import UnavailableError
from service.scheduling.job import Job
from service.scheduling.lanes import Queue

MAX_ATTEMPTS = 2
"""Largest number of dispatches of an item. If its worker dies, the item is dispatched again."""


def retry(jobs: Sequence[Job], queue_of: Callable[[Job], Queue]) -> None:
    """Puts the jobs of a dead worker first in their lanes, to be tried again.

    A job that has been tried MAX_ATTEMPTS times fails.

    Args:
        jobs: Jobs in the order of their dispatch.
        queue_of: Returns the queue of a job.
    """
    for job in reversed(jobs):
        # The receiver is closed if this loop has failed another job of the same submission.
        if job.receiver.is_closed:
            continue
        if job.attempts < MAX_ATTEMPTS:
            queue_of(job).lane(job).add(job, is_first=True)
        else:
            job.receiver.fail(
                UnavailableError("two workers died while they computed this request; try again", 1)
            )


def fail_with_device(jobs: Iterable[Job]) -> None:
    """Fails jobs whose device has failed.

    They are not tried again, because one of them may have caused the failure.
    """
    for job in jobs:
        if not job.receiver.is_closed:
            job.receiver.fail(UnavailableError("the device failed; try again", 5))
