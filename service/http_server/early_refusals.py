"""Decides from the headers alone which requests are refused during an overload.

The application does not get the refused requests. A refusal by the application takes three times
as long, because the application makes a task, a context and a response for each request.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from service.http_server.loop_load import LARGE_BYTES, LoopLoad, account_of
from service.http_server.request_connection import ADMITTED_KEY, ARRIVED_KEY

RawHeaders = Sequence[tuple[bytes, bytes]]

ID_MARK = "the-request's-id"
"""Stands for the id of the request in a template. The mark has the length of an id."""

NEEDS_APPLICATION = frozenset({b"origin", b"x-request-id", b"expect", b"content-encoding"})
"""Headers that change the response. A request with such a header is never refused early: the
application answers it."""


@dataclass(frozen=True, slots=True)
class Template:
    """The response to the refused requests of one route, except for the date and the id.

    Attributes:
        task: Value of the label `task` in the metrics.
        status: HTTP status.
        rest: The headers and the body; ID_MARK stands for the id of the request.
    """

    task: str
    status: int
    rest: bytes

    def response(self, headers: RawHeaders) -> bytes:
        """Returns the response for a new request id.

        Args:
            headers: Headers that every response has, such as the date.
        """
        number = f"{random.getrandbits(64):016x}".encode()
        common = [b"%b: %b\r\n" % each for each in headers]
        rest = self.rest.replace(ID_MARK.encode(), number)
        return b"".join([STATUS_LINE[self.status], *common, rest])


class EarlyRefusals:
    """Decides from the headers of a request whether it is refused, and counts the refusals.

    Args:
        load: Limits the number of requests in each turn of the event loop, as `loop_load` explains.
        templates: Templates by the path of their route. Only POST requests to these paths may be
            refused early.
        is_draining: Returns whether the process is ending. Responses then have other headers.
        count: Counts refused requests in the metrics. Its arguments are the task and the
            number of the requests.
    """

    def __init__(
        self,
        load: LoopLoad,
        templates: Mapping[bytes, Template],
        is_draining: Callable[[], bool],
        count: Callable[[str, int], None],
    ) -> None:
        self.load = load
        self.templates = templates
        self.is_draining = is_draining
        self.count = count
        self.refused: Counter[str] = Counter()  # requests not reported to `count` yet, by task

    def suffices(self, headers: RawHeaders) -> bool:
        """Returns whether a template suffices to answer a request with these headers.

        The application refuses a request with a large body without reading the body.
        """
        if self.is_draining() or any(name in NEEDS_APPLICATION for name, _ in headers):
            return False
        size = next((value for name, value in headers if name == b"content-length"), b"")
        return size.isdigit() and int(size) <= LARGE_BYTES

    def add(self, template: Template) -> None:
        """Counts a refused request."""
        if not self.refused:
            asyncio.get_running_loop().call_soon(self._count)
        self.refused[template.task] += 1

    def _count(self) -> None:
        for task, number in self.refused.items():
            self.count(task, number)
        self.refused.clear()


class RefusingProtocol(HttpToolsProtocol):
    """Counts the requests of a connection, and refuses some of them early.

    Args:
        config: Configuration of the server.
        early: Decides which requests are refused.
        server_state: State of uvicorn's server.
        app_state: State that the application's lifespan has made.

    Attributes:
        refusal: Template of the response to a request that is being read; None if the application
            gets the request.
        is_head: Whether the first line and the headers of a request are incomplete.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        early: EarlyRefusals,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.early = early
        self.refusal: Template | None = None
        self.is_head = False

    def on_message_begin(self) -> None:
        """Begins a request."""
        super().on_message_begin()
        self.is_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Adds a header. The trailer of a body is ignored.

        Source: RFC 9110, section 6.5.1. A proxy may remove keys and addresses from headers only.
        """
        if self.is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begins the application for a request, unless the request is refused early."""
        template = self.early.templates.get(self.url)
        if template is not None and self.parser.get_method() == b"POST":
            self._count(template)
        if self.refusal is None:
            super().on_headers_complete()

    def _count(self, template: Template) -> None:
        """Counts a request in this turn of the event loop; may set `refusal` to refuse it early."""
        address = self.client[0] if self.client else ""
        is_admitted = self.early.load.admits(account_of(address, self.headers))
        state = self.scope["state"]
        state[ADMITTED_KEY], state[ARRIVED_KEY] = is_admitted, self.early.load.turn_began
        is_next = self.cycle is None or self.cycle.response_complete
        # Earlier responses are complete, and the client has read enough of them.
        can_write = is_next and not self.flow.write_paused
        if is_admitted or not can_write or not self.early.suffices(self.headers):
            return
        if self.parser.get_http_version() == "1.1" and self.parser.should_keep_alive():
            self.refusal = template

    def answer_refused(self) -> None:
        """Writes the response to a refused request, whose body has arrived."""
        assert self.refusal is not None
        self.early.add(self.refusal)
        self.transport.write(self.refusal.response(self.server_state.default_headers))
        self.server_state.total_requests += 1
        self.refusal = None
