"""HTTP GET with patience: what passes is tried again, what does not is said at once.

It is the standard library's client, for a dependency would serve nothing but this. Proxies of the
environment are used.
"""

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from service.models.registry.errors import (
    AccessRefusedError,
    DownloadError,
    NotPublishedError,
)

T = TypeVar("T")

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)
MAX_PAUSE_SECONDS = 60.0
TIMEOUT_SECONDS = 30.0
BLOCK_BYTES = 1 << 18
MAX_JSON_BYTES = 1 << 26
AUTHORIZATION = "Authorization"


class PassingError(Exception):
    """Something that may be otherwise the next time.

    Args:
        reason: What happened.
        retry_after_seconds: How long the server asks to be left alone.
    """

    def __init__(self, reason: str, retry_after_seconds: float = 0.0) -> None:
        self.retry_after_seconds = retry_after_seconds
        self.has_moved = False
        super().__init__(reason)


class RangeRefusedError(Exception):
    """The server has nothing from that byte on.

    Args:
        size: Of the whole, where it says so.
    """

    def __init__(self, size: int | None) -> None:
        self.size = size
        super().__init__("the range is not in the file")


class _Redirects(HTTPRedirectHandler):
    """Follows redirects; a token goes along only to the host that it is for, and never unsealed."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DownloadError(f"{shown(req.full_url)} leads away from https, which is refused")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get(AUTHORIZATION)
        if request is not None and token and origin(newurl) == origin(req.full_url):
            request.add_unredirected_header(AUTHORIZATION, token)
        return request


class Response:
    """An answer whose body is still to be read."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Message = response.headers

    @property
    def length(self) -> int | None:
        """Of the body that is announced."""
        return _number(self.headers.get("Content-Length"))

    def blocks(self) -> Iterator[bytes]:
        """The body, piece by piece.

        Raises:
            PassingError: The connection broke before its end.
        """
        count = 0
        while True:
            try:
                block = self._response.read(BLOCK_BYTES)
            except (OSError, HTTPException) as error:
                raise PassingError(f"the connection broke: {_reason(error)}") from error
            if not block:
                break
            count += len(block)
            yield block
        if self.length is not None and count < self.length:
            raise PassingError(f"the connection broke after {count} of {self.length} bytes")


class HttpClient:
    """GET, tried again where that helps.

    Args:
        sleep: Waits between two tries.
        timeout_seconds: How long a server may say nothing.
    """

    def __init__(
        self,
        sleep: Callable[[float], None] = time.sleep,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._sleep = sleep
        self._timeout_seconds = timeout_seconds
        self._opener = OpenerDirector()
        for handler in (
            ProxyHandler(),
            HTTPHandler(),
            HTTPSHandler(context=ssl.create_default_context()),
            HTTPDefaultErrorHandler(),
            HTTPErrorProcessor(),
            UnknownHandler(),
            _Redirects(),
        ):
            self._opener.add_handler(handler)

    @contextmanager
    def open(
        self, url: str, headers: Mapping[str, str] | None = None, token: str = ""
    ) -> Iterator[Response]:
        """One try.

        Args:
            url: An http or https address.
            headers: Of the request.
            token: Sent to the host of this address and to no other, and only where nobody on
                the way reads along: over https, or to this machine.

        Raises:
            PassingError: It is worth another try.
            RangeRefusedError: The file ends before the range begins.
            RegistryError: It is not.
        """
        request = Request(url, headers={"User-Agent": "regard", **(headers or {})})
        if token and is_private(url):
            request.add_unredirected_header(AUTHORIZATION, f"Bearer {token}")
        try:
            response = self._opener.open(request, timeout=self._timeout_seconds)
        except HTTPError as error:
            with error:
                raise _refusal(url, error) from error
        except (OSError, HTTPException) as error:
            if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
                raise DownloadError(f"{shown(url)} is not trusted: {_reason(error)}") from error
            raise PassingError(_reason(error)) from error
        with response:
            yield Response(response)

    def persevere(self, url: str, action: Callable[[], T]) -> T:
        """The result of an action that is tried again while it fails in passing.

        Tries are counted from the last one that brought something on its way.

        Raises:
            DownloadError: It failed too often in a row.
        """
        pauses = list(PAUSES_SECONDS)
        while True:
            try:
                return action()
            except PassingError as error:
                if error.has_moved:
                    pauses = list(PAUSES_SECONDS)
                if not pauses:
                    tries = len(PAUSES_SECONDS) + 1
                    raise DownloadError(
                        f"{shown(url)} failed {tries} times: {error}; try again later"
                    ) from error
                asked = min(error.retry_after_seconds, MAX_PAUSE_SECONDS)
                self._sleep(max(pauses.pop(0), asked))

    def read_json(self, url: str, token: str = "") -> Any:
        """What the JSON at an address says.

        Raises:
            RegistryError: It cannot be had, or is not JSON.
        """

        def read() -> bytes:
            body = bytearray()
            with self.open(url, {"Accept-Encoding": "identity"}, token) as response:
                for block in response.blocks():
                    body += block
                    if len(body) > MAX_JSON_BYTES:
                        raise DownloadError(f"{shown(url)} is over {MAX_JSON_BYTES} bytes of JSON")
            return bytes(body)

        body = self.persevere(url, read)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise DownloadError(f"{shown(url)} is not JSON: {error}") from error


def _refusal(url: str, error: HTTPError) -> Exception:
    """What a status of 400 and more means."""
    status, where = error.code, shown(url)
    if status == 416:
        total = error.headers.get("Content-Range", "").rpartition("/")[2]
        return RangeRefusedError(_number(total))
    if status in PASSING:
        after = _number(error.headers.get("Retry-After"))
        return PassingError(f"it answers {status}", float(after or 0))
    if status in (404, 410):
        return NotPublishedError(f"{where} is not there ({status})")
    if status in (401, 403):
        return AccessRefusedError(
            f"{where} is refused ({status}): it is not there, or wants a token of somebody who "
            "may read it; set HF_TOKEN to one"
        )
    return DownloadError(f"{where} answers {status}")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    return str(reason) or type(reason).__name__


def origin(url: str) -> tuple[str, str]:
    """Scheme and host, with its port."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def is_private(url: str) -> bool:
    """Whether what is sent there is read by nobody on the way."""
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1")


def shown(url: str) -> str:
    """An address as a message may have it: without a password or query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
