"""The interface between the tasks and the core: admission, submission, status.

The core runs in the same process (`core.py`) or behind a channel (`http_workers`). The tasks use
both in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from service.items.base import WorkItem
from service.items.result_stream import ResultStream
from service.metrics.definitions import Ended
from service.models.state import ModelState
from service.workers.messages import Resident


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the server.

    Attributes:
        failure: Reason why a model can never be loaded; None if there is none.
        is_ready: Whether work is accepted.
        is_stopping: Whether the shutdown has begun.
        models: Resident models by served name; empty while they load.
        changes: States of models that are being loaded or unloaded, or whose load failed.
        failures: Reasons of the models whose state is `failed`, for administrators.
    """

    failure: str | None
    is_ready: bool
    is_stopping: bool
    models: dict[str, Resident]
    changes: dict[str, ModelState] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class Lease(Protocol):
    """The permission of one request to use the server.

    The request keeps its lease until its reply has been written.
    """

    def submit(self, items: Sequence[WorkItem], deadline: float) -> ResultStream:
        """Submits items of the request.

        The first submission replaces the estimate by the real number of tokens, and may then be
        refused. Later submissions of an admitted request are never refused.

        Args:
            items: At least one.
            deadline: Time by time.perf_counter at which the unfinished items fail.

        Returns:
            The results as they finish. Iterating raises a ServiceError if the items are refused,
            are too late, or have failed.
        """

    def release(self) -> None:
        """Ends the admission, and cancels the unfinished items."""


class Recorder(Protocol):
    """Counts requests."""

    def begin(self, task: str) -> None:
        """Counts a request that has arrived."""

    def end(self, ended: Ended) -> None:
        """Counts a request that has been answered."""


class Backend(Recorder, Protocol):
    """Admits and computes requests, counts them, and reports the state of the server."""

    async def admit(self, tokens: int, at_once: bool) -> Lease:
        """Admits a request of about `tokens` tokens.

        Args:
            tokens: Estimated number of tokens.
            at_once: Whether to decide about the admission now. If false, the decision may come with
                the first submission.

        Raises:
            RequestTooLargeError: The request alone exceeds the limit.
            OverloadedError: The waiting requests leave no room for it.
        """

    async def status(self) -> Status:
        """Returns the state of the server."""

    async def load_model(self, name: str, source: str) -> str:
        """Loads a model that is on disk; returns `ready`, or `loading` if it takes long.

        Args:
            name: Name of one of the models that the reference names.
            source: A reference, as in REGARD_MODELS.

        Raises:
            ServiceError: The model cannot be loaded.
        """

    async def unload_model(self, name: str) -> str:
        """Unloads a model once its requests have ended.

        Returns:
            `unloaded`, or `unloading` while the model's requests are in progress.

        Raises:
            ServiceError: The model is not loaded, or is being loaded.
        """

    async def metrics_text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
