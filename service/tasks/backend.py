"""The interface between the tasks and the core: admission, submission, status.

The core is the part of the server that exists once (`service/core.py`). It runs in the process of
the tasks, or in another process that `service/http_workers` reaches by messages. The tasks use this
interface in both cases.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from service.items import ResultStream, WorkItem
from service.metrics.figures import Ended
from service.metrics.load_report import Load
from service.models.served import ModelState
from service.settings.keys import RateLimits
from service.workers.messages import Resident


@dataclass(frozen=True, slots=True)
class Status:
    failure: str | None  # reason why the server ends: a model or the device has failed
    is_ready: bool
    is_stopping: bool
    models: dict[str, list[Resident]]  # of each worker, by served name
    # States of models that are being loaded or unloaded, or whose load failed.
    changes: dict[str, ModelState] = field(default_factory=dict)
    # Reasons why loads after the start failed, by model, for administrators only.
    failures: dict[str, str] = field(default_factory=dict)
    billed_characters: int = 0  # characters that DeepL's routes have translated
    load: Load = field(default_factory=Load)
    state_fault: str = ""  # reason why the state cannot be used; "" if it can be used

    def resident(self, name: str) -> Resident | None:
        """Returns the first worker's description of a model; None if no worker has loaded it."""
        found = self.models.get(name)
        return found[0] if found else None


class Lease(Protocol):
    """The permission of one request to use the server until it has been answered."""

    def submit(
        self, items: Sequence[WorkItem], deadline: float, total_tokens: int = 0
    ) -> ResultStream:
        """Submits one or more items; returns their results as they finish.

        The first submission replaces the estimate of `Backend.admit` by the real number of tokens.
        If the tokens in progress would then exceed their limit, the submission is refused. Later
        submissions are not refused for this reason. If another process decides about the admission,
        iterating over the results raises the refusal.

        Args:
            deadline: Time by time.perf_counter at which the unfinished items fail.
            total_tokens: Number of tokens of all submissions of the request. Only the first
                submission uses it, if `items` do not have more tokens.
        """

    def release(self) -> None:
        """Ends the admission, and cancels the unfinished items."""


class Recorder(Protocol):
    def begin(self, task: str) -> None: ...

    def end(self, ended: Ended) -> None: ...

    def count_refused(self, task: str, number: int) -> None:
        """Counts requests that were refused before the application got them."""

    def count_call(self, model: str, outcome: str) -> None:
        """Counts a request to a remote model; `outcome` is one of CALL_OUTCOMES in `figures`."""


class Admitter(Protocol):
    """Admits and computes requests, and reports the state of the server."""

    async def status(self) -> Status: ...

    async def admit(self, tokens: int, at_once: bool, client: str = "") -> Lease:
        """Admits a request of about `tokens` tokens.

        Unless `at_once`, the decision may be left to the first submission. The server divides its
        time among clients.
        """

    async def require(self, names: Sequence[str]) -> None:
        """Loads models on demand, and returns when all of them are served.

        Raises an UnavailableError if requests do not wait for models, or if a model of another
        request would have to be unloaded.
        """


class Backend(Admitter, Protocol):
    """Admits, computes and counts requests, and changes the served models."""

    @property
    def recorder(self) -> Recorder: ...

    async def take(self, account: str, limits: RateLimits, characters: int) -> None:
        """Counts a request against the limits of its key per minute, or refuses it."""

    async def load_model(self, name: str, source: str) -> str:
        """Loads a model that is on disk; `source` is a reference as in REGARD_MODELS.

        The result is `ready`, or `loading` if this takes longer than a request may.
        """

    async def unload_model(self, name: str) -> str:
        """Unloads a model when its open requests have ended, or at their deadlines.

        The result is `unloaded`, or `unloading` if this takes longer than a request may.
        """

    async def metrics_text(self, is_openmetrics: bool) -> bytes:
        """Returns all metrics in Prometheus' text format, or in OpenMetrics with exemplars."""
