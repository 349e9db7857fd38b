"""The command `regard mcp`: passes the messages of an agent to the route /mcp of a server."""

import asyncio
import os
from importlib.metadata import version
from threading import Thread
from typing import Any

import typer

from service.files.client import ServerError
from service.files.session import ApiKey, Models, Url, errors_shown, reached

app = typer.Typer()


@app.command()
def mcp(url: Url = None, models: Models = None, api_key: ApiKey = "") -> None:
    """Offer the tools of a server to an agent, by the protocol MCP on stdin and stdout.

    Without --url, the command starts a server of its own.
    """
    with errors_shown("interrupted"), reached(url, models) as address:
        try:
            asyncio.run(relay(address, api_key))
        except ModuleNotFoundError as error:
            raise ServerError(f"{error.name} is missing: install regard[mcp]") from None
        except ExceptionGroup as group:
            reason: Exception = group
            while isinstance(reason, ExceptionGroup):
                reason = reason.exceptions[0]
            raise ServerError(str(reason)) from reason


async def relay(url: str, api_key: str) -> None:
    """Answers an agent on stdin and stdout with the replies of the server at `url`."""
    # These imports take a second.
    from httpx2 import AsyncClient, AsyncHTTPTransport, Request, Response, Timeout, TransportError
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp_types import INTERNAL_ERROR, CallToolRequest, CallToolRequestParams, CallToolResult

    async def list_tools(_context: Any, _params: Any) -> Any:
        return await server.list_tools()

    async def call_tool(_context: Any, params: Any) -> Any:
        asked = CallToolRequestParams(name=params.name, arguments=params.arguments)
        request = CallToolRequest(params=asked)
        return await server.session.send_request(request, CallToolResult)

    class Transport(AsyncHTTPTransport):
        async def handle_async_request(self, request: Request) -> Response:
            try:
                return await super().handle_async_request(request)
            except TransportError as error:  # the agent gets an error, and may call again
                message = f"{url} cannot be reached: {error}; is the server running?"
                error_body = {"code": INTERNAL_ERROR, "message": message}
                return Response(503, json={"jsonrpc": "2.0", "id": None, "error": error_body})

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    http = AsyncClient(headers=headers, timeout=Timeout(30, read=600), transport=Transport())
    transport = streamable_http_client(url.rstrip("/") + "/mcp", http_client=http)
    async with http, Client(transport, cache=None) as server:
        agent: Server[Any] = Server(
            "regard",
            version=version("regard"),
            instructions=server.instructions,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )
        async with stdio_server(lines()) as (reader, writer):
            await agent.run(reader, writer, agent.create_initialization_options())


async def lines() -> Any:
    """Yields the lines of stdin. A signal ends the process even while the thread reads."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str]()

    def read() -> None:
        with open(os.dup(0), encoding="utf-8", errors="replace") as file:
            for line in file:
                loop.call_soon_threadsafe(queue.put_nowait, line)
        loop.call_soon_threadsafe(queue.put_nowait, "")

    Thread(target=read, daemon=True).start()
    while line := await queue.get():
        yield line
