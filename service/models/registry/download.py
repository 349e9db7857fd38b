"""HTTP GET with retries, and the download of one file: unpack, check, rename when complete.

The client is httpx2, as in huggingface_hub. It uses the proxies set in environment variables and
the certificates of the system.
"""

import errno
import hashlib
import json
import shutil
import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from huggingface_hub.utils.tqdm import tqdm

from service.disk import complete_file
from service.models.registry.errors import RegistryError, TransientError
from service.models.registry.files import BLOCK_BYTES, ModelFile, difference

T = TypeVar("T")

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)
MAX_PAUSE_SECONDS = 60.0
TIMEOUT_SECONDS = 30.0
MAX_JSON_BYTES = 1 << 26

GZIP_MAGIC = b"\x1f\x8b"
MAX_UNPACKED_BYTES = 1 << 36
CACHE_SETTING = "REGARD_MODEL_CACHE"
FULL = (errno.ENOSPC, errno.EDQUOT)


def fetching_forbidden(reference: object, setting: str = "REGARD_OFFLINE") -> RegistryError:
    return RegistryError(
        f"{reference} has to be fetched, and {setting} forbids it; pull it on a machine with a "
        "network, and copy the folder REGARD_MODEL_CACHE from there"
    )


def open_client(timeout_seconds: float = TIMEOUT_SECONDS) -> httpx2.Client:
    """Returns a client that follows redirects, but never from https to http."""
    return httpx2.Client(
        follow_redirects=True,
        timeout=timeout_seconds,
        headers={"User-Agent": "regard"},
        event_hooks={"response": [refuse_downgrade]},
    )


def refuse_downgrade(response: httpx2.Response) -> None:
    location = response.headers.get("Location", "")
    if response.url.scheme == "https" and location.lower().startswith("http:"):
        raise RegistryError(f"{shown(response.url)} redirects away from https, which is refused")


class HttpClient:
    """Sends GET requests and retries transient failures."""

    def __init__(
        self, sleep: Callable[[float], None] = time.sleep, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._sleep = sleep
        self._client = open_client(timeout_seconds)

    @contextmanager
    def open(self, url: str, headers: Mapping[str, str]) -> Iterator[httpx2.Response]:
        try:
            with self._client.stream("GET", url, headers=dict(headers)) as response:
                if response.status_code >= 400:
                    raise status_error(response)
                yield response
        except httpx2.RequestError as error:
            raise request_error(url, error) from error

    def retry(self, url: str, action: Callable[[], T]) -> T:
        """Repeats an action while it raises TransientError, and returns its result."""
        pauses = list(PAUSES_SECONDS)
        while True:
            try:
                return action()
            except TransientError as error:
                if not pauses:
                    tries = len(PAUSES_SECONDS) + 1
                    raise RegistryError(
                        f"{shown(url)} failed {tries} times: {error}; try again later"
                    ) from error
                asked = min(error.retry_after_seconds, MAX_PAUSE_SECONDS)
                self._sleep(max(pauses.pop(0), asked))

    def read_json(self, url: str) -> Any:
        def read() -> bytes:
            body = bytearray()
            with self.open(url, {"Accept-Encoding": "identity"}) as response:
                for block in response.iter_raw():
                    body += block
                    if len(body) > MAX_JSON_BYTES:
                        raise RegistryError(
                            f"{shown(url)} has more than {MAX_JSON_BYTES} bytes of JSON"
                        )
            return bytes(body)

        body = self.retry(url, read)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RegistryError(f"{shown(url)} is not JSON: {error}") from error


def status_error(response: httpx2.Response) -> Exception:
    status, where = response.status_code, shown(response.url)
    if status in TRANSIENT_STATUSES:
        after = response.headers.get("Retry-After", "")
        return TransientError(
            f"the server answers {status}",
            float(after) if after.isascii() and after.isdigit() else 0.0,
        )
    reasons = {404: "does not exist", 410: "does not exist", 401: "is refused", 403: "is refused"}
    reason = f"{reasons[status]} ({status})" if status in reasons else f"answers {status}"
    return RegistryError(f"{where} {reason}")


def request_error(url: str, error: httpx2.RequestError) -> Exception:
    reason = str(error) or type(error).__name__
    is_transport_error = isinstance(error, httpx2.TransportError)
    if not is_transport_error or isinstance(error, httpx2.UnsupportedProtocol):
        return RegistryError(f"{shown(url)} cannot be fetched: {reason}")
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes(error)):
        return RegistryError(f"the certificate of {shown(url)} is not trusted: {reason}")
    return TransientError(reason)


