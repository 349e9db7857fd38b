"""Which worker gets which sentence when: queues, deadlines, cancellation, results.

It lives in the event loop of the server and is not thread-safe. Every job that is admitted is
settled exactly once: by a result, an error, or the end of the request that asked.
"""

import asyncio
import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from model.sequence import DecodingOptions, Sequence
from service.admission import Admission
from service.errors import DeadlineExceededError, InternalError, UnavailableError
from service.lanes import Job, ModelQueue, Translated
from service.messages import Abort, Done, Failed, Report, ToWorker, Work
from service.metrics import LANES, Metrics

logger = logging.getLogger("regard.scheduler")

MAX_ATTEMPTS = 2
"""A sentence whose worker died is tried once more."""

TASK = "translate"


class Link(Protocol):
    """The way to a worker."""

    name: str

    def send(self, message: ToWorker) -> None:
        """Sends without waiting."""


@dataclass(eq=False, slots=True)
class Seat:
    """A worker as the scheduler sees it: its free rows by model, and the jobs that it holds."""

    link: Link
    max_rows: dict[str, int]
    free: dict[str, int]
    held: dict[int, Job] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a request wants translated.

    Attributes:
        model: Served name.
        source: Ids, EOS included.
        options: How to search.
    """

    model: str
    source: list[int]
    options: DecodingOptions


class Scheduler:
    """Gives waiting sentences to workers as rows become free.

    Args:
        models: Served names.
        admission: Whose throughput is told of finished tokens.
        metrics: Where everything is counted.
    """

    def __init__(self, models: Iterable[str], admission: Admission, metrics: Metrics) -> None:
        self.admission = admission
        self.metrics = metrics
        self.queues = {model: ModelQueue() for model in models}
        self.seats: dict[Link, Seat] = {}
        self.ids = itertools.count(1)
        self.is_closed = False
        for model, queue in self.queues.items():
            for lane_name, lane in zip(LANES, (queue.interactive, queue.bulk), strict=True):
                metrics.watch_lane(model, lane_name, lane)
            metrics.decode_slots.labels(model, "used").set_function(partial(self._used_rows, model))
            metrics.decode_slots.labels(model, "free").set_function(partial(self._free_rows, model))

    async def run(
        self, sentences: SequenceOf[Sentence], is_bulk: bool, deadline: float
    ) -> list[Translated]:
        """Translates sentences, in order.

        Args:
            sentences: Of one request.
            is_bulk: Which lane they wait in.
            deadline: By time.perf_counter.

        Raises:
            UnavailableError: No worker is ready, or two died over a sentence.
            DeadlineExceededError: The deadline passed.
            InternalError: A sentence made the engine fail.
        """
        if self.is_closed:
            raise UnavailableError("the server is stopping; try again", 1)
        if not self.seats:
            raise UnavailableError("the models are loading; try again soon", 1)
        jobs = [self._enqueue(sentence, is_bulk) for sentence in sentences]
        self._dispatch()
        try:
            async with asyncio.timeout(max(0.0, deadline - time.perf_counter())):
                return [await job.future for job in jobs]
        except TimeoutError as error:
            done = sum(is_settled(job) for job in jobs)
            raise DeadlineExceededError(
                f"{done} of {len(jobs)} sentences were translated before the deadline; "
                "send less at once, or raise REGARD_REQUEST_TIMEOUT_SECONDS"
            ) from error
        finally:
            left = [job for job in jobs if not is_settled(job)]
            for job in jobs:  # an error of a second sentence has nobody to go to
                if is_settled(job):
                    job.future.exception()
            if left:
                self._cancel(left)

    def _enqueue(self, sentence: Sentence, is_bulk: bool) -> Job:
        sequence = Sequence(next(self.ids), sentence.source, sentence.options)
        future = asyncio.get_running_loop().create_future()
        job = Job(sentence.model, sequence, is_bulk, future)
        self.queues[job.model].lane(is_bulk).add(job)
        return job

    def _dispatch(self) -> None:
        """Fills free rows, sharing what waits among the workers that have any."""
        for model, queue in self.queues.items():
            if not len(queue):
                continue
            seats = sorted(
                (seat for seat in self.seats.values() if seat.free.get(model, 0) > 0),
                key=lambda seat: seat.free[model],
                reverse=True,
            )
            for position, seat in enumerate(seats):
                # Less than the oldest needs would leave it waiting beside free rows.
                share = max(-(-queue.rows // (len(seats) - position)), queue.next_rows)
                if share:
                    self._give(seat, model, queue.take(min(share, seat.free[model])))

    def _give(self, seat: Seat, model: str, jobs: list[Job]) -> None:
        if not jobs:
            return
        now = time.perf_counter()
        for job in jobs:
            job.dispatched = now
            job.attempts += 1
            seat.held[job.sequence.id] = job
            seat.free[model] -= job.rows
        seat.link.send(Work({model: [job.sequence for job in jobs]}))

    def _cancel(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.future.cancel()
            if self.queues[job.model].lane(job.is_bulk).remove(job):
                self.metrics.cancelled.labels(TASK, job.model, "queued").inc()
        running = {id(job) for job in jobs}
        for seat in self.seats.values():
            held = [job for job in seat.held.values() if id(job) in running]
            for job in held:
                self._take_back(seat, job)
                self.metrics.cancelled.labels(TASK, job.model, "running").inc()
            if held:
                seat.link.send(Abort([job.sequence.id for job in held]))
        self._dispatch()

    def _take_back(self, seat: Seat, job: Job) -> None:
        del seat.held[job.sequence.id]
        seat.free[job.model] += job.rows

    def worker_ready(self, link: Link, max_rows: dict[str, int]) -> None:
        """A worker has loaded its models and has so many rows for each."""
        self.seats[link] = Seat(link, dict(max_rows), dict(max_rows))
        self._dispatch()

    def worker_lost(self, link: Link) -> None:
        """A worker is gone: what it held goes back to the front, or fails if it was there before.

        What waits stays waiting for the workers that are left or come back.
        """
        seat = self.seats.pop(link, None)
        if seat is None:
            return
        for job in reversed(seat.held.values()):
            if job.attempts < MAX_ATTEMPTS:
                self.queues[job.model].lane(job.is_bulk).add(job, is_first=True)
            elif not job.future.done():
                job.future.set_exception(
                    UnavailableError("the worker died twice over this request; try again", 1)
                )
        self._dispatch()

    def has_work(self, link: Link) -> bool:
        """Whether a worker holds sentences."""
        seat = self.seats.get(link)
        return seat is not None and bool(seat.held)

    def report(self, link: Link, report: Report) -> None:
        """Settles what a worker has finished and counts what it did."""
        seat = self.seats[link]
        lengths: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for done in report.done:
            job = self._settle(seat, done)
            if job is not None:
                lengths[job.model].append((job.tokens, len(done.hypotheses[0].tokens)))
        for model, pairs in lengths.items():
            self.metrics.observe_sentences(model, pairs)
            self.admission.throughput.add(sum(source for source, _ in pairs))
        for failed in report.failed:
            self._fail(seat, failed)
        self._count(link, report)
        self._dispatch()

    def _settle(self, seat: Seat, done: Done) -> Job | None:
        job = seat.held.get(done.id)
        if job is None:  # cancelled while the result was on its way
            return None
        self._take_back(seat, job)
        now = time.perf_counter()
        if not job.future.done():
            waited, decoded = job.dispatched - job.created, now - job.dispatched
            job.future.set_result(Translated(done.hypotheses, waited, decoded))
        return job

    def _fail(self, seat: Seat, failed: Failed) -> None:
        job = seat.held.get(failed.id)
        if job is None:
            return
        self._take_back(seat, job)
        if not job.future.done():
            reason = "the device ran out of memory" if failed.is_out_of_memory else failed.error
            job.future.set_exception(InternalError(f"a sentence could not be translated: {reason}"))

    def _count(self, link: Link, report: Report) -> None:
        for model, batches in report.batches.items():
            for batch, count in batches.items():
                self.metrics.observe_batches(model, batch, count)
        for model, count in report.splits.items():
            self.metrics.batch_splits.labels(model).inc(count)
        for model, count in report.out_of_memory.items():
            self.metrics.oom.labels(model).inc(count)
        for kind, size in report.memory_bytes.items():
            self.metrics.device_memory.labels(link.name, kind).set(size)

    def _used_rows(self, model: str) -> int:
        rows = sum(seat.max_rows.get(model, 0) for seat in self.seats.values())
        return rows - self._free_rows(model)

    def _free_rows(self, model: str) -> int:
        return sum(seat.free.get(model, 0) for seat in self.seats.values())

    def close(self) -> None:
        """Fails everything that is left, and what still comes."""
        self.is_closed = True
        error = UnavailableError("the server is stopping; try again", 1)
        waiting = [
            job
            for queue in self.queues.values()
            for lane in (queue.interactive, queue.bulk)
            for job in lane.jobs.values()
        ]
        held = [job for seat in self.seats.values() for job in seat.held.values()]
        for job in waiting + held:
            if not job.future.done():
                job.future.set_exception(error)


def is_settled(job: Job) -> bool:
    """Whether a worker has settled a job; a deadline cancels the future that is awaited."""
    return job.future.done() and not job.future.cancelled()
