"""The routes of Azure Translator, version 3, at the paths of Azure's custom domains.

Azure's other addresses have short paths, such as `/translate`, which LibreTranslate has too. There,
requests with `api-version` in the query are Azure's.

Source of the codes of errors: https://learn.microsoft.com/azure/ai-services/translator/
text-translation/reference/status-response-codes.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api import error_texts
from service.api.azure.schemas import (
    AzureBreakRequest,
    AzureDetection,
    AzureLanguages,
    AzureRequest,
    AzureSentences,
    AzureTranslateRequest,
    AzureTranslations,
)
from service.api.context import HttpContext, context_of
from service.api.dialect import Dialect
from service.api.errors import KEYS_401, responses_of, status_of
from service.api.keys import given_key
from service.api.request.body import parse_json, read_body, read_query
from service.api.request.handlers import route
from service.api.request.parameters import AcceptLanguage
from service.api.request.reading import read_permitted
from service.api.request.translation import as_texts, detected, translate_each, translation_request
from service.api.responses import JSONResponse
from service.errors import (
    SHOWN_CHARS,
    InvalidRequestError,
    QuotaExceededError,
    RequestTooLargeError,
    ServiceError,
)
from service.models.catalog import Catalog
from service.models.served import NotLoadedError
from service.tasks.context import RequestContext
from service.tasks.parameters import example
from service.tasks.threads import run_sized
from service.tasks.translation.sentences import TranslatedText
from service.tasks.translation.translator import TranslationRequest
from service.text.characters import cleaned, origins
from service.text.detection import Detection
from service.text.language_codes import display_name, text_direction
from service.text.segmentation import split_sentences

BASE = "/translator/text/v3.0"

SHORT = (
    "/translate",
    "/detect",
    "/breaksentence",
    "/languages",
    "/transliterate",
    "/dictionary/lookup",
    "/dictionary/examples",
)
"""Short paths of Azure's routes. The last three are not served; their 404 has Azure's shape."""

SCOPES = ("translation", "transliteration", "dictionary")

TYPES: dict[type[ServiceError], int] = {QuotaExceededError: 403001, RequestTooLargeError: 400077}
"""Codes of errors that have one of their own, whatever parameter is at fault."""

PARAMETERS = {
    "scope": 400001,
    "language": 400003,
    "toScript": 400004,
    "body": 400005,
    "fromScript": 400018,
    "api-version": 400021,
    "from": 400035,
    "to": 400036,
    "textType": 400071,
}
"""Codes of errors with status 400 by the parameter at fault."""


class AzureError(BaseModel):
    code: int = Field(
        description="Azure's code of the fault. Without a code of its own, it is the status and "
        "three zeros."
    )
    message: str = Field(description="The fault, with the value, the limit and the remedy.")


class AzureErrorBody(BaseModel):
    """The body of errors of Azure's routes. The id of the request is in X-RequestId."""

    model_config = example(
        error={"code": 400036, "message": "zz is not supported; supported: en, pt"}
    )

    error: AzureError


def azure_shape(error: ServiceError, _context: RequestContext) -> tuple[int, dict[str, Any]]:
    status = status_of(error, KEYS_401)
    code = TYPES.get(type(error), status * 1000)
    if status == 400 and error.param in PARAMETERS:
        code = PARAMETERS[error.param]
    return status, {"error": {"code": code, "message": error.joined}}


errors = responses_of(AzureErrorBody, 400, 401, 403, 413, 429, 500, 503, 504)
router = APIRouter(tags=["azure"], responses=errors)


async def read_list(request: Request, is_keyless: bool) -> dict[str, Any]:
    body = parse_json(await read_body(request, is_keyless), is_object=False)
    return {**read_query(request), "body": body}


@route(router.post, f"{BASE}/translate", list[AzureTranslations], read=read_list)
async def translate(context: HttpContext, body: AzureTranslateRequest) -> Any:
    """Translates texts to one language or several, in Azure's shape.

    Texts count once for each language, towards all limits.
    """
    with context.stage("validate"):
        requests = resolve(body, context)
    found = await translate_each(context, *requests.values())
    results = dict(zip(requests, found, strict=True))
    columns = [(code, results[context.services.catalog.language(code)]) for code in body.to]
    num_chars = sum(map(len, body.texts)) * len(body.to)
    return await run_sized(num_chars, context.deadline, response_body, body, columns)


