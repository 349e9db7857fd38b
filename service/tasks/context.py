"""The context of one request: its id, timings, admission, and labels in the metrics."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from service.errors import DeadlineExceededError
from service.items import Result, WorkItem
from service.metrics.figures import NO_MODEL
from service.models.catalog import Catalog
from service.tasks.backend import Admitter, Lease
from service.tasks.threads import INLINE_CHARS, run_sized

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class StageTimes:
    """The stages of a traced request: first beginning and last end, by time.perf_counter."""

    trace_id: str  # 32 hexadecimal digits
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, name: str, seconds: float, seconds_ago: float) -> None:
        """Adds a part of a stage, which ended `seconds_ago` seconds ago."""
        end = time.perf_counter() - seconds_ago
        start = end - seconds
        if name in self.intervals:
            first, last = self.intervals[name]
            start, end = min(start, first), max(end, last)
        self.intervals[name] = start, end


@dataclass(slots=True, eq=False)
class RequestContext:
    """The context of one request, or of the translation of a document; routes and tasks fill it."""

    request_id: str  # the client's X-Request-Id if it is short and plain, otherwise a new id
    started: float = field(default_factory=time.perf_counter)  # by time.perf_counter
    # Name of the task kind, or DETECT, DOCUMENT or MCP of `service.metrics.figures`. None on routes
    # whose requests are not counted.
    task: str | None = None
    model: str = NO_MODEL  # served name; NO_MODEL if no model or more than one is chosen
    is_waiting: bool = False  # for a model on demand, so it does not use any other model
    num_inputs: int = 0
    outcome: str = "ok"  # value of the label `outcome` in regard_requests_total
    stages: dict[str, float] = field(default_factory=dict)  # seconds by the name of the stage
    # Number of sentences or texts that were too long, by model.
    num_cut: dict[str, int] = field(default_factory=dict)
    # Number of translations that a guard rejected, by model, guard and outcome. A guard is a check
    # for wrong translations.
    rejected: dict[tuple[str, str, str], int] = field(default_factory=dict)
    lease: Lease | None = None
    address: str = ""  # of the client; it never leaves the server
    account: str = ""  # hash of the API key; "" on a server without API keys
    billed_characters: int = 0  # characters that the request adds to the usage of /v2/usage
    timeout_seconds: float = 60.0  # limit of the server
    client_seconds: float | None = None  # limit in X-Request-Timeout-Ms
    first_sentence_seconds: float | None = None  # of a stream; None without a stream
    times: StageTimes | None = None  # of the stages; None if the request is not traced

    @property
    def deadline(self) -> float:
        """Time by time.perf_counter at which the request fails.

        A client can only shorten the time limit of the server.
        """
        seconds = self.timeout_seconds
        if self.client_seconds is not None and self.client_seconds < seconds:
            seconds = self.client_seconds
        return self.started + seconds

    async def admit(self, backend: Admitter, tokens: int, num_chars: int) -> Lease:
        """Admits a request of about `tokens` tokens, which keeps its lease until `release`.

        Later calls return the same lease. A long request is admitted before its texts are read.
        """
        if self.lease is None:
            at_once = num_chars > INLINE_CHARS
            self.lease = await backend.admit(tokens, at_once, self.account or self.address)
        return self.lease

    async def tokenize(
        self,
        backend: Admitter,
        tokens: int,
        num_chars: int,
        function: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Admits a request of about `tokens` tokens, then runs the function that tokenises it.

        Only admitted texts take memory for tokens.
        """
        await self.admit(backend, tokens, num_chars)
        with self.stage("tokenize"):
            return await run_sized(num_chars, self.deadline, function, *args, **kwargs)

    async def compute(self, items: Sequence[WorkItem], is_bulk: bool) -> list[Result]:
        """Submits items of the admitted request, and returns their results in order."""
        assert self.lease is not None
        if is_bulk:
            for item in items:
                item.is_bulk = True
        results = await self.lease.submit(items, self.deadline).in_order()
        self.add_times(results)
        return results

    async def wait_for_models(self, backend: Admitter, names: Sequence[str]) -> None:
        """Waits until models on demand are loaded, at most until the deadline."""
        self.is_waiting = True
        try:
            async with asyncio.timeout(self.deadline - time.perf_counter()):
                await backend.require(names)
        except TimeoutError:
            raise DeadlineExceededError(
                f"{' and '.join(names)} could not be loaded before the deadline; try again "
                "soon, or raise REGARD_REQUEST_TIMEOUT_SECONDS"
            ) from None
        finally:
            self.is_waiting = False

    async def wait_for_model(self, name: str | None, catalog: Catalog, backend: Admitter) -> None:
        """Waits for the model that a request uses, if it is loaded on demand."""
        wanted = catalog.named(name or "")
        if wanted in catalog.unloaded:
            await self.wait_for_models(backend, (wanted,))

    def release(self) -> None:
        """Ends the admission, and cancels the unfinished items."""
        if self.lease is not None:
            self.lease.release()

    def add_times(self, results: Sequence[Result]) -> None:
        """Adds the longest wait to the stage `queue`, and the longest computation to `device`."""
        device_seconds = queue_seconds = 0.0
        for result in results:
            device_seconds = max(device_seconds, result.device_seconds)
            queue_seconds = max(queue_seconds, result.queue_seconds)
        stages = self.stages
        stages["queue"] = stages.get("queue", 0.0) + queue_seconds
        stages["device"] = stages.get("device", 0.0) + device_seconds
        if self.times is not None:
            self.times.add("queue", queue_seconds, device_seconds)
            self.times.add("device", device_seconds, 0.0)

    def stage(self, name: str) -> "Stage":
        return Stage(self, name)

    def add(self, name: str, seconds: float, seconds_ago: float = 0.0) -> None:
        """Adds seconds to a stage, which ended `seconds_ago` seconds ago."""
        self.stages[name] = self.stages.get(name, 0.0) + seconds
        if self.times is not None:
            self.times.add(name, seconds, seconds_ago)

    def server_timing(self) -> str:
        stages = self.stages.items()
        return ", ".join([f"{name};dur={1000 * seconds:.2f}" for name, seconds in stages])


class Stage:
    """Adds the time of a `with` block to a stage of a request.

    A context manager made from a generator function would take four times as long as this class.
    The names are STAGES of `service.metrics.figures`.
    """

    __slots__ = ("context", "name", "start")

    def __init__(self, context: RequestContext, name: str) -> None:
        self.context = context
        self.name = name

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        seconds, stages = time.perf_counter() - self.start, self.context.stages
        if self.context.times is None:
            stages[self.name] = stages.get(self.name, 0.0) + seconds
        else:
            self.context.add(self.name, seconds)
