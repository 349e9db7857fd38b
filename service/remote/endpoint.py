"""Sends sentences to the chat endpoints of remote models, a limited number at once.

Client errors name the served model. Only the log names the endpoint, and neither quotes a text.
"""

import asyncio
import logging
import time
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx2

from service.errors import InternalError, OverloadedError, ServiceError, UnavailableError
from service.models.remote import RemoteFiles
from service.remote.prompt import chat_request, translation_of
from service.settings import Settings

logger = logging.getLogger("regard.remote")

PAUSE_SECONDS = 1
"""Time before the second attempt, if the endpoint names none."""

MAX_PAUSE_SECONDS = 60
"""Longest time that a client is asked to wait."""

CONNECT_SECONDS = 10.0


class Endpoints:
    """Translates sentences by remote models; opens its connections as a context manager.

    Args:
        settings: The key of the endpoints, and the number of requests at once.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.turns = asyncio.Semaphore(settings.remote_requests)

    async def __aenter__(self) -> Self:
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs each request
        key = self.settings.remote_key.get_secret_value()
        self.client = httpx2.AsyncClient(
            headers={"User-Agent": "regard"} | ({"Authorization": f"Bearer {key}"} if key else {}),
            timeout=httpx2.Timeout(self.settings.request_timeout_seconds, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=self.settings.remote_requests),
        )
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.client.aclose()

    async def translate(
        self, text: str, model: RemoteFiles, deadline: float
    ) -> tuple[str, float, float]:
        """Returns the translation of a sentence, its seconds in the queue, and those of the call.

        After 429, 5xx or a lost connection it tries once more, unless the deadline is too near.

        Args:
            text: The sentence.
            model: A pair of languages of a remote model.
            deadline: Time by time.perf_counter at which the request fails.

        Raises:
            ServiceError: The endpoint is overloaded, not there, or does not translate.
        """
        arrived = time.perf_counter()
        async with self.turns:
            started = time.perf_counter()
            try:
                translation = await self._call(text, model)
            except (OverloadedError, UnavailableError) as error:
                pause = error.retry_after_seconds or 0
                if time.perf_counter() + pause >= deadline:
                    raise
                await asyncio.sleep(pause)
                translation = await self._call(text, model)
            return translation, started - arrived, time.perf_counter() - started

    async def _call(self, text: str, model: RemoteFiles) -> str:
        try:
            response = await self.client.post(
                f"{model.url}/chat/completions", json=chat_request(text, model)
            )
        except httpx2.TransportError as error:
            logger.warning("%s does not answer: %s", host_of(model), type(error).__name__)
            message = f"the endpoint of {model.name} does not answer; try again"
            raise UnavailableError(message, PAUSE_SECONDS) from None
        if response.status_code != 200:
            logger.warning("%s answers %s", host_of(model), response.status_code)
            raise refusal(response, model.name)
        try:
            reply = response.json()
        except ValueError:
            reply = None
        return translation_of(reply, model.name)


def refusal(response: httpx2.Response, name: str) -> ServiceError:
    """Returns the error for a reply without a translation."""
    status, given = response.status_code, response.headers.get("retry-after", "")
    wait = min(int(given), MAX_PAUSE_SECONDS) if given.isdecimal() else PAUSE_SECONDS
    if status == 429:
        message = f"the endpoint of {name} has too many requests; try again"
        return OverloadedError(message, wait, "requests")
    if status >= 500:
        return UnavailableError(f"the endpoint of {name} answers {status}; try again", wait)
    return InternalError(
        f"the endpoint of {name} answers {status}; check its address, its model and "
        "REGARD_REMOTE_KEY"
    )


def host_of(model: RemoteFiles) -> str:
    """Returns host and port of a model's endpoint."""
    return urlsplit(model.url).netloc
