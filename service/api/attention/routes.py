"""POST /attention, /attention/steps and /attention/knockout, Regard's own dialect."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.attention.bodies import (
    MEDIA_TYPES,
    bertviz_reply,
    choose_format,
    npz_bytes,
    safetensors_bytes,
)
from service.api.context import context_of, services_of
from service.api.dialect import Dialect
from service.api.errors import ERRORS, MISSING
from service.api.request.body import check_number
from service.api.request.parameters import described
from service.api.request.reading import read_parameters, unless_disconnected
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


@router.post(
    "/attention",
    responses={200: {"content": {MEDIA_TYPES[name]: BINARY for name in ("npz", "safetensors")}}},
    **described(AttentionRequest, AttentionResponse | BertvizResponse),
)
async def attention(request: Request) -> Response:
    """Returns attention weights between texts and their translations, or inside texts."""
    services, context = services_of(request), context_of(request)
    body = await read_parameters(request, AttentionRequest)
    context.num_inputs = len(body.inputs)
    check_number(body.inputs, services.settings.max_inputs)
    chosen = choose_format(body.format, request.headers.get("accept", ""))
    reply = await unless_disconnected(request, services.inspector.inspect(body, context))
    with context.stage("serialize"):
        if chosen in ("npz", "safetensors"):
            write = npz_bytes if chosen == "npz" else safetensors_bytes
            content = await run_sized(reply.usage.attention_values, context.deadline, write, reply)
            return Response(content, media_type=MEDIA_TYPES[chosen])
        return body_response(bertviz_reply(reply.items) if chosen == "bertviz" else reply)


@router.post("/attention/steps", **described(StepsRequest, StepsResponse))
async def steps(request: Request) -> Response:
    """Returns the attention of one token in one head, computed step by step."""
    services, context = services_of(request), context_of(request)
    body = await read_parameters(request, StepsRequest)
    context.num_inputs = 1
    found = await unless_disconnected(request, services.inspector.trace(body, context))
    with context.stage("serialize"):
        return body_response(found)


@router.post("/attention/knockout", **described(KnockoutBody, KnockoutResponse))
async def knockout(request: Request) -> Response:
    """Returns how a translation changes without some heads, pairs of tokens or source words."""
    services, context = services_of(request), context_of(request)
    body = await read_parameters(request, KnockoutBody)
    context.num_inputs = 1
    count, limit = len(body.knockouts), services.settings.max_inputs
    if count > limit:
        raise RequestTooLargeError(
            f"Invalid request: {count} knockouts exceed the limit of {limit}: send them in "
            "several requests, or raise REGARD_MAX_INPUTS"
        )
    found = await unless_disconnected(request, compare(services.inspector, body, context))
    with context.stage("serialize"):
        return body_response(found)


DIALECT = Dialect(
    (router,),
    tasks=dict.fromkeys(("/attention", "/attention/steps", "/attention/knockout"), "attention"),
    scope="attention",
)
