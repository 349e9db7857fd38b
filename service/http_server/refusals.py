"""The error responses that a connection sends without the application."""

import json
import re
from collections.abc import Sequence

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from service.errors import SHOWN_CHARS


class Refusal(httptools.HttpParserError):
    """Ends the reading of a connection with an error response."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.message = message

    def response(self) -> bytes:
        body = json.dumps({"error": self.message, "error_type": self.error_type}).encode()
        lines = [STATUS_LINE[self.status], b"content-type: application/json\r\n"]
        lines.append(b"content-length: %d\r\nconnection: close\r\n" % len(body))
        if self.status == 503:
            lines.append(b"retry-after: 1\r\n")
        return b"".join([*lines, b"\r\n", body])


HOST = re.compile(rb"(?:\[[\w:.%~-]+\]|[\w.~!$&'()*+,;=%-]*)(?::[0-9]*)?", re.ASCII)
"""A value of the header Host: a name or an address, and a port.

Source: RFC 9110, section 7.2; RFC 3986, section 3.2.2.
"""


def check_host(headers: Sequence[tuple[bytes, bytes]], parser: httptools.HttpRequestParser) -> None:
    """Refuses a request without exactly one valid Host header; HTTP/1.0 does not need the header.

    Source: RFC 9112, section 3.2.
    """
    number, host = 0, b""
    for name, value in headers:
        if name == b"host":
            number, host = number + 1, value
    if number == 1 and HOST.fullmatch(host):
        return
    if not number and parser.get_http_version() != "1.1":
        return
    fault = f"the request has {number} Host headers"
    if number == 1:
        fault = f"the header Host is {host[:SHOWN_CHARS].decode('latin-1')!r}"
    raise Refusal(
        400, "invalid_request", f"{fault}; send one, with a name or an address and a port"
    )


def malformed() -> Refusal:
    return Refusal(400, "invalid_request", "this is not a valid request of HTTP/1.1")


def header_too_large(fault: str, limit: int) -> Refusal:
    text = f"{fault}; the limit is {limit} bytes. Send less, or raise REGARD_MAX_HEADER_BYTES."
    return Refusal(431, "header_too_large", text)


def too_many_connections(limit: int) -> Refusal:
    return Refusal(
        503,
        "unavailable",
        f"{limit} connections are open, which is the limit; try again, use fewer connections, or "
        "raise REGARD_MAX_CONNECTIONS",
    )
