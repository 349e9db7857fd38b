"""Translates sentences with remote models, which run behind HTTP endpoints of other servers.

The requests to each endpoint at once are limited. A failed request is repeated at most once.
"""

import asyncio
import time
from collections import defaultdict
from types import TracebackType
from typing import TYPE_CHECKING, Self

from service.errors import OverloadedError, ServiceError, UnavailableError, outcome
from service.models.remote import RemoteFiles
from service.settings import Settings
from service.tasks.backend import Recorder

if TYPE_CHECKING:
    from service.remote.chat_client import ChatClient


class Endpoints:
    """The endpoints of remote models; the context manager closes their connections.

    Args:
        settings: Settings with the key of the endpoints, the time limit of a request, and the
            largest number of requests at once to each endpoint.
        recorder: Counts the requests to the endpoints.
    """

    def __init__(self, settings: Settings, recorder: Recorder) -> None:
        self.settings = settings
        self.recorder = recorder
        self.turns: dict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(settings.remote_requests)
        )  # by the address of the endpoint
        self.opened: ChatClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self.opened is not None:
            await self.opened.close()

    @property
    def client(self) -> "ChatClient":
        """The client; the first use creates it."""
        if self.opened is None:
            # The import takes 0.2 s, and a server without remote models does not need it.
            from service.remote.chat_client import ChatClient

            self.opened = ChatClient(self.settings)
        return self.opened

    async def translate(
        self, text: str, model: RemoteFiles, deadline: float
    ) -> tuple[str, float, float]:
        """Returns a translation, the seconds until the first request, and the seconds from then on.

        If the first request ends with 429, 5xx or a connection error, a second request follows
        after a pause. During the pause, other sentences may be sent to the endpoint. If the pause
        would last beyond the deadline, the first error is raised.

        Args:
            text: The sentence.
            model: The remote model and the language pair.
            deadline: Deadline of the sentence, by time.perf_counter. The caller enforces it.
        """
        arrived = time.perf_counter()
        turns = self.turns[model.url]
        async with turns:
            started = time.perf_counter()
            try:
                translation = await self._call(text, model)
                return translation, started - arrived, time.perf_counter() - started
            except (OverloadedError, UnavailableError) as error:
                pause = error.retry_after_seconds or 0
                if time.perf_counter() + pause >= deadline:
                    raise
        await asyncio.sleep(pause)
        async with turns:
            translation = await self._call(text, model)
        return translation, started - arrived, time.perf_counter() - started

    async def _call(self, text: str, model: RemoteFiles) -> str:
        ended = "error"
        try:
            translation = await self.client.translate(text, model)
            ended = "ok"
        except ServiceError as error:
            ended = outcome(error)
            raise
        except asyncio.CancelledError:
            ended = "cancelled"
            raise
        finally:
            self.recorder.count_call(model.name, ended)
        return translation
