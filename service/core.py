"""The core, which exactly one process runs: metrics, admission, queues and device workers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from types import MappingProxyType

from model.sequence import EngineLimits
from service.ipc.machine import available_cores, worker_devices
from service.items import ResultStream, WorkItem
from service.metrics.definitions import Metrics
from service.metrics.load_report import Load
from service.models.changes import ModelChanges
from service.models.served import OnDemand
from service.scheduling.admission import Admission, Rates
from service.scheduling.equal_sentences import SentenceSharing
from service.scheduling.scheduler import Scheduler, Submission
from service.scheduling.supervisor import StartWorker, Supervisor, start_process
from service.settings import Settings
from service.settings.keys import RateLimits
from service.state.database import Database, StateWatch
from service.tasks.backend import Status
from service.tasks.table import TASKS, kinds_of, shares, task_series
from service.workers.messages import ModelSet, WorkerConfig


@dataclass(frozen=True, slots=True)
class Core:
    """Implements `service.tasks.backend.Backend` in the process that owns the workers."""

    metrics: Metrics
    admission: Admission
    scheduler: Scheduler
    supervisor: Supervisor
    changes: ModelChanges
    state: StateWatch
    rates: Rates = field(default_factory=Rates)

    def start(self) -> None:
        self.supervisor.start()

    def drain(self) -> None:
        # The core still computes requests.
        self.supervisor.is_draining = True
        self.metrics.ready.set(0)
        self.metrics.draining.set(1)

    def kill(self) -> None:
        self.supervisor.kill()

    async def stop(self) -> None:
        self.scheduler.close()
        self.changes.cancel()
        await self.supervisor.stop()
        await self.changes.wait()

    @property
    def recorder(self) -> Metrics:
        return self.metrics

    async def admit(self, tokens: int, at_once: bool = True, client: str = "") -> "CoreLease":
        """Admits a request of about `tokens` tokens; `at_once` has no effect here."""
        return CoreLease(self.admission, self.scheduler, tokens, client)

    async def take(self, account: str, limits: RateLimits, characters: int) -> None:
        self.rates.take(account, limits, characters)

    async def status(self) -> Status:
        supervisor = self.supervisor
        return Status(
            supervisor.failure,
            supervisor.is_ready,
            supervisor.is_draining or supervisor.is_stopping,
            supervisor.resident_models(),
            dict(self.changes.states),
            dict(self.changes.failures),
            self.metrics.num_billed,
            self.load,
            self.state.fault,
        )

    @property
    def load(self) -> Load:
        admission = self.admission
        seconds = admission.throughput.exact_seconds_for(admission.tokens)
        return Load(admission.utilization, seconds, self.metrics.num_ok)

    async def load_model(self, name: str, source: str) -> str:
        return await self.changes.load(name, source)

    async def require(self, names: Sequence[str]) -> None:
        await self.changes.require(names)

    async def unload_model(self, name: str) -> str:
        return await self.changes.unload(name)

    async def metrics_text(self, is_openmetrics: bool = False) -> bytes:
        metrics = self.metrics
        return await (metrics.openmetrics if is_openmetrics else metrics.exposition).text()


class CoreLease:
    """The permission of one request to submit items; the constructor asks the admission for it."""

    def __init__(
        self, admission: Admission, scheduler: Scheduler, tokens: int, client: str = ""
    ) -> None:
        admission.admit(tokens)
        self.admission = admission
        self.scheduler = scheduler
        self.tokens = tokens
        self.client = client
        self.submissions: list[Submission] = []
        self.is_released = False

    def submit(
        self, items: Sequence[WorkItem], deadline: float, total_tokens: int = 0
    ) -> ResultStream:
        tokens = 0
        for item in items:
            tokens += item.num_tokens * item.num_legs
        is_first = not self.submissions
        if is_first:
            tokens = max(tokens, total_tokens)
            self.admission.adjust(self.tokens, tokens)
            self.tokens = tokens
        elif tokens > self.tokens:  # later submissions are not refused
            self.admission.tokens += tokens - self.tokens
            self.tokens = tokens
        submission = self.scheduler.submit(items, deadline, is_first, self.client)
        self.submissions.append(submission)
        return submission

    def release(self) -> None:
        if self.is_released:
            return
        self.is_released = True
        self.admission.release(self.tokens)
        for submission in self.submissions:
            submission.close()


def build_core(
    settings: Settings,
    files: ModelSet,
    start_worker: StartWorker = start_process,
    on_failure: Callable[[str], None] | None = None,
    cores: int = 0,
    rows_ahead: int = 0,
    on_demand: Mapping[str, OnDemand] = MappingProxyType({}),
) -> Core:
    """Builds the core without starting it.

    Args:
        on_failure: Called with the reason when a model in `files` cannot be loaded, or when the
            device has failed repeatedly.
        cores: Number of CPU cores for the workers; 0 means all available cores.
    """
    cores = cores or available_cores()
    metrics = Metrics(version("regard"), task_series())
    metrics.admission_limit.labels("requests").set(settings.max_pending_requests)
    metrics.admission_limit.labels("tokens").set(settings.max_pending_tokens)
    admission = Admission(settings.max_pending_requests, settings.max_pending_tokens)
    sharing = None
    if settings.share_sentences:
        sharing = SentenceSharing(metrics, settings.cache_sentences)
    scheduler = Scheduler(TASKS, admission, metrics, rows_ahead=rows_ahead, sharing=sharing)
    local = ModelSet(tuple(each for each in files.files if kinds_of(each)), settings.placements)
    for name in files.names - local.names:
        metrics.add_remote_model(name)
    for each in local.files:
        metrics.add_model(each.name, kinds_of(each))
        scheduler.add_model(each.name, kinds_of(each))
    devices = worker_devices(settings.workers, settings.device, cores)
    config = WorkerConfig(
        models=local,
        shares=shares(settings),
        device=settings.device,
        dtype=settings.dtype,
        shortlist=settings.shortlist,
        limits=EngineLimits(
            max_rows=settings.max_rows,
            max_source_tokens=settings.max_source_tokens,
            max_batch_tokens=settings.max_batch_tokens,
        ),
        threads=max(1, cores // len(devices)),
        log_level=settings.log_level,
        log_format=settings.log_format,
    )
    timeout = settings.worker_timeout_seconds
    supervisor = Supervisor(config, devices, scheduler, metrics, start_worker, on_failure, timeout)
    changes = ModelChanges(files, settings, supervisor, kinds_of, on_demand)
    is_needed = settings.suggestions or settings.monthly_characters > 0
    state = StateWatch(Database(settings.state), is_needed, metrics.state_usable.set)
    return Core(metrics, admission, scheduler, supervisor, changes, state)
