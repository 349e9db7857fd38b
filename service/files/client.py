"""A client of a server: sends several requests at a time, and repeats failed requests."""

import http.client
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import orjson

MAX_TEXTS = 64
MAX_CHARS = 8000
"""A request has at most MAX_TEXTS texts and MAX_CHARS characters, without counting blank texts.

A text of more than MAX_CHARS characters is sent in a request of its own.
"""

TIMEOUT_SECONDS = 120.0
ATTEMPTS = 8
MAX_PAUSE_SECONDS = 30.0
BUSY = (429, 502, 503)
"""Statuses after which a request is sent again, because the server may answer it later."""

SHOWN_CHARS = 300

T = TypeVar("T")
R = TypeVar("R")


class ServerError(Exception):
    """The server refused a request or could not be reached. The message gives the reason."""


class RefusedError(ServerError):
    """The server refused the texts of a request. It may accept other texts."""


class Reply(NamedTuple):
    """The headers of a reply with status 200, and the value of the JSON in its body."""

    headers: http.client.HTTPMessage
    value: Any


class Client:
    """Sends up to `num_requests` requests at a time. The URL may have a prefix for all paths."""

    def __init__(self, url: str, api_key: str = "", num_requests: int = 4) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ServerError(f"url {url!r}: {error}; give it as http://HOST:PORT") from None
        if parts.scheme not in ("http", "https") or not host:
            raise ServerError(f"url {url!r} is no address; give it as http://HOST:PORT")
        self.url = url
        self.is_secure = parts.scheme == "https"
        self.host, self.port = host, port or (443 if self.is_secure else 80)
        self.prefix = parts.path.rstrip("/")
        self.headers = {"Content-Type": "application/json"}
        if api_key:
            self.headers["Authorization"] = f"Bearer {api_key}"
        self.local = threading.local()
        self.connections: list[http.client.HTTPConnection] = []
        self.max_waiting = 2 * num_requests
        self.executor = ThreadPoolExecutor(num_requests)
        self.is_stopped = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.is_stopped.set()
        self.executor.shutdown(wait=False, cancel_futures=True)
        for connection in self.connections:
            if connection.sock is not None:
                with suppress(OSError):  # the server has closed the connection
                    connection.sock.shutdown(socket.SHUT_RDWR)  # wakes a reading thread
            connection.close()

    def in_order(self, work: Callable[[T], R], inputs: Iterable[T]) -> Iterator[R]:
        """Calls `work` for each input in several threads, and yields the results in order.

        At most `max_waiting` results are computed before they are needed.
        """
        waiting: deque[Future[R]] = deque()
        for each in inputs:
            if len(waiting) == self.max_waiting:
                yield waiting.popleft().result()
            waiting.append(self.executor.submit(work, each))
        while waiting:
            yield waiting.popleft().result()

    def send(self, path: str, fields: Mapping[str, Any]) -> Reply:
        """Sends a request. Repeats it after a pause if the server is busy or cannot be reached."""
        body = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
        pause = 0.5
        for attempt in range(1, ATTEMPTS + 1):
            try:
                status, headers, data = self._post(path, body)
            except (OSError, http.client.HTTPException) as error:
                message = f"{self.url} cannot be reached: {error}; is the server running?"
            except ValueError:  # its text may contain the key
                raise ServerError(
                    f"no request can be sent to {self.url}: the address or the API key has "
                    "characters that HTTP does not allow; check --url and --api-key"
                ) from None
            else:
                if status == 200:
                    try:
                        return Reply(headers, orjson.loads(data))
                    except ValueError:
                        message = f"{self.url} did not answer with JSON; is it a Regard server?"
                        raise ServerError(message) from None
                text, error_type = error_of(data)
                message = f"{self.url} answered {status}: {text}"
                if status == 413 or error_type == "invalid_request":
                    raise RefusedError(message)
                if status not in BUSY:
                    raise ServerError(message)
                retry_after = headers.get("Retry-After", "")
                pause = max(pause, float(retry_after if retry_after.isdecimal() else 0))
            if attempt == ATTEMPTS or self.is_stopped.wait(min(pause, MAX_PAUSE_SECONDS)):
                raise ServerError(message)
            pause *= 2
        raise AssertionError

    def _post(self, path: str, body: bytes) -> tuple[int, http.client.HTTPMessage, bytes]:
        if not hasattr(self.local, "connection"):
            kind = http.client.HTTPSConnection if self.is_secure else http.client.HTTPConnection
            self.local.connection = kind(self.host, self.port, timeout=TIMEOUT_SECONDS)
            self.connections.append(self.local.connection)
        connection = self.local.connection
        try:
            connection.request("POST", self.prefix + path, body, self.headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request opens it again
            raise


def in_requests(texts: Iterable[str]) -> Iterator[list[str]]:
    """Groups texts into requests within the limits, in order. Blank texts are not counted."""
    request: list[str] = []
    num_texts = num_chars = 0
    for text in texts:
        if text.strip():
            if num_texts and (num_texts == MAX_TEXTS or num_chars + len(text) > MAX_CHARS):
                yield request
                request, num_texts, num_chars = [], 0, 0
            num_texts += 1
            num_chars += len(text)
        request.append(text)
    if request:
        yield request


def error_of(data: bytes) -> tuple[str, str | None]:
    """Returns the error text of a reply, or else its first bytes, and its `error_type`."""
    try:
        body = orjson.loads(data)
        error = body["error"]
        text = error["message"] if isinstance(error, dict) else error
        details = f"; {body['details']}" if "details" in body else ""
        return f"{text}{details}"[:SHOWN_CHARS], body.get("error_type")
    except (ValueError, KeyError, TypeError):
        return data[:SHOWN_CHARS].decode("utf-8", errors="replace"), None
