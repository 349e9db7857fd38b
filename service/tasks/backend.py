"""What answering HTTP needs of the part of the server that there is only once.

That part (`core.py`) is in the same process, or behind a channel (`frontend.py`): whoever uses
these interfaces cannot tell.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from service.items.orders import Inquiry, Sentence, TextToEmbed
from service.metrics.definitions import Ended
from service.models.state import ModelState
from service.scheduling.lanes import EmbeddedText, Shown, Translated
from service.workers.messages import ResidentEmbedder, ResidentModel


@dataclass(frozen=True, slots=True)
class Status:
    """How the server is.

    Attributes:
        failure: Why a model can never be loaded.
        is_ready: Whether translations are accepted.
        is_stopping: Whether the end has begun.
        models: What is resident, by served name; empty while it loads.
        embedders: The same of embedding models.
        changes: Models that are `loading` or `unloading`, or `failed` to be loaded.
        failures: Why the latter could not, for those who may know this server's files.
    """

    failure: str | None
    is_ready: bool
    is_stopping: bool
    models: dict[str, ResidentModel]
    embedders: dict[str, ResidentEmbedder] = field(default_factory=dict)
    changes: dict[str, ModelState] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class Place(Protocol):
    """The place of one request among those admitted."""

    async def run(
        self, sentences: Sequence[Sentence], is_bulk: bool, deadline: float
    ) -> list[Translated]:
        """Translates the sentences of the request, in order. Called once.

        Args:
            sentences: All of them; their tokens take the place of the estimate.
            is_bulk: Which lane they wait in.
            deadline: By time.perf_counter, which all processes of a machine share.

        Raises:
            ServiceError: They are refused, late, or failed.
        """

    async def inspect(self, inquiries: Sequence[Inquiry], deadline: float) -> list[Shown]:
        """Shows attention, in order. Called once, and in place of `run`.

        Args:
            inquiries: All of them; their tokens take the place of the estimate.
            deadline: As for `run`.

        Raises:
            ServiceError: They are refused, late, or failed.
        """

    async def embed(
        self, texts: Sequence[TextToEmbed], is_bulk: bool, deadline: float
    ) -> list[EmbeddedText]:
        """Embeds texts, in order. Called once, and in place of `run`.

        Args:
            texts: All of them; their tokens take the place of the estimate.
            is_bulk: Which lane they wait in.
            deadline: As for `run`.

        Raises:
            ServiceError: They are refused, late, or failed.
        """


class Recorder(Protocol):
    """Counts requests."""

    def begin(self, task: str) -> None:
        """A request has come."""

    def end(self, ended: Ended) -> None:
        """It has been answered."""


class Backend(Recorder, Protocol):
    """Admits, translates, counts, and knows how the server is."""

    def admit(self, tokens: int, at_once: bool) -> AbstractAsyncContextManager[Place]:
        """A place for a request, held while it lasts.

        Args:
            tokens: An estimate.
            at_once: Whether to know before any work is done; else `Place.run` may be what refuses.

        Raises:
            RequestTooLargeError: The request alone is over the limit.
            OverloadedError: There is no room now.
        """

    async def status(self) -> Status:
        """How the server is now."""

    async def load_model(self, name: str, source: str) -> str:
        """Loads a model that is on disk; gives `ready`, or `loading` where it takes long.

        Args:
            name: Of one of the models behind the reference.
            source: A reference, as in REGARD_MODELS.

        Raises:
            ServiceError: It cannot be loaded.
        """

    async def unload_model(self, name: str) -> str:
        """Unloads a model once its requests have ended; `unloaded`, or `unloading` meanwhile.

        Raises:
            ServiceError: It is not loaded, or just being loaded.
        """

    async def metrics_text(self) -> bytes:
        """All figures, in Prometheus' text format."""