def causes(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


def shown(url: object) -> str:
    """Returns an address without password and query, so that it is safe to show in messages."""
    parts = urlsplit(str(url))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def download(file: ModelFile, folder: Path, http: HttpClient) -> ModelFile:
    """Fetches a file into a folder, unpacks and checks it. After a failure, no part of it stays."""
    target = folder / file.name
    with disk_errors(target):
        return http.retry(file.url, lambda: _fetch(file, target, http))


def _fetch(file: ModelFile, target: Path, http: HttpClient) -> ModelFile:
    # A response that the server unpacks while it sends it has no Content-Length.
    headers = {"Accept-Encoding": "gzip" if file.is_packed else "identity"}
    limit = MAX_UNPACKED_BYTES if file.size is None else file.size
    digest, size = hashlib.sha256(), 0
    with http.open(file.url, headers) as response, complete_file(target, True) as output:
        blocks = _received(response, file)
        try:
            for block in _unpacked(blocks) if file.is_packed else blocks:
                output.write(block)
                digest.update(block)
                size += len(block)
                if size > limit:  # more bytes could fill the disk
                    raise damaged_download(file, target, f"has more than {limit} bytes")
        except (EOFError, zlib.error) as error:
            raise damaged_download(file, target, f"cannot be unpacked: {error}") from error
        stored = ModelFile(file.name, size, digest.hexdigest())
        if reason := difference(stored, file, target):
            raise damaged_download(file, target, reason)
    return stored


def _received(response: httpx2.Response, file: ModelFile) -> Iterator[bytes]:
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isascii() and length.isdigit() else None
    options = {"desc": file.name, "total": file.size or total, "unit": "B", "unit_scale": True}
    with tqdm(**options, disable=None) as bar:  # type: ignore[no-untyped-call]
        for block in response.iter_raw(BLOCK_BYTES):
            bar.update(len(block))
            yield block


def _unpacked(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the content of a file, which the server may have unpacked already."""
    first = next(blocks, b"")
    whole = chain([first], blocks)
    if not first.startswith(GZIP_MAGIC):
        yield from whole
        return
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    for block in whole:
        packed = block
        while packed:
            yield unpacker.decompress(packed, BLOCK_BYTES)
            packed = unpacker.unconsumed_tail
    yield unpacker.flush()
    if not unpacker.eof:
        raise EOFError("the file is cut short")


def damaged_download(file: ModelFile, target: Path, reason: str) -> RegistryError:
    return RegistryError(
        f"{target}: the download from {shown(file.url)} {reason}; "
        "it was deleted, run the same command again"
    )


@contextmanager
def disk_errors(target: Path, setting: str = CACHE_SETTING) -> Iterator[None]:
    """Turns errors of the file system into errors of this package.

    `setting` is the environment variable that names the folder of the file `target`.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise RegistryError(
                f"the disk is full: {target} cannot be written. Complete files are kept: free some "
                f"space and run the same command, or set {setting} to another disk"
            ) from error
        raise RegistryError(
            f"{target} cannot be written: {error.strerror or error}; "
            f"set {setting} to a folder that can be written"
        ) from error


def require_space(folder: Path, needed: int, setting: str = CACHE_SETTING) -> None:
    """Checks that `needed` bytes fit on the disk of a folder, which `setting` names."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise RegistryError(
            f"{needed} bytes are needed in {folder}, and {free} are free; "
            f"free some space, or set {setting} to another disk"
        )
