"""Runs a function, such as a search on a hanging disk, in a thread that can be given up."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def run_abandonable(function: Callable[[], T], seconds: float) -> T:
    """Returns the result of a function that runs in a thread of its own.

    After a timeout or a cancellation, the thread keeps running, but its result is not used. The
    process can end without waiting for the thread. With a thread of `asyncio.to_thread`, the
    process would wait.

    Args:
        function: The function.
        seconds: Time after which the thread is given up.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(method: Callable[[Any], None], value: object) -> None:
        def apply() -> None:
            if not future.done():
                method(value)

        with contextlib.suppress(RuntimeError):  # the event loop has ended in the meantime
            loop.call_soon_threadsafe(apply)

    def work() -> None:
        try:
            result = function()
        except Exception as error:
            settle(future.set_exception, error)
        else:
            settle(future.set_result, result)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wait_for(future, seconds)
