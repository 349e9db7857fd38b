"""POST /attention, /attention/steps and /attention/knockout, Regard's own dialect."""

from fastapi import APIRouter
from starlette.responses import Response

from service.api import error_texts
from service.api.attention.bodies import (
    MEDIA_TYPES,
    bertviz_reply,
    choose_format,
    npz_bytes,
    safetensors_bytes,
)
from service.api.context import HttpContext
from service.api.dialect import Dialect
from service.api.errors import ERRORS, MISSING
from service.api.request.handlers import route
from service.api.responses import body_response
from service.errors import RequestTooLargeError
from service.tasks.attention.replies import (
    AttentionResponse,
    BertvizResponse,
    KnockoutResponse,
    StepsResponse,
)
from service.tasks.attention.requests import AttentionRequest, KnockoutBody, StepsRequest
from service.tasks.knockouts import compare
from service.tasks.threads import run_sized

router = APIRouter(tags=["attention"], responses={**ERRORS, **MISSING})

BINARY = {"schema": {"type": "string", "format": "binary"}}


@route(
    router.post,
    "/attention",
    AttentionResponse | BertvizResponse,
    responses={200: {"content": {MEDIA_TYPES[name]: BINARY for name in ("npz", "safetensors")}}},
)
async def attention(context: HttpContext, body: AttentionRequest) -> Response:
    """Returns attention weights between texts and their translations, or inside texts."""
    services = context.services
    context.num_inputs, limit = len(body.inputs), services.settings.max_inputs
    if context.num_inputs > limit:
        raise error_texts.too_many_texts(context.num_inputs, limit, RequestTooLargeError)
    chosen = choose_format(body.format, context.headers.get(b"accept", b"").decode("latin-1"))
    reply = await services.inspector.inspect(body, context)
    with context.stage("serialize"):
        if chosen in ("npz", "safetensors"):
            write = npz_bytes if chosen == "npz" else safetensors_bytes
            content = await run_sized(reply.usage.attention_values, context.deadline, write, reply)
            return Response(content, media_type=MEDIA_TYPES[chosen])
        return body_response(bertviz_reply(reply.items) if chosen == "bertviz" else reply)


@route(router.post, "/attention/steps", StepsResponse)
async def steps(context: HttpContext, body: StepsRequest) -> Response:
    """Returns the attention of one token in one head, computed step by step."""
    context.num_inputs = 1
    found = await context.services.inspector.trace(body, context)
    with context.stage("serialize"):
        return body_response(found)


@route(router.post, "/attention/knockout", KnockoutResponse)
async def knockout(context: HttpContext, body: KnockoutBody) -> Response:
    """Returns how a translation changes without some heads, pairs of tokens or source words."""
    context.num_inputs = 1
    count, limit = len(body.knockouts), context.services.settings.max_inputs
    if count > limit:
        raise RequestTooLargeError(
            f"Invalid request: {count} knockouts exceed the limit of {limit}: send them in "
            "several requests, or raise REGARD_MAX_INPUTS"
        )
    found = await compare(context.services.inspector, body, context)
    with context.stage("serialize"):
        return body_response(found)


DIALECT = Dialect(
    (router,),
    tasks=dict.fromkeys(("/attention", "/attention/steps", "/attention/knockout"), "attention"),
    scope="attention",
)
