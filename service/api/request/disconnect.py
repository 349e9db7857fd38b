"""Ends the work of a request whose client has closed the connection."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

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

    def end(watcher: asyncio.Task[None]) -> None:
        nonlocal is_gone
        if not (watcher.cancelled() or is_over):
            is_gone = True
            task.cancel()

    watcher = asyncio.create_task(_disconnected(request))
    watcher.add_done_callback(end)
    try:
        return await work
    except asyncio.CancelledError:
        if is_gone and task.uncancel() == 0:  # only `end` has cancelled the task
            raise ClientDisconnect from None
        raise
    finally:
        is_over = True
        watcher.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
