"""Translates sentences with remote models: chat models behind OpenAI-compatible endpoints.

Errors for clients name the served model, and the log names the endpoint. Neither contains a text.
"""

import asyncio
import logging
import re
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from service.errors import InternalError, OverloadedError, ServiceError, UnavailableError, outcome
from service.models.prompts import NO_HINTS, Hints
from service.models.remote import RemoteFiles
from service.settings import Settings
from service.tasks.backend import Recorder

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger("regard.remote")

CONNECT_SECONDS = 10.0

PAUSE_SECONDS = 1
"""Time after which a failed request is repeated if the endpoint sends no Retry-After."""

MAX_PAUSE_SECONDS = 60
"""Upper limit on the Retry-After that an endpoint sends."""

TOKENS_PER_CHAR = 2
SPARE_TOKENS = 64
"""A reply may have SPARE_TOKENS tokens, and TOKENS_PER_CHAR more for each character of the text."""

THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
"""Matches the thoughts that some models write before their translation."""


class Endpoints:
    """The endpoints of remote models; `aclose` closes their connections."""

    def __init__(self, settings: Settings, recorder: Recorder) -> None:
        self.settings = settings
        self.recorder = recorder
        self.turns: dict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(settings.remote_requests)
        )  # by the address of the endpoint
        self.client: httpx2.AsyncClient | None = None

    async def aclose(self) -> None:
        if self.client is not None:
            await self.client.aclose()

    async def translate(
        self, text: str, model: RemoteFiles, deadline: float, hints: Hints = NO_HINTS
    ) -> tuple[str, float, float]:
        """Returns a translation, the seconds until the first request, and the seconds from then on.

        If the first request ends with 429, 5xx or a connection error, a second request follows
        after a pause. During the pause, other sentences may be sent to the endpoint. If the pause
        would last beyond the deadline, which the caller enforces, the first error is raised.
        """
        arrived = time.perf_counter()
        turns = self.turns[model.url]
        async with turns:
            started = time.perf_counter()
            try:
                translation = await self._call(text, model, hints)
                return translation, started - arrived, time.perf_counter() - started
            except (OverloadedError, UnavailableError) as error:
                pause = error.retry_after_seconds or 0
                if time.perf_counter() + pause >= deadline:
                    raise
        await asyncio.sleep(pause)
        async with turns:
            translation = await self._call(text, model, hints)
        return translation, started - arrived, time.perf_counter() - started

    async def _call(self, text: str, model: RemoteFiles, hints: Hints) -> str:
        ended = "error"
        try:
            translation = await self.ask(text, model, hints)
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

    async def ask(self, text: str, model: RemoteFiles, hints: Hints = NO_HINTS) -> str:
        from httpx2 import RequestError

        self.client = self.client or new_client(self.settings)
        host = urlsplit(model.url).netloc
        try:
            response = await self.client.post(
                f"{model.url}/chat/completions", json=chat_request(text, model, hints)
            )
        except RequestError as error:
            logger.warning("the endpoint %s does not answer: %s", host, type(error).__name__)
            message = f"the endpoint of {model.name} does not answer; try again"
            raise UnavailableError(message, PAUSE_SECONDS) from None
        if response.status_code != 200:
            logger.warning("the endpoint %s answers %s", host, response.status_code)
            raise refusal(response.status_code, response.headers.get("retry-after", ""), model.name)
        reply = None
        with suppress(ValueError):
            reply = response.json()
        return translation_of(reply, model.name)


def new_client(settings: Settings) -> "httpx2.AsyncClient":
    """Returns a client that keeps its connections open.

    Its connections have no common limit, which would let a slow endpoint delay the others.
    """
    import httpx2  # takes 0.2 s, and a server without remote models does not need it

    logging.getLogger("httpx2").setLevel(logging.WARNING)  # httpx2 logs each request
    key = settings.remote_key.get_secret_value()
    return httpx2.AsyncClient(
        headers={"User-Agent": "regard"} | ({"Authorization": f"Bearer {key}"} if key else {}),
        timeout=httpx2.Timeout(settings.request_timeout_seconds, connect=CONNECT_SECONDS),
        limits=httpx2.Limits(max_keepalive_connections=settings.remote_requests),
    )


def refusal(status: int, retry_after: str, name: str) -> ServiceError:
    seconds = int(retry_after[:9]) if retry_after.isdecimal() else PAUSE_SECONDS
    wait = min(seconds, MAX_PAUSE_SECONDS)
    if status == 429:
        message = f"the endpoint of {name} has too many requests; try again"
        return OverloadedError(message, wait, "requests")
    if status >= 500:
        return UnavailableError(f"the endpoint of {name} answers {status}; try again", wait)
    return InternalError(
        f"the endpoint of {name} answers {status}; check its address, its model and "
        "REGARD_REMOTE_KEY"
    )


def chat_request(text: str, model: RemoteFiles, hints: Hints = NO_HINTS) -> dict[str, Any]:
    prompt = model.prompt
    return {
        "model": model.model,
        **prompt.ask(text, model.source, model.target, hints),
        "temperature": 0,
        "max_tokens": SPARE_TOKENS + TOKENS_PER_CHAR * len(text),
        "stream": False,
        **prompt.fields,
    }


def translation_of(reply: Any, name: str) -> str:
    try:
        choice = reply["choices"][0]
        text, reason = choice["message"]["content"], choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        text, reason = None, None
    if isinstance(text, str):  # JSON may contain lone surrogates, and UTF-8 must not
        text = text.encode("utf-8", "replace").decode("utf-8")
    if not isinstance(text, str) or not (translation := THOUGHTS.sub("", text).strip()):
        raise InternalError(f"the endpoint of {name} sent no translation; see the endpoint's log")
    if reason == "length":
        raise InternalError(f"the endpoint of {name} cut a translation off; send shorter texts")
    return translation
