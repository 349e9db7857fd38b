"""The streams of POST /translate, as server-sent events or as lines of JSON."""

from typing import Any

import orjson

from service.api.context import HttpContext
from service.api.libretranslate.schemas import TranslateRequest
from service.api.request.parameters import JSON
from service.api.responses import preferred
from service.api.streams import SSE
from service.errors import InvalidRequestError
from service.tasks.translation.sentences import TranslatedText
from service.text.detection import Detection

NDJSON = "application/x-ndjson"

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
    asked = {"alternatives": body.alternatives, "return_scores": body.return_scores}
    for name, value in asked.items():
        if value:
            raise InvalidRequestError(
                f"Invalid request: a stream has no {name}; leave {name} out, or send "
                f"Accept: {JSON}",
                param=name,
            )


class EventWriter:
    """Writes each event with its name, or, as a line of JSON, without it."""

    def __init__(self, media_type: str) -> None:
        self.is_lines = media_type == NDJSON
        self.count = 0

    def sentence(self, sentence: TranslatedText) -> bytes:
        self.count += 1
        return self._event("sentence", _body(sentence))

    def failed(self, error: dict[str, Any]) -> bytes:
        return self._event("error", error)

    def done(self) -> bytes:
        return self._event("done", {"done": True, "sentences": self.count})

    def _event(self, name: str, data: dict[str, Any]) -> bytes:
        json = orjson.dumps(data)
        if self.is_lines:
            return json + b"\n"
        return b"event: " + name.encode() + b"\ndata: " + json + b"\n\n"


def _body(sentence: TranslatedText) -> dict[str, Any]:
    body: dict[str, Any] = {
        "input": sentence.number,
        "sentence": sentence.index,
        "translatedText": sentence.text,
    }
    if sentence.index == 0 and sentence.detected:
        body["detectedLanguage"] = detection_body(sentence.detected)
    if (sentence.index == 0 and len(sentence.route) > 1) or sentence.substitutes:
        body["models"] = sentence.models
    if sentence.alignments is not None:
        body["alignment"] = sentence.alignments
    if sentence.warnings:
        body["warnings"] = sentence.warnings
    return body


def detection_body(detection: Detection) -> dict[str, Any]:
    body = {"confidence": detection.confidence, "language": detection.language}
    return body | ({"unserved": detection.unserved} if detection.unserved else {})
