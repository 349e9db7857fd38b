"""Streams of translated sentences: each one is sent as soon as it is translated."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api.context import HttpContext
from service.api.middleware import failure_of
from service.api.request.reading import unless_disconnected
from service.errors import outcome
from service.tasks.translation.sentences import TranslatedText

SSE = "text/event-stream"

SECONDS_LEFT_TO_READ = 5.0
"""Seconds for which a client can still read events after the time limit of its request."""


class StreamWriter(Protocol):
    """Writes the events of a stream in the format of a dialect."""

    def sentence(self, sentence: TranslatedText) -> bytes: ...

    def failed(self, error: dict[str, Any]) -> bytes:
        """Returns the last event of a stream that fails, with the dialect's body of the error."""

    def done(self) -> bytes: ...


async def respond(
    context: HttpContext,
    media_type: str,
    sentences: AsyncGenerator[TranslatedText, None],
    writer: StreamWriter,
) -> Response:
    """Returns the response once the first sentence is translated; an error before it is raised."""
    first = await anext(sentences)
    context.first_sentence_seconds = time.perf_counter() - context.started
    deadline = context.deadline + SECONDS_LEFT_TO_READ
    return EventResponse(_events(first, sentences, writer, context), media_type, deadline)


async def _events(
    first: TranslatedText,
    sentences: AsyncGenerator[TranslatedText, None],
    writer: StreamWriter,
    context: HttpContext,
) -> AsyncGenerator[bytes, None]:
    async with aclosing(sentences):
        yield writer.sentence(first)
        try:
            async for sentence in sentences:
                yield writer.sentence(sentence)
        except Exception as error:
            failure = failure_of(error, context)
            context.outcome = outcome(failure)
            yield writer.failed(context.dialect.error_shape(failure, context)[1])
        else:
            yield writer.done()


class EventResponse(StreamingResponse):
    """A stream of events. It ends when the client disconnects, or at the deadline."""

    def __init__(
        self, events: AsyncGenerator[bytes, None], media_type: str, deadline: float
    ) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type=media_type)
        self.events = events
        self.deadline = deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.events):
            try:
                async with asyncio.timeout(self.deadline - time.perf_counter()):
                    await unless_disconnected(Request(scope, receive), self.stream_response(send))
            except TimeoutError:
                raise ClientDisconnect from None
