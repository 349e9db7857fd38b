"""POST /attention and POST /attention/steps."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.attention.formats import (
    MEDIA_TYPES,
    Format,
    bertviz_body,
    choose_format,
    json_body,
    npz_bytes,
    safetensors_bytes,
)
from service.api.attention.response_schemas import AttentionResponse, BertvizResponse, StepsResponse
from service.api.attention.schemas import AttentionRequest, StepsRequest
from service.api.attention.steps import steps_body
from service.api.disconnect import unless_disconnected
from service.api.json_chunks import json_chunks, json_response
from service.api.parameters import check_number, json_body_of, read_parameters
from service.api.responses import ERRORS, MISSING
from service.api.services import ContextDep, ServicesDep
from service.tasks.attention.results import Inspection
from service.tasks.translation import run_sized

router = APIRouter(tags=["attention"])


BINARY = {"schema": {"type": "string", "format": "binary"}}


@router.post(
    "/attention",
    response_model=AttentionResponse | BertvizResponse,
    responses={
        **ERRORS,
        **MISSING,
        200: {"content": {MEDIA_TYPES[name]: BINARY for name in ("npz", "safetensors")}},
    },
    openapi_extra=json_body_of(AttentionRequest),
)
async def attention(request: Request, services: ServicesDep, context: ContextDep) -> Response:
    """Attention weights between the tokens of texts and their translations."""
    with context.stage("validate"):
        wanted = await read_parameters(request, AttentionRequest, services.settings.max_body_bytes)
        texts = [wanted.text] if isinstance(wanted.text, str) else wanted.text
        context.num_inputs = len(texts)
        check_number(texts, services.settings.max_inputs)
    chosen = choose_format(wanted.format, request.headers.get("accept", ""))
    inspector = services.text_inspector if wanted.task == "embed" else services.inspector
    inspection = await unless_disconnected(request, inspector.inspect(wanted, context))
    with context.stage("serialize"):
        return await written(inspection, chosen, wanted.decimals)


async def written(inspection: Inspection, chosen: Format, decimals: int | None) -> Response:
    """The reply in the format that was chosen."""
    items = inspection.items
    body = json_body(inspection.model, items, decimals)
    if chosen in ("npz", "safetensors"):
        write = npz_bytes if chosen == "npz" else safetensors_bytes
        size = body["usage"]["attention_values"]
        content = await run_sized(size, write, body, items)
        return Response(content, media_type=MEDIA_TYPES[chosen])
    return json_response(json_chunks(bertviz_body(items) if chosen == "bertviz" else body))


@router.post(
    "/attention/steps",
    response_model=StepsResponse,
    responses={**ERRORS, **MISSING},
    openapi_extra=json_body_of(StepsRequest),
)
async def steps(request: Request, services: ServicesDep, context: ContextDep) -> Response:
    """The attention of one token in one head, computed step by step."""
    with context.stage("validate"):
        wanted = await read_parameters(request, StepsRequest, services.settings.max_body_bytes)
        context.num_inputs = 1
    inspector = services.text_inspector if wanted.task == "embed" else services.inspector
    found = await unless_disconnected(request, inspector.step_through(wanted, context))
    with context.stage("serialize"):
        return json_response(json_chunks(steps_body(found, wanted.include)))
