"""Which worker gets which sentence when: queues, deadlines, cancellation, results.

It lives in the event loop of the server and is not thread-safe. Every job that is admitted is
settled exactly once: by a result, an error, or the end of the request that asked.
"""

import asyncio
import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from collections.abc import Sequence as SequenceOf
from functools import partial
from typing import Any, cast

from model.sequence import Sequence
from service.errors import InternalError, UnavailableError, too_late
from service.items.length_buckets import LEVELS
from service.items.orders import Inquiry, Sentence, TextToEmbed
from service.metrics.definitions import Metrics
from service.scheduling.admission import Admission
from service.scheduling.lanes import EmbeddedText, Job, Shown, Translated
from service.scheduling.queues import Queues, check_known, unloaded
from service.scheduling.worker_state import Link, Seat, first_seats, least_asked, least_burdened
from service.workers.messages import (
    Abort,
    AttentionTask,
    Done,
    Embed,
    Embedded,
    EmbedTask,
    Failed,
    Inspect,
    Inspected,
    Report,
    Work,
)

logger = logging.getLogger("regard.scheduler")

MAX_ATTEMPTS = 2
"""A sentence whose worker died is tried once more."""

MAX_TASKS = 4
"""Attention tasks that a worker has at once: enough to be computed together, and few enough that
a second worker has some as well."""


