"""Assigns items to workers; handles queues, deadlines, cancellation and results.

The scheduler runs in the event loop of the server and is not thread-safe. It makes a job from each
item that it accepts. Every job is settled exactly once: by a result, by an error, or by the end of
its request. The scheduler has no code for particular task kinds. Instead, the task table
(`service.tasks.table`) names a policy for each kind. The policy counts and assigns the kind's work.
"""

import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from service.errors import InternalError, NotFoundError, UnavailableError
from service.items.base import WorkItem
from service.items.result import Done, Failed, Result
from service.metrics.definitions import Metrics
from service.scheduling.admission import Admission
from service.scheduling.job import Job
from service.scheduling.lanes import LANES, Queue
from service.scheduling.submission import Submission
from service.scheduling.task_kind import TaskKind
from service.scheduling.worker_state import Link, WorkerState
from service.workers.messages import Abort, Compute, Report

logger = logging.getLogger("regard.scheduler")

MAX_ATTEMPTS = 2
"""Largest number of times that an item is dispatched. It is dispatched again if its worker dies."""


class Scheduler:
    """Gives waiting items to workers as capacity becomes free.

    Args:
        kinds: The task table, which maps the name of each task kind to its row.
        admission: Receives the number of finished tokens, to estimate waits.
        metrics: Metrics of the server.
    """

    def __init__(
        self, kinds: Mapping[str, TaskKind], admission: Admission, metrics: Metrics
    ) -> None:
        self.kinds = kinds
        self.admission = admission
        self.metrics = metrics
        self.queues: dict[str, dict[str, Queue]] = {kind: {} for kind in kinds}
        self.workers: dict[Link, WorkerState] = {}
        self.ids = itertools.count(1)
        self.is_closed = False

    def add_model(self, model: str, kinds: Iterable[str]) -> None:
        """Adds a queue for each of these kinds, so that items for the model are accepted."""
        for kind in kinds:
            policy = self.kinds[kind].policy
            queue = self.queues[kind][model] = Queue(policy.num_buckets)
            for name, lane in zip(LANES, (queue.interactive, queue.bulk), strict=True):
                self.metrics.watch_lane(kind, model, name, lane)
            if policy.counts_rows:
                slots = self.metrics.decode_slots
                slots.labels(model, "used").set_function(partial(self._used_rows, kind, model))
                slots.labels(model, "free").set_function(partial(self._free_rows, kind, model))

    def remove_model(self, model: str) -> None:
        """Accepts no more items for a model, and fails its remaining items."""
        left: list[Job] = []
        for queues in self.queues.values():
            queue = queues.pop(model, None)
            if queue is not None:
                left += queue.jobs()
        for worker in self.workers.values():
            if held := worker.unload(model):
                worker.link.send(Abort([job.id for job in held]))
                left += held
        for job in left:
            job.receiver.fail(unloaded(model))

    def submit(self, items: Sequence[WorkItem], deadline: float) -> Submission:
        """Queues items; the submission yields their results as they finish.

        Args:
            items: Items of one request, of any kinds.
            deadline: Time by time.perf_counter at which the unfinished items fail.

        Raises:
            UnavailableError: The server is stopping, or no worker is ready.
            NotFoundError: The model of an item has been unloaded.
        """
        if self.is_closed:
            raise UnavailableError("the server is stopping; try again", 1)
        if not self.workers:
            raise UnavailableError("the models are loading; try again soon", 1)
        for item in items:
            if item.model not in self.queues[item.kind]:
                raise unloaded(item.model)
        submission = Submission(len(items), self._cancel)
        jobs = [self._job(item, submission, index) for index, item in enumerate(items)]
        for job in jobs:
            self.queues[job.kind][job.model].lane(job).add(job)
        submission.start(jobs, deadline - time.perf_counter())
        for kind, model in dict.fromkeys((job.kind, job.model) for job in jobs):
            self._fill(kind, model)
        return submission

    def _job(self, item: WorkItem, submission: Submission, index: int) -> Job:
        policy = self.kinds[item.kind].policy
        item.id = next(self.ids)
        return Job(item, submission, index, policy.bucket(item), policy.cost(item))

    def _dispatch(self) -> None:
        """Assigns waiting items to workers that have capacity again."""
        for kind, queues in self.queues.items():
            models = [model for model, queue in queues.items() if len(queue)]
            if self.kinds[kind].policy.shares_models and len(models) > 1:
                models.sort(key=lambda model: queues[model].oldest_age, reverse=True)
            for model in models:
                self._fill(kind, model)

    def _fill(self, kind: str, model: str) -> None:
        policy, queue = self.kinds[kind].policy, self.queues[kind][model]
        for worker, jobs in policy.assign(kind, model, queue, list(self.workers.values())):
            worker.link.send(Compute([job.item for job in jobs]))

    def _cancel(self, jobs: Sequence[Job]) -> None:
        """Removes the unsettled jobs of a submission."""
        running = set()
        for job in jobs:
            queue = self.queues[job.kind].get(job.model)
            if queue is not None and queue.lane(job).remove(job):
                self.metrics.cancelled.labels(job.kind, job.model, "queued").inc()
            else:
                running.add(job)
        for worker in self.workers.values():
            held = [job for job in running if worker.held.get(job.id) is job]
            for job in held:
                worker.take_back(job)
                self.metrics.cancelled.labels(job.kind, job.model, "running").inc()
            if held:
                worker.link.send(Abort([job.id for job in held]))
        self._dispatch()

    def worker_ready(
        self, link: Link, max_rows: Mapping[str, int], missing: Iterable[str] = ()
    ) -> None:
        """Accepts a worker, which has loaded all of its models except for the missing ones.

        Args:
            link: The channel to the worker.
            max_rows: Number of rows of each model that has a batch.
            missing: Models that the worker still has to load.
        """
        self.workers[link] = WorkerState(link, dict(max_rows), missing={*missing})
        self._dispatch()

    def worker_loaded(self, link: Link, model: str, max_rows: int) -> None:
        """Records one more model of a worker; `max_rows` is 0 for a model without a batch."""
        self.workers[link].load(model, max_rows)
        self._dispatch()

    def worker_lost(self, link: Link) -> None:
        """Puts the jobs of a dead worker first in their lanes, to be tried again.

        A job that has been tried MAX_ATTEMPTS times fails.
        """
        worker = self.workers.pop(link, None)
        if worker is None:
            return
        for job in reversed(worker.held.values()):
            if job.receiver.is_closed:  # this loop has failed another job of the same submission
                continue
            if job.attempts < MAX_ATTEMPTS:
                self.queues[job.kind][job.model].lane(job).add(job, is_first=True)
            else:
                job.receiver.fail(
                    UnavailableError(
                        "two workers died while they computed this request; try again", 1
                    )
                )
        self._dispatch()

    def has_work(self, link: Link) -> bool:
        """Returns whether a worker holds any job."""
        worker = self.workers.get(link)
        return worker is not None and bool(worker.held)

    def report(self, link: Link, report: Report) -> None:
        """Settles the jobs that a worker has finished, and counts its work."""
        worker = self.workers[link]
        lengths: dict[tuple[str, str], list[tuple[int, ...]]] = defaultdict(list)
        now = time.perf_counter()
        for done in report.done:
            job = self._settle(worker, done, now)
            measure = self.kinds[job.kind].lengths if job is not None else None
            if job is not None and measure is not None:
                lengths[job.kind, job.model].append(measure(job.item, done.value))
        for (kind, model), found in lengths.items():
            self.metrics.observe_lengths(kind, model, found)
            self.admission.throughput.add(sum(each[0] for each in found))
        self._fail(worker, report.failed)
        self.metrics.observe_report(link.name, report)
        self._dispatch()

    def _settle(self, worker: WorkerState, done: Done, now: float) -> Job | None:
        job = worker.held.get(done.id)
        if job is None:  # cancelled while the result was on its way
            return None
        worker.take_back(job)
        result = Result(done.value, job.dispatched - job.created, now - job.dispatched)
        job.receiver.finish(job.index, result)
        return job

    def _fail(self, worker: WorkerState, failed: Sequence[Failed]) -> None:
        """Fails the jobs that a worker has reported as failed.

        All jobs are taken back first. A job that is still held would count as cancelled when
        another job of its request fails.
        """
        jobs = [(worker.held[each.id], each) for each in failed if each.id in worker.held]
        for job, _ in jobs:
            worker.take_back(job)
        for job, each in jobs:
            reason = "the device ran out of memory" if each.is_out_of_memory else each.error
            job.receiver.fail(InternalError(f"a sentence could not be computed: {reason}"))

    def _used_rows(self, kind: str, model: str) -> int:
        return sum(worker.used[kind, model, 0] for worker in self.workers.values())

    def _free_rows(self, kind: str, model: str) -> int:
        rows = sum(worker.max_rows.get(model, 0) for worker in self.workers.values())
        return rows - self._used_rows(kind, model)

    def close(self) -> None:
        """Fails all unfinished jobs, and every later submission."""
        self.is_closed = True
        waiting = [queue.jobs() for queues in self.queues.values() for queue in queues.values()]
        held = [worker.held.values() for worker in self.workers.values()]
        for job in [*itertools.chain(*waiting), *itertools.chain(*held)]:
            job.receiver.fail(UnavailableError("the server is stopping; try again", 1))


def unloaded(model: str) -> NotFoundError:
    """Returns the error for an item whose model was unloaded after its request had arrived."""
    return NotFoundError(f"the model {model} has been unloaded", param="model")
