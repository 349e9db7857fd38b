"""A scheduler whose workers record messages.

That is enough: the scheduler only sends messages to a worker and takes reports from it.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any, cast

from model.inspection.query import AttentionJob
from model.sequence import DecodingOptions, Hypothesis
from service.core import Core, CoreLease
from service.items import (
    ATTENTION,
    CAPACITY_TOKENS,
    EMBED,
    TRANSLATE,
    AttentionItem,
    Done,
    EmbeddingItem,
    Failed,
    Result,
    TranslationItem,
    WorkItem,
    bucket_of,
)
from service.metrics.definitions import Metrics
from service.models.changes import ModelChanges
from service.scheduling.admission import Admission
from service.scheduling.policies import MAX_SLOTS
from service.scheduling.scheduler import CallSoon, Scheduler
from service.scheduling.supervisor import Supervisor
from service.state.database import StateWatch
from service.tasks.table import TASKS, task_series
from service.workers.messages import Abort, Compute, Report, ToWorker

MODELS = ("en-pt", "pt-en")
MODEL_KINDS = {
    "en-pt": (TRANSLATE, EMBED, ATTENTION),
    "pt-en": (TRANSLATE, EMBED, ATTENTION),
    "tiny": (EMBED, ATTENTION),
}
FOREVER = 1000.0


class FakeWorker:
    """Records the items that it receives; a test reports how they end.

    Attributes:
        held: Items that it holds, by id.
        received: All items that it has ever received, by id.
        given: Ids of these in order of arrival, twice where an item was retried.
        num_messages: Number of messages with items.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        name: str = "worker-0",
        rows: int = 4,
        gpu_models: Iterable[str] = (),
    ) -> None:
        self.scheduler = scheduler
        self.gpu_models = {*gpu_models}
        self.name = name
        self.rows = rows
        self.held: dict[int, WorkItem] = {}
        self.received: dict[int, WorkItem] = {}
        self.given: list[int] = []
        self.num_messages = 0
        scheduler.worker_ready(self)
        for model in MODEL_KINDS:
            max_rows = rows if model in MODELS else 0
            scheduler.worker_loaded(self, model, max_rows, model in self.gpu_models)

    def send(self, message: ToWorker) -> None:
        if isinstance(message, Compute):
            self.num_messages += 1
            for item in message.items:
                self._take(item)
        else:
            assert isinstance(message, Abort)
            for item_id in message.ids:
                del self.held[item_id]

    def _take(self, item: WorkItem) -> None:
        assert item.id not in self.held
        if isinstance(item, EmbeddingItem):
            used = self.used_tokens(item.model, bucket_of(item.num_tokens))
            assert used < CAPACITY_TOKENS[item.model in self.gpu_models]
        self.held[item.id] = self.received[item.id] = item
        self.given.append(item.id)
        assert len(self.ids(ATTENTION)) <= MAX_SLOTS
        for model in MODELS:
            assert self.used_rows(model) <= self.rows + self.scheduler.rows_ahead

    def ids(self, kind: str) -> list[int]:
        return [item_id for item_id, item in self.held.items() if item.kind == kind]

    def used_rows(self, model: str) -> int:
        items = [item for item in self.held.values() if item.model == model]
        return sum(item.num_rows for item in items if item.kind == TRANSLATE)

    def used_tokens(self, model: str, bucket: int) -> int:
        items = [i for i in self.held.values() if i.model == model and i.kind == EMBED]
        return sum(i.num_tokens for i in items if bucket_of(i.num_tokens) == bucket)

    def finish(self, *ids: int) -> None:
        """Reports items as computed, each with its number as its value."""
        done = [Done(item_id, echo(self.held.pop(item_id))) for item_id in ids]
        self.scheduler.report(self, Report(done=done))

    def finish_all(self) -> None:
        while self.held:
            self.finish(*self.held)

    def fail(self, *ids: int, is_out_of_memory: bool = False) -> None:
        for item_id in ids:
            del self.held[item_id]
        failed = [Failed(item_id, "RuntimeError", is_out_of_memory) for item_id in ids]
        self.scheduler.report(self, Report(failed=failed))

    def die(self) -> None:
        self.scheduler.worker_lost(self)


