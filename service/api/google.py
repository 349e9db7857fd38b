"""The routes of Google Translate, version 2: /language/translate/v2 and the paths below it.

Google's clients read `data` of a reply, and `error.message` of an error. Parameters are in the
query, in a form or in JSON; the JSON of some clients has no key, so the query is read too.

Source: https://cloud.google.com/translate/docs/reference/rest/v2/translate; the texts of errors
with a key: https://cloud.google.com/apis/design/errors.
"""

from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.context import HttpContext, context_of
from service.api.dialect import Dialect
from service.api.errors import responses_of, status_of
from service.api.request.body import read_fields, read_query
from service.api.request.handlers import route
from service.api.request.parameters import FORM, JSON
from service.api.request.translation import as_texts, detected, translate_each, translation_request
from service.api.responses import JSONResponse
from service.errors import InvalidKeyError, MissingKeyError, ServiceError
from service.tasks.context import RequestContext
from service.tasks.parameters import Parameters, Texts, example
from service.tasks.threads import run_sized
from service.text.detection import Detection
from service.text.html_text import pieces
from service.text.language_codes import display_name
from service.text.markup import Kind

T = TypeVar("T")

PATH = "/language/translate/v2"

KINDS = {
    401: ("required", "UNAUTHENTICATED"),
    403: ("forbidden", "PERMISSION_DENIED"),
    404: ("notFound", "NOT_FOUND"),
    429: ("rateLimitExceeded", "RESOURCE_EXHAUSTED"),
    500: ("backendError", "INTERNAL"),
    503: ("backendError", "UNAVAILABLE"),
    504: ("backendError", "DEADLINE_EXCEEDED"),
}
"""The members `reason` and `status` of an error by its HTTP status."""

STATUSES: dict[type[ServiceError], int] = {MissingKeyError: 403, InvalidKeyError: 400}
"""Statuses that Google's clients expect in place of the statuses in `service.errors.KINDS`."""

MESSAGES: dict[type[ServiceError], str] = {
    MissingKeyError: "The request is missing a valid API key.",
    InvalidKeyError: "API key not valid. Please pass a valid API key.",
}
"""Google's texts, which clients compare."""


class GoogleFault(BaseModel):
    """One entry of the list of errors, which has exactly one."""

    message: str
    domain: str = Field(description="Always `global`.")
    reason: str = Field(description="The kind of error, such as `invalid`.")


class GoogleError(BaseModel):
    code: int = Field(description="The HTTP status.")
    message: str = Field(description="The fault, with the value, the limit and the remedy.")
    errors: list[GoogleFault]
    status: str = Field(description="The name of the status, such as `INVALID_ARGUMENT`.")


class GoogleErrorBody(BaseModel):
    error: GoogleError


def google_shape(error: ServiceError, _context: RequestContext) -> tuple[int, dict[str, Any]]:
    code = status_of(error, STATUSES)
    reason, status = KINDS.get(code, ("invalid", "INVALID_ARGUMENT"))
    message = MESSAGES.get(type(error), error.joined)
    fault = {"message": message, "domain": "global", "reason": reason}
    return code, {"error": {"code": code, "message": message, "errors": [fault], "status": status}}


class GoogleDetectRequest(Parameters):
    model_config = example(q=["The cat sat on the mat."])

    q: Texts = Field(description="Text, or list of texts; in a query or form, `q` may be repeated.")
    key: Any = Field(None, description="Key, if the server has keys and no header has one.")


class GoogleTranslateRequest(GoogleDetectRequest):
    model_config = example(q=["The cat sat on the mat."], target="pt", format="text")

    target: str = Field(description="Language code.")
    source: str | None = Field(
        None, description="Language code. If absent, the language of each text is detected."
    )
    format: Literal["html", "text"] = Field(
        "html", description="In `html`, tags are kept, and quotes come back as entities."
    )
    model: str | None = Field(
        None, description="Accepted without effect; the response repeats the value."
    )


class GoogleData(BaseModel, Generic[T]):
    data: T


