"""The part of the server that there is once: metrics, admission, queues, and device workers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

from prometheus_client import generate_latest

from model.sequence import EngineLimits
from service.ipc.machine import available_cores, device_workers
from service.items.orders import Inquiry, Sentence, TextToEmbed
from service.metrics.definitions import Ended, Metrics
from service.models.catalog import Catalog
from service.models.changes import ModelChanges
from service.scheduling.admission import Admission, Reservation
from service.scheduling.lanes import EmbeddedText, Shown, Translated
from service.scheduling.scheduler import Scheduler
from service.settings import Settings
from service.tasks.backend import Status
from service.tasks.pivoting import Relay
from service.workers.messages import WorkerConfig
from service.workers.supervisor import StartWorker, Supervisor, start_process


@dataclass(frozen=True, slots=True)
class Core:
    """A Backend in the process that owns the workers."""

    metrics: Metrics
    admission: Admission
    scheduler: Scheduler
    supervisor: Supervisor
    relay: Relay
    changes: ModelChanges

    def start(self) -> None:
        """Begins to start the workers."""
        self.supervisor.start()

    async def stop(self) -> None:
        """Fails what is left, and ends the workers."""
        self.scheduler.close()
        self.changes.cancel()
        await self.supervisor.stop()
        await self.changes.wait()

    def begin(self, task: str) -> None:
        """A request has come."""
        self.metrics.begin(task)

    def end(self, ended: Ended) -> None:
        """It has been answered."""
        self.metrics.end(ended)

    def admit(self, tokens: int, at_once: bool = True) -> "AdmittedPlace":
        """A place for a request of about so many tokens, to be held by `async with`.

        Raises:
            RequestTooLargeError: The request alone is over the limit; here it is known at once.
            OverloadedError: There is no room now.
        """
        return AdmittedPlace(self, self.admission.reserve(tokens))

    async def status(self) -> Status:
        """How the server is now."""
        supervisor = self.supervisor
        models = {m.name: m for ready in supervisor.ready.values() for m in ready.models}
        embedders = {m.name: m for ready in supervisor.ready.values() for m in ready.embedders}
        return Status(
            supervisor.failure,
            supervisor.is_ready,
            supervisor.is_stopping,
            models,
            embedders,
            dict(self.changes.states),
            dict(self.changes.failures),
        )

    async def load_model(self, name: str, source: str) -> str:
        """Loads a model.

        Raises:
            ServiceError: It cannot be loaded.
        """
        return await self.changes.load(name, source)

    async def unload_model(self, name: str) -> str:
        """Unloads a model.

        Raises:
            ServiceError: It is not loaded, or just being loaded.
        """
        return await self.changes.unload(name)

    async def metrics_text(self) -> bytes:
        """All figures, in Prometheus' text format."""
        return generate_latest(self.metrics.registry)


@dataclass(slots=True)
class AdmittedPlace:
    """A Place of a request that is admitted."""

    core: Core
    reservation: Reservation

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.reservation.__exit__()

    async def run(
        self, sentences: Sequence[Sentence], is_bulk: bool, deadline: float
    ) -> list[Translated]:
        """Translates sentences, in order.

        Raises:
            ServiceError: They are refused, late, or failed.
        """
        tokens = sum(sentence.price for sentence in sentences)
        self.core.admission.adjust(self.reservation, tokens)
        if not sentences:
            return []
        return await self.core.relay.run(sentences, is_bulk, deadline)

    async def inspect(self, inquiries: Sequence[Inquiry], deadline: float) -> list[Shown]:
        """Shows attention, in order.

        Raises:
            ServiceError: They are refused, late, or failed.
        """
        tokens = sum(len(each.job.source) + len(each.job.target) for each in inquiries)
        self.core.admission.adjust(self.reservation, tokens)
        return await self.core.scheduler.inspect(inquiries, deadline)

    async def embed(
        self, texts: Sequence[TextToEmbed], is_bulk: bool, deadline: float
    ) -> list[EmbeddedText]:
        """Embeds texts, in order.

        Raises:
            ServiceError: They are refused, late, or failed.
        """
        self.core.admission.adjust(self.reservation, sum(len(text.ids) for text in texts))
        return await self.core.scheduler.embed(texts, is_bulk, deadline)


def build_core(
    settings: Settings,
    catalog: Catalog,
    start_worker: StartWorker = start_process,
    on_failure: Callable[[str], None] | None = None,
) -> Core:
    """The core, not yet started.

    Args:
        settings: How it runs.
        catalog: What it serves.
        start_worker: How device workers come to be.
        on_failure: Called when a model turns out not to be loadable.
    """
    embedders = [*catalog.embedders, *catalog.models]
    metrics = Metrics(catalog.models, version("regard"), embedders)
    metrics.admission_limit.labels("requests").set(settings.max_pending_requests)
    metrics.admission_limit.labels("tokens").set(settings.max_pending_tokens)
    admission = Admission(settings.max_pending_requests, settings.max_pending_tokens)
    scheduler = Scheduler(catalog.models, admission, metrics, embedders)
    count = device_workers(settings.workers, settings.device)
    config = WorkerConfig(
        models=tuple(model.files for model in catalog.models.values()),
        device=settings.device,
        dtype=settings.dtype,
        shortlist=settings.shortlist,
        limits=EngineLimits(
            max_rows=settings.max_rows,
            max_source_tokens=settings.max_source_tokens,
            max_batch_tokens=settings.max_batch_tokens,
        ),
        threads=max(1, available_cores() // count),
        attention_share=settings.attention_share,
        embedders=tuple(each.files for each in catalog.embedders.values()),
        placements=settings.placements,
        log_level=settings.log_level,
    )
    supervisor = Supervisor(config, count, scheduler, metrics, start_worker)
    supervisor.timeout_seconds = settings.worker_timeout_seconds
    if on_failure is not None:
        supervisor.on_failure = on_failure
    relay = Relay(catalog, scheduler, settings.max_source_tokens)
    changes = ModelChanges(catalog, settings, supervisor)
    return Core(metrics, admission, scheduler, supervisor, relay, changes)
