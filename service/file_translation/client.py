"""A client of `POST /translate`: sends several requests at a time, and repeats failed requests."""

import http.client
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import urlsplit

MAX_TEXTS = 64
MAX_CHARS = 8000
"""A request has at most MAX_TEXTS texts and MAX_CHARS characters. A longer text is sent alone."""

TIMEOUT_SECONDS = 120.0
ATTEMPTS = 8
MAX_PAUSE_SECONDS = 30.0
BUSY = (429, 502, 503)
"""Statuses after which a request is sent again, because the server may answer it later."""

SHOWN_CHARS = 300


class ServerError(Exception):
    """The server refused a request or could not be reached. The message gives the reason."""


class TranslationClient:
    """Sends texts to a server.

    Args:
        url: Address of the server. It may end with a prefix for all paths.
        source: Language code, or `auto`.
        target: Language code.
        api_key: Key that is sent with every request; "" for none.
        num_requests: Number of requests at a time.

    Raises:
        ServerError: The address is malformed.
    """

    def __init__(
        self, url: str, source: str, target: str, api_key: str = "", num_requests: int = 4
    ) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ServerError(f"url {url!r}: {error}; give it as http://HOST:PORT") from None
        if parts.scheme not in ("http", "https") or not host:
            raise ServerError(f"url {url!r} is no address; give it as http://HOST:PORT")
        self.url = url
        self.host, self.port, self.prefix = host, port, parts.path.rstrip("/")
        self.is_secure = parts.scheme == "https"
        self.source, self.target, self.api_key = source, target, api_key
        self.local = threading.local()
        self.connections: list[http.client.HTTPConnection] = []
        self.executor = ThreadPoolExecutor(num_requests)
        self.is_stopped = threading.Event()

    def translate(
        self,
        texts: Sequence[str],
        advance: Callable[[int], object] = lambda number: None,
        is_html: bool = False,
    ) -> list[str]:
        """Returns the translations in the order of the texts; equal texts are sent once.

        Args:
            texts: Texts to translate.
            advance: Called after each request with the number of texts that it has translated.
            is_html: Whether the texts are HTML.

        Raises:
            ServerError: The server refused a request, or could not be reached.
        """
        counts: dict[str, int] = {}
        for text in texts:
            counts[text] = counts.get(text, 0) + 1
        known: dict[str, str] = {}
        requests = in_requests(list(counts))
        send = partial(self._send_texts, is_html=is_html)
        for batch, translations in zip(requests, self.executor.map(send, requests), strict=True):
            known.update(zip(batch, translations, strict=True))
            advance(sum(counts[text] for text in batch))
        return [known[text] for text in texts]

    def stop(self) -> None:
        """Ends all requests and closes the connections."""
        self.is_stopped.set()
        self.executor.shutdown(wait=False, cancel_futures=True)
        for connection in [*self.connections]:
            connection.close()

    def _send_texts(self, texts: Sequence[str], is_html: bool) -> list[str]:
        fields = {"q": texts, "source": self.source, "target": self.target}
        if is_html:
            fields["format"] = "html"
        if self.api_key:
            fields["api_key"] = self.api_key
        reply = self._send("/translate", json.dumps(fields).encode())
        translations = reply.get("translatedText")
        if not isinstance(translations, list) or len(translations) != len(texts):
            raise ServerError(f"{self.url} did not answer with one translation for each text")
        return [str(translation) for translation in translations]

    def _send(self, path: str, body: bytes) -> dict[str, Any]:
        """Sends a request. Repeats it after a pause if the server is busy or cannot be reached."""
        pause = 0.5
        for attempt in range(1, ATTEMPTS + 1):
            try:
                status, retry_after, data = self._post(path, body)
            except (OSError, http.client.HTTPException) as error:
                self._close()
                message = f"{self.url} cannot be reached: {error}; is the server running?"
            else:
                if status == 200:
                    return parse_object(data, self.url)
                message = f"{self.url} answered {status}: {error_of(data)}"
                if status not in BUSY:
                    raise ServerError(message)
                pause = max(pause, retry_after)
            if attempt == ATTEMPTS or self.is_stopped.wait(min(pause, MAX_PAUSE_SECONDS)):
                raise ServerError(message)
            pause *= 2
        raise AssertionError

    def _post(self, path: str, body: bytes) -> tuple[int, float, bytes]:
        connection = getattr(self.local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self.is_secure else http.client.HTTPConnection
            connection = kind(self.host, self.port, timeout=TIMEOUT_SECONDS)
            self.local.connection = connection
            self.connections.append(connection)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", self.prefix + path, body, headers)
        response = connection.getresponse()
        retry_after = response.getheader("Retry-After", "")
        return (
            response.status,
            float(retry_after if retry_after.isdecimal() else 0),
            response.read(),
        )

    def _close(self) -> None:
        connection = getattr(self.local, "connection", None)
        if connection is not None:
            connection.close()
            self.connections.remove(connection)
            self.local.connection = None


def in_requests(texts: Sequence[str]) -> list[list[str]]:
    """Groups texts into requests within the limits, in order."""
    requests: list[list[str]] = []
    num_chars = 0
    for text in texts:
        if not requests or len(requests[-1]) == MAX_TEXTS or num_chars + len(text) > MAX_CHARS:
            requests.append([])
            num_chars = 0
        requests[-1].append(text)
        num_chars += len(text)
    return requests


def parse_object(data: bytes, url: str) -> dict[str, Any]:
    """Returns the JSON object of a reply.

    Raises:
        ServerError: The reply is not a JSON object.
    """
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ServerError(f"{url} did not answer with JSON; is it a Regard server?")
    return value


def error_of(data: bytes) -> str:
    """Returns the error text of a reply with its details, or the start of the reply."""
    try:
        body = json.loads(data)
        details = f"; {body['details']}" if "details" in body else ""
        return f"{body['error']}{details}"[:SHOWN_CHARS]
    except (ValueError, KeyError, TypeError):
        return data[:SHOWN_CHARS].decode("utf-8", errors="replace")
