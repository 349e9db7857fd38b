"""POST /mcp: one message of the Model Context Protocol (MCP), in its transport streamable HTTP.

The server keeps no session: each message is answered alone, with JSON, by any HTTP process. The
package `mcp` speaks the protocol. Its import takes a second, so the first message imports it.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports.
"""

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from service.api.context import context_of
from service.api.dialect import Dialect
from service.api.errors import KEYS_401, responses_of, status_of
from service.api.request.body import media_type, parse_json, read_body
from service.api.request.parameters import JSON, described
from service.api.request.reading import read_permitted, unless_disconnected
from service.errors import KINDS, SHOWN_CHARS, InvalidRequestError, NotFoundError, ServiceError
from service.metrics.figures import MCP
from service.tasks.context import RequestContext
from service.tasks.parameters import example

INVALID_REQUEST, INTERNAL_ERROR = -32600, -32603
"""Codes of JSON-RPC 2.0, section 5.1."""

Serve = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]


class McpMessage(BaseModel):
    """A message of the protocol, in JSON-RPC 2.0: a request, a notification, or a reply.

    The error of a tool is a `result` with `isError`.
    """

    model_config = example(
        jsonrpc="2.0",
        id=1,
        method="tools/call",
        params={"name": "translate", "arguments": {"text": "The cat sat.", "target": "pt"}},
    )

    jsonrpc: Literal["2.0"]
    id: int | str | None = Field(None, description="Id of the request.")
    method: str | None = Field(None, description="Such as `initialize` or `tools/call`.")
    params: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = Field(None, description="`code`, `message` and `data`.")


def mcp_shape(error: ServiceError, context: RequestContext) -> tuple[int, dict[str, Any]]:
    status = status_of(error, KEYS_401)
    data = {"error_type": KINDS[type(error)].error_type, "request_id": context.request_id}
    code = INTERNAL_ERROR if status >= 500 else INVALID_REQUEST
    inside = {"code": code, "message": error.joined, "data": data}
    return status, {"jsonrpc": "2.0", "id": None, "error": inside}


router = APIRouter(
    tags=["agents"],
    responses=responses_of(McpMessage, 400, 401, 403, 404, 406, 413, 429, 500, 503, 504),
)


@router.post(
    "/mcp",
    responses={202: {"description": "The message was a notification."}},
    **described(McpMessage, McpMessage),
)
async def mcp(request: Request) -> Response:
    """Answers one message of the Model Context Protocol, such as the call of a tool."""
    context, body, message = context_of(request), b"", dict[str, Any]()
    sent: list[Message] = []

    async def read_arguments(request: Request, is_keyless: bool) -> dict[str, Any]:
        nonlocal body, message
        body = await read_body(request, is_keyless)
        message = parse_json(body)
        params = message.get("params")
        arguments = params.get("arguments") if isinstance(params, dict) else None
        return arguments if isinstance(arguments, dict) else {}

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async def send(message: Message) -> None:
        sent.append(message)

    if (given := media_type(context)) != JSON:
        raise InvalidRequestError(
            f"Content-Type {given[:SHOWN_CHARS]} is not supported; send {JSON}"
        )
    await read_permitted(request, read_arguments)
    check_message(message)
    serve = await asyncio.to_thread(find_protocol)
    await unless_disconnected(request, serve(request.scope, receive, send))
    start, *parts = sent
    if start["status"] >= 400:
        context.outcome = "invalid"
    response = Response(b"".join(part["body"] for part in parts), start["status"])
    response.raw_headers = start["headers"]
    return response


def check_message(message: dict[str, Any]) -> None:
    """Refuses a message that the package would refuse with a list of pydantic's faults."""
    params = message.get("params")
    is_call = isinstance(message.get("method"), str) and isinstance(params, dict | None)
    if message.get("jsonrpc") != "2.0" or not (is_call or message.keys() & {"result", "error"}):
        raise InvalidRequestError(
            'Invalid request: the body is not a message of JSON-RPC 2.0; send jsonrpc ("2.0"), id, '
            "method (a text) and params (an object)"
        )


def find_protocol() -> Serve:
    try:
        found: Serve = import_module("service.api.mcp.protocol").serve
    except ModuleNotFoundError as error:
        raise NotFoundError(
            f"this server has no MCP, because {error.name} is missing: install regard[mcp]"
        ) from None
    return found


DIALECT = Dialect(
    (router,),
    tasks={"/mcp": MCP},
    prefixes=("/mcp",),
    error_shape=mcp_shape,
    scope="",  # each tool has a scope of its own
)