class Scheduler:
    """Gives waiting sentences to workers as rows become free, and texts as they embed them.

    Args:
        models: Served names of translation models.
        admission: Whose throughput is told of finished tokens.
        metrics: Where everything is counted.
        embedders: Served names of models that embed.
    """

    def __init__(
        self,
        models: Iterable[str],
        admission: Admission,
        metrics: Metrics,
        embedders: Iterable[str] = (),
    ) -> None:
        self.admission = admission
        self.metrics = metrics
        self.queues = Queues(metrics)
        self.seats: dict[Link, Seat] = {}
        self.ids = itertools.count(1)
        self.is_closed = False
        for model in models:
            self._add_queue(model)
        for model in embedders:
            self.queues.add_texts(model)

    def add_model(self, model: str, translates: bool) -> None:
        """Takes work for one more model; each embeds."""
        if translates:
            self._add_queue(model)
        self.queues.add_texts(model)

    def _add_queue(self, model: str) -> None:
        self.queues.add(model)
        slots = self.metrics.decode_slots
        slots.labels(model, "used").set_function(partial(self._used_rows, model))
        slots.labels(model, "free").set_function(partial(self._free_rows, model))

    def remove_model(self, model: str) -> None:
        """Takes no more work for a model, and fails what is left of it."""
        left = self.queues.remove(model)
        for seat in self.seats.values():
            if held := seat.unload(model):
                seat.link.send(Abort([job.id for job in held]))
                left += held
        for job in left:
            if not job.future.done():
                job.future.set_exception(unloaded(model))

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
        self._check((each.model for each in sentences), self.queues.rows)
        works = [
            (each.model, Sequence(next(self.ids), each.source, each.options, each.first_id))
            for each in sentences
        ]
        jobs = [self._enqueue(*work, is_bulk) for work in works]
        return await self._settled(jobs, self._fill_rows, deadline)

    async def inspect(self, inquiries: SequenceOf[Inquiry], deadline: float) -> list[Shown]:
        """Shows attention, in order.

        Args:
            inquiries: Of one request.
            deadline: By time.perf_counter.

        Raises:
            ServiceError: As for `run`.
        """
        self._check((each.model for each in inquiries), self.queues.attention)
        works = [(each.model, AttentionTask(next(self.ids), each.job)) for each in inquiries]
        jobs = [self._enqueue(*work, False) for work in works]
        return await self._settled(jobs, self._fill_tasks, deadline)

    async def embed(
        self, texts: SequenceOf[TextToEmbed], is_bulk: bool, deadline: float
    ) -> list[EmbeddedText]:
        """Embeds texts, in order.

        Args:
            texts: Of one request.
            is_bulk: Which lane they wait in.
            deadline: By time.perf_counter.

        Raises:
            ServiceError: As for `run`.
        """
        self._check((each.model for each in texts), self.queues.texts)
        works = [
            (text.model, EmbedTask(next(self.ids), text.ids, text.is_per_token, text.is_raw))
            for text in texts
        ]
        jobs = [self._enqueue(*work, is_bulk) for work in works]
        return await self._settled(jobs, self._fill_embeddings, deadline)

    def _check(self, models: Iterable[str], known: Collection[str]) -> None:
        if self.is_closed:
            raise UnavailableError("the server is stopping; try again", 1)
        if not self.seats:
            raise UnavailableError("the models are loading; try again soon", 1)
        check_known(models, known)

    async def _settled(
        self, jobs: list[Job], fill: Callable[[str], None], deadline: float
    ) -> list[Any]:
        for model in dict.fromkeys(job.model for job in jobs):
            fill(model)
        seconds = max(0.0, deadline - time.perf_counter())
        timer = asyncio.get_running_loop().call_later(seconds, self._expire, jobs)
        try:
            return [await job.future for job in jobs]
        finally:
            timer.cancel()
            left = [job for job in jobs if not job.is_settled]
            for job in jobs:  # an error of a second sentence has nobody to go to
                if job.is_settled:
                    job.future.exception()
            if left:
                self._cancel(left)

    def _expire(self, jobs: list[Job]) -> None:
        """Fails what is not done at the deadline, by far cheaper than asyncio.timeout."""
        left = [job for job in jobs if not job.future.done()]
        error = too_late(len(jobs) - len(left), len(jobs))
        for job in left:
            job.future.set_exception(error)
        self._cancel(left)

    def _enqueue(
        self, model: str, work: Sequence | AttentionTask | EmbedTask, is_bulk: bool
    ) -> Job:
        job = Job(model, work, is_bulk, asyncio.get_running_loop().create_future())
        self.queues.lane(job).add(job)
        return job

    def _dispatch(self) -> None:
        """Shares what waits among the workers, where they have room again."""
        for model in self.queues.rows:
            self._fill_rows(model)
        for model in self.queues.asked():
            self._fill_tasks(model)
        for model in self.queues.texts:
            self._fill_embeddings(model)

    def _fill_rows(self, model: str) -> None:
        """Fills free rows of all who have any, most of them first."""
        queue = self.queues.rows[model]
        if not queue.rows:
            return
        seats = first_seats(self.seats.values(), model)
        for position, seat in enumerate(seats):
            # Less than the oldest needs would leave it waiting beside free rows.
            share = max(-(-queue.rows // (len(seats) - position)), queue.next_rows)
            spare = seat.spare(model, queue.bulk.next_rows)
            jobs = queue.take(min(share, seat.free[model]), spare) if share else []
            if jobs:
                seat.give(jobs)
                sequences = [cast("Sequence", job.work) for job in jobs]
                seat.link.send(Work({model: sequences}, [job.id for job in jobs if job.is_bulk]))

    def _fill_tasks(self, model: str) -> None:
        """One after the other to who has fewest, and of those to who has least to translate."""
        lane = self.queues.attention[model]
        while len(lane):
            seat = least_asked(self.seats.values(), model)
            if seat is None or seat.num_tasks >= MAX_TASKS:
                return
            job = lane.take_first()
            seat.give([job])
            seat.link.send(Inspect({model: [cast("AttentionTask", job.work)]}))

    def _fill_embeddings(self, model: str) -> None:
        """One after the other to who has least to do before it, short ones first."""
        queue = self.queues.texts[model]
        given: dict[Seat, list[EmbedTask]] = defaultdict(list)
        for level in range(LEVELS):
            while queue.count(level):
                seat = least_burdened(self.seats.values(), model, level)
                if seat is None:
                    break
                job = queue.take(level)
                seat.give([job])
                given[seat].append(cast("EmbedTask", job.work))
        for seat, tasks in given.items():
            seat.link.send(Embed({model: tasks}))

    def _cancel(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.future.cancel()
            if self.queues.drop(job):
                self.metrics.cancelled.labels(job.task, job.model, "queued").inc()
        running = {id(job) for job in jobs}
        for seat in self.seats.values():
            held = [job for job in seat.held.values() if id(job) in running]
            for job in held:
                seat.take_back(job)
                self.metrics.cancelled.labels(job.task, job.model, "running").inc()
            if held:
                seat.link.send(Abort([job.id for job in held]))
        self._dispatch()

    def worker_ready(
        self, link: Link, max_rows: dict[str, int], missing: Iterable[str] = ()
    ) -> None:
        """A worker has loaded its models and has so many rows for each; others it still lacks."""
        self.seats[link] = Seat(link, dict(max_rows), dict(max_rows), missing={*missing})
        self._dispatch()

    def worker_loaded(self, link: Link, model: str, max_rows: int) -> None:
        """A worker has loaded one more model; it has no rows for one that only embeds."""
        self.seats[link].load(model, max_rows)
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
                self.queues.lane(job).add(job, is_first=True)
            elif not job.future.done():
                job.future.set_exception(
                    UnavailableError("the worker died twice over this request; try again", 1)
                )
        self._dispatch()

    def has_work(self, link: Link) -> bool:
        """Whether a worker holds anything."""
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
        for inspected in report.inspected:
            self._settle(seat, inspected)
        self._settle_embedded(seat, report.embedded)
        for failed in report.failed:
            self._fail(seat, failed)
        self.metrics.observe_report(link.name, report)
        self._dispatch()

    def _settle_embedded(self, seat: Seat, embedded: SequenceOf[Embedded]) -> None:
        lengths: dict[str, list[int]] = defaultdict(list)
        for each in embedded:
            job = self._settle(seat, each)
            if job is not None:
                lengths[job.model].append(job.tokens)
        for model, tokens in lengths.items():
            self.metrics.observe_texts(model, tokens)
            self.admission.throughput.add(sum(tokens))

    def _settle(self, seat: Seat, done: Done | Inspected | Embedded) -> Job | None:
        job = seat.held.get(done.id)
        if job is None:  # cancelled while the result was on its way
            return None
        seat.take_back(job)
        now = time.perf_counter()
        if not job.future.done():
            times = job.dispatched - job.created, now - job.dispatched
            if isinstance(done, Done):
                job.future.set_result(Translated(done.hypotheses, *times))
            elif isinstance(done, Embedded):
                job.future.set_result(EmbeddedText(done.vectors, *times))
            else:
                job.future.set_result(Shown(done.results, *times))
        return job

    def _fail(self, seat: Seat, failed: Failed) -> None:
        job = seat.held.get(failed.id)
        if job is None:
            return
        seat.take_back(job)
        if not job.future.done():
            reason = "the device ran out of memory" if failed.is_out_of_memory else failed.error
            job.future.set_exception(InternalError(f"a sentence could not be computed: {reason}"))

    def _used_rows(self, model: str) -> int:
        rows = sum(seat.max_rows.get(model, 0) for seat in self.seats.values())
        return rows - self._free_rows(model)

    def _free_rows(self, model: str) -> int:
        return sum(seat.free.get(model, 0) for seat in self.seats.values())

    def close(self) -> None:
        """Fails everything that is left, and what still comes."""
        self.is_closed = True
        error = UnavailableError("the server is stopping; try again", 1)
        held = [job for seat in self.seats.values() for job in seat.held.values()]
        for job in self.queues.jobs() + held:
            if not job.future.done():
                job.future.set_exception(error)
