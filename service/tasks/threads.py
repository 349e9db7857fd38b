"""Runs the work on a text in the event loop or, if the text is long, in one separate thread.

The work holds the lock of the Python interpreter. Several threads would therefore be no faster than
one, and would delay the event loop. Beside eight clients that send 12 kB of marks each, sentences
take 7 times as long with six threads. With one thread they take 1.8 times as long.
"""

import asyncio
import ctypes
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from service.errors import too_late

P = ParamSpec("P")
T = TypeVar("T")

INLINE_CHARS = 4096
"""Largest total length of texts that are processed in the event loop and not in a thread.

Tokenising a sentence takes 4 µs. Passing work to a thread and its result back takes 50 to 100 µs.
"""

CHARS_PER_TOKEN = 3
"""Assumed number of characters of a token.

A request is admitted before its texts are tokenised. The admission therefore uses an estimate of
the number of tokens.
"""


SWITCH_SECONDS = 0.0005
"""Time for which the thread keeps the interpreter's lock while the event loop waits for it.

The default of Python is ten times as long. A short request takes the lock several times.
"""

_executors: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()
"""The thread of each event loop, like the default executor of asyncio, which has more threads."""


async def run_sized(
    num_chars: int, deadline: float, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Returns the result of a function.

    The function runs in the event loop for up to INLINE_CHARS characters, otherwise in a thread.
    If the request is cancelled or misses its deadline, the function ends there, or does not begin.
    It must not wait for anything, and must leave no shared object in a wrong state if it ends at
    any place.

    Args:
        num_chars: Number of characters that the function reads.
        deadline: Time by time.perf_counter at which the request fails.
    """
    if num_chars <= INLINE_CHARS:
        return function(*args, **kwargs)
    loop = asyncio.get_running_loop()
    if (executor := _executors.get(loop)) is None:
        initial = (sys.setswitchinterval, (SWITCH_SECONDS,))
        executor = _executors[loop] = ThreadPoolExecutor(1, "text", *initial)
    work = _Work(partial(function, *args, **kwargs))
    try:
        async with asyncio.timeout(deadline - time.perf_counter()):
            return await loop.run_in_executor(executor, work.run)
    except TimeoutError:
        raise too_late(0, 1) from None
    finally:
        work.stop()


class _Stopped(BaseException):
    """Ends a function in its thread."""


class _Work(Generic[T]):
    """A function that another thread can stop.

    The function needs no checks: the interpreter raises `_Stopped` in its thread before the next
    instruction of Python. Calls of C code end first, and take time in proportion to the text.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.lock = threading.Lock()
        self.thread: int | None = None  # thread of the function while it runs
        self.is_stopped = False

    def run(self) -> T:
        try:
            try:
                with self.lock:
                    self.thread = None if self.is_stopped else threading.get_ident()
                if self.thread is None:
                    raise _Stopped
                return self.function()
            finally:
                self._end()
        except _Stopped:
            self._end()  # `_Stopped` may have been raised in `_end`; it is raised only once
            raise

    def _end(self) -> None:
        with self.lock:
            self.thread = None
        if self.is_stopped:  # no `_Stopped` may be left for the next work of this thread
            _raise_and_catch()

    def stop(self) -> None:
        """Ends the function if it is running, or keeps it from beginning."""
        with self.lock:
            self.is_stopped = True
            if self.thread is not None:
                _raise_in(self.thread)


def _raise_in(thread: int) -> None:
    error = ctypes.py_object(_Stopped)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)


def _raise_and_catch() -> None:
    """Raises `_Stopped` in this thread, in place of one that is still to come, and catches it.

    Python can also take the error back. But then its interpreter goes on looking for an error: all
    threads of the process get slower, and a profiler never returns.
    """
    try:
        _raise_in(threading.get_ident())
        while True:
            pass
    except _Stopped:
        pass
