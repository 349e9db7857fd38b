"""Assigns items to workers; handles queues, deadlines, cancellation and results.

The scheduler runs in the event loop of the server and is not thread-safe. It makes a job from each
item that it accepts. Every job is settled exactly once: by a result, by an error, or by the end of
its request. The scheduler has no code for particular task kinds. Instead, the task table
(`service.tasks.table`) names a policy for each kind. The policy counts and assigns the kind's work.
"""

import asyncio
import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from service.errors import (
    DeadlineExceededError,
    InternalError,
    NotFoundError,
    UnavailableError,
    fault,
)
from service.items.base import WorkItem
from service.items.result import Done, Failed, Result
from service.metrics.definitions import Metrics
from service.scheduling.admission import Admission, late
from service.scheduling.forecast.margin import Prediction, is_relevant
from service.scheduling.job import Job
from service.scheduling.lanes import LANES, Queue
from service.scheduling.policies import Policy
from service.scheduling.retries import fail_with_device, retry
from service.scheduling.submission import Submission
from service.scheduling.task_kind import TaskKind
from service.scheduling.worker_state import Link, WorkerState
from service.workers.messages import Abort, Compute, Report

logger = logging.getLogger("regard.scheduler")

NEEDED_SHARE = 0.5
"""A waiting job is given up if the time until its deadline is less than this share of its expected
computing time. The share is small, because a single job may be faster than expected."""

CallSoon = Callable[[Callable[[], None]], object]


def call_soon(function: Callable[[], None]) -> None:
    """Calls a function after this turn of the running event loop."""
    asyncio.get_running_loop().call_soon(function)