class GoogleTranslation(BaseModel):
    translatedText: str
    detectedSourceLanguage: str | None = Field(None, description="Present if `source` was absent.")
    model: str | None = Field(None, description="Present if `model` was given.")


class GoogleTranslations(BaseModel):
    translations: list[GoogleTranslation]


class GoogleDetection(BaseModel):
    language: str = Field(description="Language code; `und` if no language is detected.")
    isReliable: bool = Field(description="Whether `confidence` is above 0.5.")
    confidence: float = Field(description="Confidence from 0 to 1.")


class GoogleDetections(BaseModel):
    detections: list[list[GoogleDetection]]


class GoogleLanguage(BaseModel):
    language: str
    name: str | None = Field(None, description="Present if `target` was given.")


class GoogleLanguages(BaseModel):
    languages: list[GoogleLanguage]


errors = responses_of(GoogleErrorBody, 400, 403, 413, 429, 500, 503, 504)
router = APIRouter(tags=["google"], responses=errors)


async def read_all(request: Request, is_keyless: bool) -> dict[str, Any]:
    return {**read_query(request), **await read_fields(request, is_keyless)}


TRANSLATE = PATH, GoogleData[GoogleTranslations]


@route(router.get, *TRANSLATE, read=read_all, operation_id="google_translate_get")
@route(router.post, *TRANSLATE, JSON, FORM, read=read_all, operation_id="google_translate_post")
async def translate(context: HttpContext, body: GoogleTranslateRequest) -> Any:
    """Translates a text or a list of texts, in Google's shape."""
    with context.stage("validate"):
        languages = ("source", body.source), ("target", body.target)
        wanted = translation_request(context, ("q", body.q), *languages, body.format)
    (results,) = await translate_each(context, wanted)
    texts = [result.text for result in results]
    if wanted.is_html:
        texts = await run_sized(sum(map(len, texts)), context.deadline, _with_quotes, texts)
    translations = []
    for result, text in zip(results, texts, strict=True):
        item = {"translatedText": text}
        if result.detected:
            item["detectedSourceLanguage"] = result.detected.language
        if body.model:
            item["model"] = body.model
        translations.append(item)
    return {"data": {"translations": translations}}


def _with_quotes(texts: Sequence[str]) -> list[str]:
    """Writes the quotes between the tags of HTML as entities, as Google does."""
    return [
        "".join(
            piece.source.replace('"', "&quot;").replace("'", "&#39;")
            if piece.kind is Kind.TEXT
            else piece.source
            for piece in pieces(text)
        )
        for text in texts
    ]


DETECT = f"{PATH}/detect", GoogleData[GoogleDetections]


@route(router.get, *DETECT, read=read_all, operation_id="google_detect_get")
@route(router.post, *DETECT, JSON, FORM, read=read_all, operation_id="google_detect_post")
async def detect(context: HttpContext, body: GoogleDetectRequest) -> Any:
    """Detects the language of each text, in Google's shape."""
    texts = as_texts(context, "q", body.q)
    found = await detected(context, texts)
    return {"data": {"detections": [[_detection(best)] for best, *_ in found]}}


def _detection(found: Detection) -> dict[str, Any]:
    language = found.unserved or (found.language if found.confidence else "und")
    confidence = round(found.confidence / 100, 3)
    return {"language": language, "isReliable": confidence > 0.5, "confidence": confidence}


@router.get(
    f"{PATH}/languages",
    response_model=GoogleData[GoogleLanguages],
    responses=responses_of(GoogleErrorBody, "4XX"),
)
async def languages(request: Request, target: str | None = None) -> Response:
    """Lists the languages; with `target`, their names in this language. It needs no key."""
    listed = [
        {"language": code, **({"name": display_name(code, target)} if target else {})}
        for code in context_of(request).services.catalog.languages
    ]
    return JSONResponse({"data": {"languages": listed}})


DIALECT = Dialect(
    (router,),
    tasks={PATH: "translate", f"{PATH}/detect": "detect"},
    prefixes=("/language/translate/",),
    error_shape=google_shape,
)
