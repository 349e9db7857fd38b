"""Replies to the requests that `LoopLoad` refuses during an overload, from their headers alone.

The application does not get these requests. A refusal by the application takes three times as
long, because the application makes a task, a context and a response for each request.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from service.http_server.byte_budget import SMALL_BYTES
from service.http_server.loop_load import LoopLoad, content_length

RawHeaders = Sequence[tuple[bytes, bytes]]

ID_MARK = "the-request's-id"
"""Stands for the id of the request in a template, and has the length of an id."""

NEEDS_APPLICATION = frozenset({b"origin", b"x-request-id", b"expect", b"content-encoding"})
"""Headers that change the response. The application answers a request with such a header."""


@dataclass(frozen=True, slots=True)
class Template:
    """The response to the refused requests of one route, except for the date and the id.

    `task` is the label in the metrics. `rest` has the headers and the body, with ID_MARK.
    """

    task: str
    status: int
    rest: bytes

    def response(self, headers: RawHeaders) -> bytes:
        number = f"{random.getrandbits(64):016x}".encode()
        common = [b"%b: %b\r\n" % each for each in headers]
        rest = self.rest.replace(ID_MARK.encode(), number)
        return b"".join([STATUS_LINE[self.status], *common, rest])


@dataclass(eq=False)
class EarlyRefusals:
    load: LoopLoad
    templates: Mapping[bytes, Template]  # by path; only POST requests may be refused early
    is_draining: Callable[[], bool]  # responses then have other headers
    count: Callable[[str, int], None]  # counts refused requests in the metrics, by task and number
    # Requests not reported to `count` yet, by task.
    refused: Counter[str] = field(default_factory=Counter)

    def suffices(self, headers: Mapping[bytes, bytes]) -> bool:
        """Returns whether a template suffices to answer a request with these headers."""
        if self.is_draining() or not NEEDS_APPLICATION.isdisjoint(headers):
            return False
        return b"content-length" in headers and content_length(headers) <= SMALL_BYTES

    def add(self, template: Template) -> None:
        if not self.refused:
            asyncio.get_running_loop().call_soon(self._count)
        self.refused[template.task] += 1

    def _count(self) -> None:
        for task, number in self.refused.items():
            self.count(task, number)
        self.refused.clear()