def resolve(body: AzureTranslateRequest, context: HttpContext) -> dict[str, TranslationRequest]:
    """Returns one request for each served language that the codes in `to` mean."""
    settings, number = context.services.settings, len(body.texts) * len(body.to)
    as_texts(context, "body", body.texts)
    if number > settings.max_inputs:
        raise error_texts.too_many_texts(number, settings.max_inputs, name="to")
    num_chars = sum(map(len, body.texts)) * len(body.to)
    if num_chars > settings.max_body_bytes:
        raise RequestTooLargeError(
            f"the texts have {num_chars} characters in {len(body.to)} languages; the limit is "
            f"{settings.max_body_bytes}. Send fewer languages, or raise REGARD_MAX_BODY_BYTES"
        )
    requests = {}
    for code in body.to:
        pair = ("from", body.source), ("to", code)
        wanted = translation_request(context, ("body", body.texts), *pair, body.textType)
        wanted.is_aligned = body.includeAlignment and can_align(context.services.catalog, wanted)
        requests[wanted.target] = wanted
    context.num_inputs = number
    return requests


def can_align(catalog: Catalog, wanted: TranslationRequest) -> bool:
    """Returns whether one model with attention translates plain texts to the target.

    If the source is to be detected, such a model must exist for each language that may be found.
    """
    sources = [wanted.source] if wanted.source else catalog.sources(wanted.target)
    return not wanted.is_html and all(has_attention(catalog, s, wanted.target) for s in sources)


def has_attention(catalog: Catalog, source: str, target: str) -> bool:
    try:
        route = catalog.route(source, target)
    except NotLoadedError as missing:
        return len(missing.names) == 1
    return not route or (len(route) == 1 and route[0].has_attention)


def response_body(
    body: AzureTranslateRequest, columns: Sequence[tuple[str, Sequence[TranslatedText]]]
) -> list[dict[str, Any]]:
    rows = []
    for number, text in enumerate(body.texts):
        row: dict[str, Any] = {}
        if found := columns[0][1][number].detected:
            row["detectedLanguage"] = detected_body(found)
        row["translations"] = [
            translation(body, text, code, each[number]) for code, each in columns
        ]
        rows.append(row)
    return rows


def translation(
    body: AzureTranslateRequest, text: str, code: str, result: TranslatedText
) -> dict[str, Any]:
    item: dict[str, Any] = {"text": result.text, "to": code}
    if body.includeAlignment:
        item["alignment"] = {"proj": projection(text, result)}
    if body.includeSentenceLength:
        source, target = sentence_lengths(text, result)
        item["sentLen"] = {"srcSentLen": source, "transSentLen": target}
    return item


def detected_body(found: Detection) -> dict[str, Any]:
    return {"language": found.language, "score": round(found.confidence / 100, 3)}


@route(router.post, f"{BASE}/detect", list[AzureDetection], read=read_list)
async def detect(context: HttpContext, body: AzureRequest) -> Any:
    """Returns the most probable language of each text, and up to two others, in Azure's shape."""
    texts = as_texts(context, "body", body.texts)
    return list(map(detection_body, await detected(context, texts)))


def detection_body(found: Sequence[Detection]) -> dict[str, Any]:
    """Returns the languages of a text; one that the server does not translate comes first."""
    candidates = [
        {**detected_body(each), "isTranslationSupported": True, "isTransliterationSupported": False}
        for each in found
    ]
    if unserved := found[0].unserved:
        first = {**candidates[0], "language": unserved, "isTranslationSupported": False}
        candidates = [first, *candidates[:2]]
    return {**candidates[0], "alternatives": candidates[1:]}


