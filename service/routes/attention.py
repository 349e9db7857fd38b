"""POST /attention and POST /attention/steps."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.attention_formats import (
    MEDIA_TYPES,
    Format,
    bertviz_body,
    choose_format,
    json_body,
    npz_bytes,
    safetensors_bytes,
)
from service.attention_schemas import (
    AttentionRequest,
    AttentionResponse,
    BertvizResponse,
    StepsRequest,
    StepsResponse,
)
from service.chunks import json_chunks, json_response
from service.dependencies import ContextDep, ServicesDep
from service.disconnect import ClientDisconnectedError, unless_disconnected
from service.inference import run_sized
from service.inspector import Inspection
from service.middleware import CLIENT_GONE
from service.parameters import JSON, read_parameters
from service.replies import ERRORS
from service.routes.translate import check_number
from service.schemas import ErrorBody
from service.steps_reply import steps_body

router = APIRouter(tags=["attention"])


def body_of(model: type[AttentionRequest | StepsRequest]) -> dict[str, Any]:
    """How a route that reads its own body tells OpenAPI of it."""
    schema = {"schema": model.model_json_schema()}
    return {"requestBody": {"required": True, "content": {JSON: schema}}}


MISSING: dict[int | str, dict[str, Any]] = {404: {"model": ErrorBody}}
"""There is no such model."""

BINARY = {"schema": {"type": "string", "format": "binary"}}


@router.post(
    "/attention",
    response_model=AttentionResponse | BertvizResponse,
    responses={
        **ERRORS,
        **MISSING,
        200: {"content": {MEDIA_TYPES[name]: BINARY for name in ("npz", "safetensors")}},
    },
    openapi_extra=body_of(AttentionRequest),
)
async def attention(request: Request, services: ServicesDep, context: ContextDep) -> Response:
    """Attention weights between the tokens of texts and their translations."""
    with context.stage("validate"):
        wanted = await read_parameters(request, AttentionRequest, services.settings.max_body_bytes)
        texts = [wanted.text] if isinstance(wanted.text, str) else wanted.text
        check_number(texts, services.settings)
    chosen = choose_format(wanted.format, request.headers.get("accept", ""))
    try:
        inspection = await unless_disconnected(request, services.inspector.inspect(wanted, context))
    except ClientDisconnectedError:
        context.outcome = "cancelled"
        return Response(status_code=CLIENT_GONE)
    with context.stage("serialize"):
        return await written(inspection, chosen, wanted.decimals)


async def written(inspection: Inspection, chosen: Format, decimals: int | None) -> Response:
    """The reply in the format that was chosen."""
    items = inspection.items
    media_type = MEDIA_TYPES[chosen]
    body = json_body(inspection.model, items, decimals)
    size = body["usage"]["attention_values"]
    if chosen in ("npz", "safetensors"):
        write = npz_bytes if chosen == "npz" else safetensors_bytes
        return Response(await run_sized(size, write, body, items), media_type=media_type)
    chunks = json_chunks(bertviz_body(items) if chosen == "bertviz" else body)
    return json_response(chunks, size)


@router.post(
    "/attention/steps",
    response_model=StepsResponse,
    responses={**ERRORS, **MISSING},
    openapi_extra=body_of(StepsRequest),
)
async def steps(request: Request, services: ServicesDep, context: ContextDep) -> Response:
    """The attention of one token in one head, computed step by step."""
    with context.stage("validate"):
        wanted = await read_parameters(request, StepsRequest, services.settings.max_body_bytes)
    try:
        found = await unless_disconnected(request, services.inspector.step_through(wanted, context))
    except ClientDisconnectedError:
        context.outcome = "cancelled"
        return Response(status_code=CLIENT_GONE)
    with context.stage("serialize"):
        chunks = json_chunks(steps_body(found, wanted.include))
        return Response(b"".join(chunks), media_type=JSON)
