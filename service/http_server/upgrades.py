"""Rewrites requests for another protocol, such as h2c, as requests of HTTP/1.1."""

from collections.abc import Sequence

HOPS = (b"upgrade", b"http2-settings", b"connection")
"""Headers that are removed when a request for another protocol is served as HTTP/1.1."""


def without_upgrade(
    method: bytes, url: bytes, headers: Sequence[tuple[bytes, bytes]], keeps_alive: bool
) -> bytes:
    """Returns the request line and the headers, without the headers in HOPS.

    If the connection does not stay open, the header `connection: close` is added.

    Args:
        method: HTTP method.
        url: Address of the request.
        headers: Headers of the request; names are in lower case.
        keeps_alive: Whether the connection stays open after the response.
    """
    head = [method + b" " + url + b" HTTP/1.1"]
    head += [name + b": " + value for name, value in headers if name not in HOPS]
    if not keeps_alive:
        head.append(b"connection: close")
    return b"\r\n".join([*head, b"", b""])
