"""Runs the work on a text in the event loop or, if the text is long, in a thread."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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


async def run_sized(
    num_chars: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Returns the result of a function.

    The function runs in the event loop for up to INLINE_CHARS characters, otherwise in a thread.
    """
    if num_chars <= INLINE_CHARS:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