@route(router.post, f"{BASE}/breaksentence", list[AzureSentences], read=read_list)
async def break_sentence(context: HttpContext, body: AzureBreakRequest) -> Any:
    """Returns the lengths of the sentences of each text, in Azure's shape."""
    texts = as_texts(context, "body", body.texts)
    rows: list[dict[str, Any]] = [{} for _ in texts]
    codes = [body.language or ""] * len(texts)
    if not body.language:
        found = await detected(context, texts)
        codes = [best.language for best, *_ in found]
        rows = [{"detectedLanguage": detected_body(best)} for best, *_ in found]
    size = sum(map(len, texts))
    lengths = await run_sized(size, context.deadline, list, map(broken, texts, codes))
    return [{"sentLen": each, **row} for each, row in zip(lengths, rows, strict=True)]


@router.get(
    f"{BASE}/languages",
    response_model=AzureLanguages,
    responses=responses_of(AzureErrorBody, "4XX"),
)
async def languages(
    request: Request, scope: str | None = None, accept_language: AcceptLanguage = None
) -> Response:
    """Lists the languages in Azure's shape. It needs no key."""
    wanted = [each.strip() for each in scope.split(",")] if scope else SCOPES
    if unknown := next((each for each in wanted if each not in SCOPES), None):
        raise InvalidRequestError(
            f"{unknown[:SHOWN_CHARS]} is no scope; use {', '.join(SCOPES)}", param="scope"
        )
    body: dict[str, dict[str, Any]] = {each: {} for each in wanted}
    if "translation" in body:
        body["translation"] = {
            code: {
                "name": display_name(code, accept_language),
                "nativeName": display_name(code, code),
                "dir": text_direction(code),
            }
            for code in context_of(request).services.catalog.languages
        }
    return JSONResponse(body)


@router.post("/sts/v1.0/issueToken", response_class=Response)
async def issue_token(request: Request) -> Response:
    """Returns the key of the request, which clients then send as `Authorization: Bearer`."""
    fields = await read_permitted(request)
    token = given_key(context_of(request).headers, fields) or "none"
    return Response(token, media_type="text/plain")


DIALECT = Dialect(
    (router,),
    tasks={
        f"{BASE}/translate": "translate",
        f"{BASE}/detect": "detect",
        f"{BASE}/breaksentence": "detect",
    },
    prefixes=("/translator/", "/sts/"),
    error_shape=azure_shape,
    id_header="X-RequestId",
    versioned={path: BASE + path for path in SHORT},
)


def units(text: str) -> Sequence[int]:
    """Returns the position of each code point, and the length of the text, in UTF-16 code units."""
    if not text or max(text) <= "\uffff":
        return range(len(text) + 1)
    return list(accumulate((1 + (char > "\uffff") for char in text), initial=0))


def projection(text: str, result: TranslatedText) -> str:
    """Returns the pairs of aligned words in Azure's format; the last places are inclusive."""
    source, target = units(text), units(result.text)
    spans = [
        (each.source_words[s], each.target_words[t])
        for each in result.alignments or ()
        for s, t, _ in each.pairs
    ]
    return " ".join(
        f"{source[a]}:{source[b] - 1}-{target[c]}:{target[d] - 1}"
        for (a, b), (c, d) in sorted(spans)
    )


def sentence_lengths(text: str, result: TranslatedText) -> tuple[list[int], list[int]]:
    """Returns the lengths of the sentences of a text, and of their translations.

    A text with tags, or an ICU message, counts as one sentence.
    """
    plain, parts = cleaned(text), result.parts()
    ends = [*accumulate(part.source_length() for part in parts)]
    if len(parts) == 1 or ends[-1] != len(plain):
        return [units(text)[-1]], [units(result.text)[-1]]
    if plain != text:
        places = [end for _, end in origins(text)]
        ends = [*(places[end - 1] for end in ends[:-1]), len(text)]
    for part in parts:
        part.assemble()
    translated = [*accumulate(len(part.text) for part in parts)]
    return lengths(text, ends), lengths(result.text, translated)


def broken(text: str, language: str) -> list[int]:
    segments = split_sentences(text, language)
    starts = segments.starts(segments.sentences)
    return lengths(text, [*starts[1:], len(text)])


def lengths(text: str, ends: Sequence[int]) -> list[int]:
    places = units(text)
    return [places[end] - places[start] for start, end in pairwise([0, *ends])]