class Scheduler:
    """Gives waiting items to workers as capacity becomes free.

    Args:
        kinds: The task table, which maps the name of each task kind to its row.
        admission: Receives the number of finished tokens, to estimate waits.
        metrics: Metrics of the server.
        call_soon: Calls a function after this turn of the event loop.
        rows_ahead: Number of rows beyond a model's batch that a worker may hold for each model. The
            sentences of these rows wait in the worker until rows of the batch are free. An
            interactive sentence that arrives later waits behind these sentences.
    """

    def __init__(
        self,
        kinds: Mapping[str, TaskKind],
        admission: Admission,
        metrics: Metrics,
        call_soon: CallSoon = call_soon,
        rows_ahead: int = 0,
    ) -> None:
        self.kinds = kinds
        self.admission = admission
        self.metrics = metrics
        self.call_soon = call_soon
        self.rows_ahead = rows_ahead
        self.queues: dict[str, dict[str, Queue]] = {kind: {} for kind in kinds}
        self.workers: dict[Link, WorkerState] = {}
        self.ids = itertools.count(1)
        self.is_closed = False
        self.will_dispatch = False
        self.on_removed: Callable[[str], None] = lambda _: None  # gets a removed model's name

    def add_model(self, model: str, kinds: Iterable[str]) -> None:
        """Adds a queue for each of these kinds, so that items for the model are accepted."""
        for kind in kinds:
            policy = self.kinds[kind].policy
            queue = self.queues[kind][model] = Queue(policy.num_buckets)
            for name, lane in zip(LANES, (queue.interactive, queue.bulk), strict=True):
                self.metrics.watch_lane(kind, model, name, lane)
            if policy.counts_rows:
                slots = self.metrics.decode_slots
                slots.labels(model, "used").set_function(partial(self.used_rows, kind, model))
                slots.labels(model, "free").set_function(partial(self.free_rows, kind, model))

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
        self.on_removed(model)

    def submit(
        self,
        items: Sequence[WorkItem],
        deadline: float,
        is_first: bool = True,
        client: str = "",
    ) -> Submission:
        """Queues items; the submission yields the result of each item as the item finishes.

        Args:
            items: Items of one request, of any kinds.
            deadline: Time by time.perf_counter at which the unfinished items fail.
            is_first: Whether this is the first submission of the request. A later submission is not
                refused for its expected wait, because the work of the earlier submissions would be
                lost.
            client: Identity of the client. Clients take turns in each lane.

        Raises:
            UnavailableError: The server is stopping, or no worker is ready.
            NotFoundError: The model of an item has been unloaded.
            OverloadedError: The items would probably not be done before the deadline.
        """
        self._check_models(items)
        submission = Submission(len(items), self._cancel)
        groups: dict[tuple[str, str], list[Job]] = defaultdict(list)
        for index, item in enumerate(items):
            job = self._job(item, submission, index)
            job.client, job.deadline = client, deadline
            groups[item.kind, item.model].append(job)
        seconds = deadline - time.perf_counter()
        if is_first:
            for (kind, model), jobs in groups.items():
                self._check_wait(kind, model, jobs, seconds, submission)
        for (kind, model), jobs in groups.items():
            for job in jobs:
                self.queues[kind][model].lane(job).add(job)
        submission.start([*itertools.chain(*groups.values())], seconds)
        self._dispatch_soon()
        return submission

    def _check_models(self, items: Sequence[WorkItem]) -> None:
        """Refuses items if the server stops, no worker is ready, or a model is not loaded."""
        if self.is_closed:
            raise UnavailableError("the server is stopping; try again", 1)
        if not self.workers:
            raise UnavailableError("the models are loading; try again soon", 1)
        for item in items:
            if item.model not in self.queues[item.kind]:
                raise unloaded(item.model)

    def _job(self, item: WorkItem, submission: Submission, index: int) -> Job:
        policy = self.kinds[item.kind].policy
        item.id = next(self.ids)
        return Job(item, submission, index, policy.bucket(item), policy.cost(item))

    def _check_wait(
        self, kind: str, model: str, jobs: Sequence[Job], seconds: float, submission: Submission
    ) -> None:
        """Refuses jobs that would probably not be done in `seconds`.

        If no other job of the kind and model waits or runs, the jobs are always admitted. They are
        also admitted if too few items have finished for a prediction, or if the predicted time is
        a small share of `seconds`. If the prediction uses a measured rate, the predicted time is
        compared with the real time when the submission ends.

        Raises:
            OverloadedError: The jobs would probably be late.
        """
        policy, queue = self.kinds[kind].policy, self.queues[kind][model]
        workers = list(self.workers.values())
        if not queue and not policy.occupancy(kind, model, workers):
            return
        work, occupancy = policy.forecast(kind, model, queue, workers, jobs)
        expected = queue.pace.seconds_for(work, occupancy)
        if not expected or not is_relevant(expected, seconds):
            return
        needed = expected + queue.margin.seconds_for(expected)
        if needed > seconds:
            raise late(needed, seconds)
        # The margin learns from errors of predictions. Predictions from an assumed rate would
        # distort it. Jobs of other models or kinds in the submission would also distort it.
        if queue.pace.is_known(occupancy) and len(jobs) == submission.total:
            submission.prediction = Prediction(queue.margin, expected, seconds)

    def _dispatch_soon(self) -> None:
        """Schedules one call of `_dispatch` for all items of this turn of the event loop."""
        if not self.will_dispatch:
            self.will_dispatch = True
            self.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Assigns waiting items to workers that have capacity."""
        self.will_dispatch = False
        for kind, queues in self.queues.items():
            models = [model for model, queue in queues.items() if queue]
            if self.kinds[kind].policy.shares_models and len(models) > 1:
                models.sort(key=lambda model: queues[model].oldest_age, reverse=True)
            for model in models:
                self._fill(kind, model)

    def _fill(self, kind: str, model: str) -> None:
        policy, queue = self.kinds[kind].policy, self.queues[kind][model]
        workers = list(self.workers.values())
        self._drop_late(queue, policy, policy.occupancy(kind, model, workers))
        given: list[Job] = []
        for worker, jobs in policy.assign(kind, model, queue, workers):
            worker.link.send(Compute([job.item for job in jobs]))
            given += jobs
        occupancy = policy.occupancy(kind, model, workers)
        for job in given:
            job.occupancy = occupancy

    def _drop_late(self, queue: Queue, policy: Policy, occupancy: int) -> None:
        """Fails the first jobs of each client in each lane if they have too little time left."""
        now, pace = time.perf_counter(), queue.pace

        def is_late(job: Job) -> bool:
            work = policy.work_until_end(job.tokens, max(occupancy, 1))
            needed = pace.seconds_for(work, occupancy)
            return needed > 0 and job.deadline - now < NEEDED_SHARE * needed

        while late_jobs := queue.remove_first(is_late):
            for job in late_jobs:
                self.metrics.cancelled.labels(job.kind, job.model, "queued").inc()
                # This also cancels the request's other jobs, so other late jobs may become first.
                job.receiver.fail(given_up(job.deadline - now))

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
        self._dispatch_soon()  # not `_dispatch`: `_drop_late` may have called this method

    def worker_ready(
        self,
        link: Link,
        max_rows: Mapping[str, int],
        missing: Iterable[str] = (),
        gpu_models: Iterable[str] = (),
    ) -> None:
        """Accepts a worker, which has loaded all of its models except those in `missing`.

        Args:
            link: The channel to the worker.
            max_rows: Number of rows of each model that has a batch.
            missing: Models that the worker still has to load.
            gpu_models: Models that the worker computes on a GPU.
        """
        self.workers[link] = WorkerState(
            link,
            dict(max_rows),
            missing={*missing},
            gpu_models={*gpu_models},
            rows_ahead=self.rows_ahead,
        )
        self._dispatch()

    def worker_loaded(self, link: Link, model: str, max_rows: int, is_on_gpu: bool = False) -> None:
        """Records that a worker has loaded a model; `max_rows` is 0 for a model without a batch."""
        self.workers[link].load(model, max_rows, is_on_gpu)
        self._dispatch()

    def worker_lost(self, link: Link) -> None:
        """Removes a dead worker; its jobs are tried again (`service.scheduling.retries`)."""
        worker = self.workers.pop(link, None)
        if worker is not None:
            retry([*worker.held.values()], lambda job: self.queues[job.kind][job.model])
            self._dispatch()

    def device_lost(self, link: Link) -> None:
        """Removes a worker whose device failed, and fails its jobs.

        If no worker is left, the waiting jobs fail too.
        """
        worker = self.workers.pop(link, None)
        jobs = list(worker.held.values()) if worker is not None else []
        if not self.workers:
            queues = [queue for each in self.queues.values() for queue in each.values()]
            jobs += itertools.chain(*[queue.jobs() for queue in queues])
        fail_with_device(jobs)

    def has_work(self, link: Link) -> bool:
        """Returns whether a worker holds any job."""
        worker = self.workers.get(link)
        return worker is not None and bool(worker.held)

    def report(self, link: Link, report: Report) -> None:
        """Settles the jobs that a worker has finished, and counts its work.

        The server needs 0.2 ms to make a reply. It makes the replies in the order in which it
        settles their jobs. The job with the earliest deadline is therefore settled first.
        """
        worker = self.workers[link]
        lengths: dict[tuple[str, str], list[tuple[int, ...]]] = defaultdict(list)
        now = time.perf_counter()
        for done in sorted(report.done, key=worker.deadline):
            job = worker.held.get(done.id)
            if job is None:  # cancelled while the result was on its way
                continue
            try:
                self._settle(worker, job, done, now)
                if (measure := self.kinds[job.kind].lengths) is not None:
                    lengths[job.kind, job.model].append(measure(job.item, done.value))
            except Exception as error:
                logger.error("a result of %s was not handled: %s", link.name, fault(error))
                job.receiver.fail(InternalError("a result was lost; see the server's log"))
        for (kind, model), found in lengths.items():
            self.metrics.observe_lengths(kind, model, found)
            self.admission.throughput.add(sum(each[0] for each in found))
        self._fail(worker, report.failed)
        self.metrics.observe_report(link.name, report)
        self._dispatch()

    def _settle(self, worker: WorkerState, job: Job, done: Done, now: float) -> None:
        try:
            self._measure(job, now)
        finally:
            worker.take_back(job)
        result = Result(done.value, job.dispatched - job.created, now - job.dispatched)
        job.receiver.finish(job.index, result)

    def _measure(self, job: Job, now: float) -> None:
        """Adds a finished job to the pace of its queue.

        The worker's record still counts the job, so the occupancy at the end includes the job.
        """
        queue, policy = self.queues[job.kind][job.model], self.kinds[job.kind].policy
        at_end = policy.occupancy(job.kind, job.model, self.workers.values())
        occupancy = (job.occupancy + at_end) / 2 if policy.counts_rows else job.occupancy
        work = policy.work_until_end(job.tokens, occupancy)
        queue.pace.add(work, now - job.dispatched, occupancy, now)

    def _fail(self, worker: WorkerState, failed: Sequence[Failed]) -> None:
        """Fails the jobs that a worker has reported as failed.

        All of these jobs are first taken back from the worker. Otherwise, when one job fails,
        the other failed jobs of its request would count as cancelled.
        """
        jobs = [(worker.held[each.id], each) for each in failed if each.id in worker.held]
        for job, _ in jobs:
            worker.take_back(job)
        for job, each in jobs:
            reason = "the device ran out of memory" if each.is_out_of_memory else each.error
            job.receiver.fail(InternalError(f"a sentence could not be computed: {reason}"))

    def used_rows(self, kind: str, model: str) -> int:
        return sum(worker.used[kind, model, 0] for worker in self.workers.values())

    def free_rows(self, kind: str, model: str) -> int:
        rows = sum(worker.max_rows.get(model, 0) for worker in self.workers.values())
        return max(0, rows - self.used_rows(kind, model))

    def close(self) -> None:
        """Fails all unfinished jobs, and every later submission."""
        self.is_closed = True
        waiting = [queue.jobs() for queues in self.queues.values() for queue in queues.values()]
        held = [worker.held.values() for worker in self.workers.values()]
        for job in [*itertools.chain(*waiting), *itertools.chain(*held)]:
            job.receiver.fail(UnavailableError("the server is stopping; try again", 1))


def unloaded(model: str) -> NotFoundError:
    """Returns the error for an item whose model was unloaded after the request had arrived."""
    return NotFoundError(f"the model {model} has been unloaded", param="model")


def given_up(seconds: float) -> DeadlineExceededError:
    """Returns the error for a request that has too little time left to be computed."""
    return DeadlineExceededError(
        f"the request waited too long: with {max(seconds, 0.0):.2f} s left, it would be late; "
        "try again later, or allow more time",
        1,
    )
