"""The server of the Model Context Protocol. Only `routes.find_protocol` imports this module."""

import logging
from importlib.metadata import version
from typing import Any

import orjson
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from service.api.context import context_of
from service.api.mcp.tools import TOOLS, call
from service.api.middleware import failure_of
from service.errors import SHOWN_CHARS, outcome

INSTRUCTIONS = (
    "Machine translation, language detection, embeddings and reranking by models on this server. "
    "`languages` lists the languages that can be translated."
)

# The package logs faults with the values of messages. Error responses have all that is needed.
logging.getLogger("mcp").setLevel(logging.CRITICAL)

LISTED = [
    Tool(
        name=name,
        description=tool.description,
        input_schema=tool.arguments.model_json_schema(),
        output_schema=tool.result.model_json_schema(mode="serialization"),
        annotations=ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
    )
    for name, tool in TOOLS.items()
]
SCHEMAS = {tool.name: tool.input_schema for tool in LISTED}


async def list_tools(
    _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
) -> ListToolsResult:
    return ListToolsResult(tools=LISTED)


async def call_tool(
    asked: ServerRequestContext[Any], params: CallToolRequestParams
) -> CallToolResult:
    """Returns the result of a tool, or its error in the words of the server's other routes."""
    request: Any = asked.request  # of Starlette
    context, name = context_of(request), params.name
    if name not in TOOLS:
        context.outcome = "invalid"
        message = f"there is no tool {name[:SHOWN_CHARS]}; there are {', '.join(TOOLS)}"
        raise MCPError(code=INVALID_PARAMS, message=message)
    try:
        found = await call(context, TOOLS[name], params.arguments or {})
    except Exception as error:
        failure = failure_of(error, context)
        context.outcome = outcome(failure)
        text = failure.joined
        if failure.retry_after_seconds is not None:
            text += f" (try again in {failure.retry_after_seconds} s)"
        return CallToolResult(content=[TextContent(text=text)], is_error=True)
    fields = found.model_dump(exclude_none=True)
    text = orjson.dumps(fields).decode()  # for clients that do not read `structured_content`
    return CallToolResult(content=[TextContent(text=text)], structured_content=fields)


SERVER: Server[Any] = Server(
    "regard",
    version=version("regard"),
    title="Regard",
    instructions=INSTRUCTIONS,
    get_tool_input_schema=SCHEMAS.get,
    on_list_tools=list_tools,
    on_call_tool=call_tool,
)
SERVER.middleware.clear()  # spans of OpenTelemetry; `service.api.tracing` makes the server's own


async def serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers the message in the body of a request, which must be within the server's limits."""
    # A manager of its own for each message: no task and no state outlive the request.
    max_bytes = context_of(Request(scope)).services.settings.max_body_bytes
    manager = StreamableHTTPSessionManager(
        SERVER, json_response=True, stateless=True, max_request_body_size=max_bytes
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)
