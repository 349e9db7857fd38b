"""HTTP GET with retries, for the registries: Hugging Face's hub and Mozilla's index of models.

The client is httpx2, as in huggingface_hub. It uses the proxies set in environment variables and
the certificates of the system.
"""

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from service.models.registry.errors import (
    AccessRefusedError,
    DownloadError,
    NotPublishedError,
    TransientError,
)

T = TypeVar("T")

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)
MAX_PAUSE_SECONDS = 60.0
TIMEOUT_SECONDS = 30.0
MAX_JSON_BYTES = 1 << 26


def open_client(timeout_seconds: float = TIMEOUT_SECONDS) -> httpx2.Client:
    """Returns a client that follows redirects, but never from https to http.

    Args:
        timeout_seconds: Longest time to wait for data from the server.
    """
    return httpx2.Client(
        follow_redirects=True,
        timeout=timeout_seconds,
        headers={"User-Agent": "regard"},
        event_hooks={"response": [refuse_downgrade]},
    )


def refuse_downgrade(response: httpx2.Response) -> None:
    """Refuses a redirect from https to an unencrypted address."""
    location = response.headers.get("Location", "")
    if response.url.scheme == "https" and location.lower().startswith("http:"):
        raise DownloadError(f"{shown(response.url)} redirects away from https, which is refused")


class HttpClient:
    """Sends GET requests and retries transient failures.

    Args:
        sleep: Waits between two tries.
        timeout_seconds: Longest time to wait for data from the server.
    """

    def __init__(
        self,
        sleep: Callable[[float], None] = time.sleep,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._sleep = sleep
        self._client = open_client(timeout_seconds)

    @contextmanager
    def open(self, url: str, headers: Mapping[str, str]) -> Iterator[httpx2.Response]:
        """Sends one request; the caller reads the body of the response.

        A response with status 416 is yielded too. This status means that the file does not
        have the requested range.
        """
        try:
            with self._client.stream("GET", url, headers=dict(headers)) as response:
                if response.status_code >= 400 and response.status_code != 416:
                    raise status_error(response)
                yield response
        except httpx2.RequestError as error:
            raise request_error(url, error) from error

    def retry(self, url: str, action: Callable[[], T]) -> T:
        """Returns the result of an action; repeats the action while it fails transiently.

        After a try that received new bytes, the count of tries starts again. Errors of the action
        other than TransientError are raised at once.
        """
        pauses = list(PAUSES_SECONDS)
        while True:
            try:
                return action()
            except TransientError as error:
                if error.has_progressed:
                    pauses = list(PAUSES_SECONDS)
                if not pauses:
                    tries = len(PAUSES_SECONDS) + 1
                    raise DownloadError(
                        f"{shown(url)} failed {tries} times: {error}; try again later"
                    ) from error
                asked = min(error.retry_after_seconds, MAX_PAUSE_SECONDS)
                self._sleep(max(pauses.pop(0), asked))

    def read_json(self, url: str) -> Any:
        """Fetches and parses a JSON document."""

        def read() -> bytes:
            body = bytearray()
            with self.open(url, {"Accept-Encoding": "identity"}) as response:
                for block in response.iter_raw():
                    body += block
                    if len(body) > MAX_JSON_BYTES:
                        raise DownloadError(
                            f"{shown(url)} has more than {MAX_JSON_BYTES} bytes of JSON"
                        )
            return bytes(body)

        body = self.retry(url, read)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise DownloadError(f"{shown(url)} is not JSON: {error}") from error


def status_error(response: httpx2.Response) -> Exception:
    """Returns the error for a status of 400 or more."""
    status, where = response.status_code, shown(response.url)
    if status in TRANSIENT_STATUSES:
        after = response.headers.get("Retry-After", "")
        return TransientError(
            f"the server answers {status}",
            float(after) if after.isascii() and after.isdigit() else 0.0,
        )
    if status in (404, 410):
        return NotPublishedError(f"{where} does not exist ({status})")
    if status in (401, 403):
        return AccessRefusedError(f"{where} is refused ({status})")
    return DownloadError(f"{where} answers {status}")


def request_error(url: str, error: httpx2.RequestError) -> Exception:
    """Returns the error for a failed request."""
    reason = str(error) or type(error).__name__
    is_transport_error = isinstance(error, httpx2.TransportError)
    if not is_transport_error or isinstance(error, httpx2.UnsupportedProtocol):
        return DownloadError(f"{shown(url)} cannot be fetched: {reason}")
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes(error)):
        return DownloadError(f"the certificate of {shown(url)} is not trusted: {reason}")
    return TransientError(reason)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields an error, then the error that caused it, and so on."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


def shown(url: object) -> str:
    """Returns an address without password and query, so that it is safe to show in messages."""
    parts = urlsplit(str(url))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