def make_scheduler(
    call_soon: CallSoon = lambda function: function(), rows_ahead: int = 0
) -> Scheduler:
    """Returns a scheduler of two translation models and one embedding model.

    It dispatches the items of each submission at once.
    """
    metrics = Metrics(series=task_series())
    scheduler = Scheduler(TASKS, Admission(100, 1000), metrics, call_soon, rows_ahead)
    for model, kinds in MODEL_KINDS.items():
        metrics.add_model(model, kinds)
        scheduler.add_model(model, kinds)
    return scheduler


def sentences(
    count: int, beam: int = 1, model: str = "en-pt", first: int = 2, is_bulk: bool = False
) -> list[WorkItem]:
    """Returns sentences of two tokens, numbered from `first`."""
    options = DecodingOptions(beam_size=beam)
    numbers = range(first, first + count)
    return [TranslationItem(model, [number, 0], options, is_bulk=is_bulk) for number in numbers]


def pairs(
    count: int, model: str = "en-pt", first: int = 2, is_bulk: bool = False
) -> list[WorkItem]:
    """Returns attention items of three tokens, numbered from `first`."""
    numbers = range(first, first + count)
    return [AttentionItem(model, AttentionJob([n, 0], [0], ()), is_bulk) for n in numbers]


def texts(
    count: int, model: str = "tiny", first: int = 2, length: int = 10, is_bulk: bool = False
) -> list[WorkItem]:
    """Returns texts to embed, numbered from `first`."""
    numbers = range(first, first + count)
    return [EmbeddingItem(model, [number] * length, is_bulk=is_bulk) for number in numbers]


def number_of(item: WorkItem) -> int:
    if isinstance(item, TranslationItem):
        return item.source[0]
    if isinstance(item, EmbeddingItem):
        return item.ids[0]
    assert isinstance(item, AttentionItem)
    return item.job.source[0]


def echo(item: WorkItem) -> Any:
    """Returns a value for the result of an item; it names the item."""
    if isinstance(item, TranslationItem):
        return [Hypothesis(item.source)]
    return [number_of(item)]


def numbers(results: Sequence[Result]) -> list[int]:
    firsts = [result.value[0] for result in results]
    return [first.tokens[0] if isinstance(first, Hypothesis) else first for first in firsts]


Request = asyncio.Task[list[Result]]


def begin(
    scheduler: Scheduler, items: Sequence[WorkItem], seconds: float = FOREVER, client: str = ""
) -> Request:
    """Begins a request, which submits items and closes the submission as a lease does."""

    async def request() -> list[Result]:
        submission = scheduler.submit(items, time.perf_counter() + seconds, client=client)
        try:
            return await submission.in_order()
        finally:
            submission.close()
            assert submission.timer.cancelled()

    return asyncio.create_task(request())


async def begun(
    scheduler: Scheduler, items: Sequence[WorkItem], seconds: float = FOREVER
) -> Request:
    request = begin(scheduler, items, seconds)
    await settle()
    return request


async def finish(workers: Iterable[FakeWorker], requests: Iterable[Request]) -> None:
    """Lets workers compute all items, and requests end."""
    for worker in workers:
        worker.finish_all()
    await asyncio.gather(*requests)


async def settle() -> None:
    """Lets every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


def assert_idle(scheduler: Scheduler) -> None:
    for queues in scheduler.queues.values():
        for queue in queues.values():
            assert not queue
            for pair in queue.buckets:
                for lane in (pair.interactive, pair.bulk):
                    assert (len(lane), lane.tokens, lane.rows) == (0, 0, 0)
    for worker in scheduler.workers.values():
        assert not worker.held
        assert not any(worker.used.values())


def core_of(scheduler: Scheduler) -> Core:
    """Returns a core without workers of its own; a lease does not need them."""
    absent = None
    return Core(
        scheduler.metrics,
        scheduler.admission,
        scheduler,
        cast("Supervisor", absent),
        cast("ModelChanges", absent),
        cast("StateWatch", absent),
    )


def lease_of(core: Core) -> CoreLease:
    return CoreLease(core.admission, core.scheduler, 1)


def deadline() -> float:
    """Returns a deadline that does not pass during a test."""
    return time.perf_counter() + FOREVER


def sample(scheduler: Scheduler, name: str, **labels: str) -> float:
    value = scheduler.metrics.registry.get_sample_value(name, labels)
    assert value is not None
    return value


def slots(scheduler: Scheduler, state: str) -> float:
    return sample(scheduler, "regard_decode_slots", model="en-pt", state=state)
