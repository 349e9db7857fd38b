"""Ends the work of a request whose client has closed the connection."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from service.http_server.request_connection import connection_of

T = TypeVar("T")


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of `work`, or cancels `work` as soon as the client disconnects.

    The body of the request must have been read. The next ASGI message can then only be the
    client's disconnection.

    Raises:
        ClientDisconnect: The client disconnected. `service.api.middleware.RequestMiddleware` counts
            the request as cancelled.
    """
    task = asyncio.current_task()
    assert task is not None
    is_gone = is_over = False

    def end() -> None:
        nonlocal is_gone
        if not (is_gone or is_over):
            is_gone = True
            task.cancel()

    stop_watching = _watch(request, end)
    try:
        return await work
    except asyncio.CancelledError:
        if is_gone and task.uncancel() == 0:  # only `end` has cancelled the task
            raise ClientDisconnect from None
        raise
    finally:
        is_over = True
        stop_watching()


def _watch(request: Request, on_lost: Callable[[], None]) -> Callable[[], object]:
    """Calls `on_lost` when the client disconnects; returns a function that stops the watching.

    The connection of a request calls `on_lost` itself. A request of an ASGI client in the same
    process, such as a test, has no connection. In that case, a task waits for the disconnect
    message. Requests with a connection have no task, because it would take 5 % of the time of
    a short request.
    """
    connection = connection_of(request.scope)
    if connection is not None:

        def stop() -> None:
            connection.on_lost = None

        connection.watch(on_lost)
        return stop
    watcher = asyncio.create_task(_disconnected(request))
    watcher.add_done_callback(lambda watcher: None if watcher.cancelled() else on_lost())
    return watcher.cancel


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
