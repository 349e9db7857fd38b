"""The streams of POST /translate: each sentence is sent as soon as it is translated."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.context import HttpContext, context_of, services_of
from service.api.errors import own_shape
from service.api.libretranslate.schemas import TranslateRequest
from service.api.middleware import internal
from service.api.request.parameters import JSON
from service.api.request.reading import unless_disconnected
from service.api.responses import preferred
from service.errors import InvalidRequestError, ServiceError, outcome
from service.tasks.context import RequestContext
from service.tasks.translation.sentences import TranslatedText
from service.text.detection import Detection

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"

SECONDS_LEFT_TO_READ = 5.0
"""Seconds for which a client can still read events after the time limit of its request."""

DESCRIPTION: dict[str, Any] = {
    "description": "The translation. With `Accept: text/event-stream`, the response has an event "
    "for each sentence, and then the event `done` or `error`. With `Accept: application/x-ndjson`, "
    "the response has the data of each event as a line.",
    "content": {media_type: {"schema": {"type": "string"}} for media_type in (SSE, NDJSON)},
}
"""The description of the response in OpenAPI."""


def wanted_type(context: HttpContext) -> str | None:
    """Returns the media type of the stream that a request prefers; None if it prefers JSON."""
    accept = context.headers.get(b"accept", b"").decode("latin-1").lower()
    if SSE not in accept and NDJSON not in accept:
        return None
    found = preferred(accept, (SSE, NDJSON))
    return None if found == JSON else found


def check(body: TranslateRequest) -> None:
    asked = {
        "alternatives": body.alternatives,
        "return_scores": body.return_scores,
    }
    for name, value in asked.items():
        if value:
            raise InvalidRequestError(
                f"Invalid request: a stream has no {name}; leave {name} out, or send "
                f"Accept: {JSON}",
                param=name,
            )


async def respond(
    request: Request, media_type: str, sentences: AsyncGenerator[TranslatedText, None]
) -> Response:
    context = context_of(request)
    first = await unless_disconnected(request, _first(sentences))
    context.first_sentence_seconds = time.perf_counter() - context.started
    limit = services_of(request).settings.request_timeout_seconds
    deadline = context.deadline(limit) + SECONDS_LEFT_TO_READ
    return EventResponse(_events(first, sentences, context), media_type, deadline)


async def _first(sentences: AsyncGenerator[TranslatedText, None]) -> TranslatedText:
    return await anext(sentences)


Event = tuple[str, dict[str, Any]]  # the name of an event, and its data


async def _events(
    first: TranslatedText,
    sentences: AsyncGenerator[TranslatedText, None],
    context: RequestContext,
) -> AsyncGenerator[Event, None]:
    count = 1
    async with aclosing(sentences):
        yield "sentence", _body(first)
        try:
            async for sentence in sentences:
                yield "sentence", _body(sentence)
                count += 1
        except Exception as error:
            yield "error", _failed(error, context)
        else:
            yield "done", {"done": True, "sentences": count}


def _failed(error: Exception, context: RequestContext) -> dict[str, Any]:
    known = error if isinstance(error, ServiceError) else internal(error, context)
    context.outcome = outcome(known)
    return own_shape(known, context)[1]


def _body(sentence: TranslatedText) -> dict[str, Any]:
    body: dict[str, Any] = {
        "input": sentence.number,
        "sentence": sentence.index,
        "translatedText": sentence.text,
    }
    if sentence.index == 0 and sentence.detected:
        body["detectedLanguage"] = detection_body(sentence.detected)
    if sentence.index == 0 and len(sentence.route) > 1:
        body["models"] = [each.name for each in sentence.route]
    if sentence.alignments is not None:
        body["alignment"] = sentence.alignments
    if sentence.warnings:
        body["warnings"] = sentence.warnings
    return body


class EventResponse(Response):
    """A stream of events. It ends when the client disconnects, or at the deadline."""

    def __init__(
        self, events: AsyncGenerator[Event, None], media_type: str, deadline: float
    ) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(headers=headers, media_type=media_type)
        del self.headers["content-length"]
        self.events = events
        self.deadline = deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.events):
            try:
                async with asyncio.timeout(self.deadline - time.perf_counter()):
                    await unless_disconnected(Request(scope, receive), self._send_all(send))
            except TimeoutError:
                raise ClientDisconnect from None

    async def _send_all(self, send: Send) -> None:
        status, headers = self.status_code, self.raw_headers
        await send({"type": "http.response.start", "status": status, "headers": headers})
        async for name, data in self.events:
            body = self._encode(name, data)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _encode(self, name: str, data: dict[str, Any]) -> bytes:
        json = orjson.dumps(data)
        if self.media_type == NDJSON:
            return json + b"\n"
        return b"event: " + name.encode() + b"\ndata: " + json + b"\n\n"


def detection_body(detection: Detection) -> dict[str, Any]:
    body = {"confidence": detection.confidence, "language": detection.language}
    return body | ({"unserved": detection.unserved} if detection.unserved else {})
