"""A scheduler with workers that are lists of messages: enough, as it only sends and is told."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from service.items.orders import Inquiry, Sentence, TextToEmbed

from model.inspection.query import AttentionJob
from model.sequence import DecodingOptions, Hypothesis, Sequence
from service.metrics.definitions import Metrics
from service.scheduling.admission import Admission
from service.scheduling.lanes import EmbeddedText, Shown, Translated
from service.scheduling.scheduler import MAX_TASKS, Scheduler
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
    ToWorker,
    Work,
)

MODELS = ("en-pt", "pt-en")
EMBEDDERS = ("tiny", "en-pt")
FOREVER = float("inf")


class FakeWorker:
    """Remembers what it was given; a test says what it has done."""

    def __init__(self, scheduler: Scheduler, name: str = "worker-0", rows: int = 4) -> None:
        self.scheduler = scheduler
        self.name = name
        self.rows = rows
        self.held: dict[int, Sequence] = {}
        self.tasks: dict[int, AttentionTask] = {}
        self.texts: dict[int, EmbedTask] = {}
        self.models: dict[int, str] = {}
        self.given: list[int] = []
        self.bulk: set[int] = set()
        scheduler.worker_ready(self, dict.fromkeys(MODELS, rows))

    def send(self, message: ToWorker) -> None:
        if isinstance(message, Work):
            self._take_sequences(message)
        elif isinstance(message, Inspect):
            for model, tasks in message.tasks.items():
                for task in tasks:
                    assert task.id not in self.tasks
                    self.tasks[task.id] = task
                    self.models[task.id] = model
                    self.given.append(task.id)
            assert len(self.tasks) <= MAX_TASKS
        elif isinstance(message, Embed):
            self._take_texts(message)
        elif isinstance(message, Abort):
            for work_id in message.ids:
                assert self.drop(work_id)
        for model in MODELS:
            assert self.rows_used(model) <= self.rows

    def _take_sequences(self, message: Work) -> None:
        self.bulk.update(message.bulk)
        for model, sequences in message.sequences.items():
            for sequence in sequences:
                assert sequence.id not in self.held
                self.held[sequence.id] = sequence
                self.models[sequence.id] = model
                self.given.append(sequence.id)

    def _take_texts(self, message: Embed) -> None:
        for model, texts in message.tasks.items():
            for text in texts:
                assert text.id not in self.texts
                self.texts[text.id] = text
                self.models[text.id] = model
                self.given.append(text.id)

    def drop(self, work_id: int) -> Sequence | AttentionTask | EmbedTask:
        return (
            self.held.pop(work_id, None) or self.tasks.pop(work_id, None) or self.texts.pop(work_id)
        )

    def rows_used(self, model: str) -> int:
        held = [s for sequence_id, s in self.held.items() if self.models[sequence_id] == model]
        return sum(sequence.options.beam_size for sequence in held)

    def finish(self, *ids: int) -> None:
        """Reports sequences as translated to themselves."""
        done = [Done(i, [Hypothesis(self.held.pop(i).source)]) for i in ids]
        self.scheduler.report(self, Report(done=done))

    def show(self, *ids: int) -> None:
        """Reports tasks, each with its source for a result."""
        inspected = [Inspected(i, [self.tasks.pop(i).job.source]) for i in ids]
        self.scheduler.report(self, Report(inspected=inspected))

    def embed(self, *ids: int) -> None:
        """Reports texts, each with its first id for a vector."""
        embedded = [Embedded(i, bytes([self.texts.pop(i).ids[0]])) for i in ids]
        self.scheduler.report(self, Report(embedded=embedded))

    def fail(self, *ids: int, is_out_of_memory: bool = False) -> None:
        for work_id in ids:
            assert self.drop(work_id)
        failed = [Failed(i, "RuntimeError", is_out_of_memory) for i in ids]
        self.scheduler.report(self, Report(failed=failed))

    def die(self) -> None:
        self.scheduler.worker_lost(self)


def run(test: Callable[[Scheduler], Awaitable[None]]) -> None:
    """Runs a test in a loop, in which no error may be lost."""
    unhandled: list[dict[str, object]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: unhandled.append(context)
        )
        metrics = Metrics(MODELS, embedders=EMBEDDERS)
        await test(Scheduler(MODELS, Admission(100, 1000), metrics, EMBEDDERS))

    asyncio.run(watched())
    assert not unhandled


def sentences(count: int, beam: int = 1, model: str = "en-pt", first: int = 2) -> list[Sentence]:
    """Sentences that can be told apart."""
    options = DecodingOptions(beam_size=beam)
    return [Sentence(model, [number, 0], options) for number in range(first, first + count)]


def begin(
    scheduler: Scheduler, wanted: list[Sentence], is_bulk: bool = False, seconds: float = FOREVER
) -> "asyncio.Task[list[Translated]]":
    deadline = time.perf_counter() + min(seconds, 1000)
    return asyncio.create_task(scheduler.run(wanted, is_bulk, deadline))


def inquiries(count: int, model: str = "en-pt", first: int = 2) -> list[Inquiry]:
    """Inquiries that can be told apart, of three tokens each."""
    numbers = range(first, first + count)
    return [Inquiry(model, AttentionJob([number, 0], [0], ())) for number in numbers]


def begin_inquiry(
    scheduler: Scheduler, wanted: list[Inquiry], seconds: float = FOREVER
) -> "asyncio.Task[list[Shown]]":
    deadline = time.perf_counter() + min(seconds, 1000)
    return asyncio.create_task(scheduler.inspect(wanted, deadline))


def texts(count: int, model: str = "tiny", first: int = 2, length: int = 10) -> list[TextToEmbed]:
    """Texts that can be told apart."""
    return [TextToEmbed(model, [number] * length) for number in range(first, first + count)]


def begin_embedding(
    scheduler: Scheduler,
    wanted: list[TextToEmbed],
    is_bulk: bool = False,
    seconds: float = FOREVER,
) -> "asyncio.Task[list[EmbeddedText]]":
    deadline = time.perf_counter() + min(seconds, 1000)
    return asyncio.create_task(scheduler.embed(wanted, is_bulk, deadline))


def embedded_ids(results: list[EmbeddedText]) -> list[int]:
    return [result.vectors[0] for result in results]


async def settle() -> None:
    """Lets every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


def first_tokens(results: list[Translated]) -> list[int]:
    return [result.hypotheses[0].tokens[0] for result in results]


def shown_tokens(results: list[Shown]) -> list[int]:
    return [result.results[0][0] for result in results]


def assert_idle(scheduler: Scheduler) -> None:
    for queue in scheduler.queues.rows.values():
        assert not any(len(lane) or lane.tokens or lane.rows for lane in queue.lanes)
    for waiting in scheduler.queues.texts.values():
        assert not any(len(lane) or lane.tokens for lane in waiting.lanes)
    for seat in scheduler.seats.values():
        assert not seat.held
        assert seat.free == seat.max_rows
        assert seat.num_tasks == 0
        assert not any(map(any, seat.embed_tokens.values()))
