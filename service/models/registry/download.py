"""HTTP GET with retries, and the download of one file: resume, check, rename when complete.

The client is httpx2, as in huggingface_hub. It uses the proxies set in environment variables and
the certificates of the system. A partial download is called `NAME.part`.
"""

import errno
import fcntl
import gzip
import json
import os
import shutil
import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar
from urllib.parse import urlsplit

import httpx2

from service.models.registry.errors import (
    CacheError,
    DamagedFileError,
    RegistryError,
    TransientError,
)
from service.models.registry.files import BLOCK_BYTES, PARTIAL, ModelFile, difference, measure

T = TypeVar("T")

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)
MAX_PAUSE_SECONDS = 60.0
TIMEOUT_SECONDS = 30.0
MAX_JSON_BYTES = 1 << 26

ETAG = ".etag"
"""Suffix after PARTIAL of the file that keeps the strong ETag of a partial download."""

UNPACKED = f".unpacked{PARTIAL}"
GZIP_MAGIC = b"\x1f\x8b"
MAX_UNPACKED_BYTES = 1 << 36
CACHE_SETTING = "REGARD_MODEL_CACHE"
FULL = (errno.ENOSPC, errno.EDQUOT)

Report = Callable[[int, int | None], None]
"""Receives the number of bytes fetched so far, and the total number (None if unknown)."""


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
        """Sends one request. A response with status 416, a missing range, is yielded too."""
        try:
            with self._client.stream("GET", url, headers=dict(headers)) as response:
                if response.status_code >= 400 and response.status_code != 416:
                    raise status_error(response)
                yield response
        except httpx2.RequestError as error:
            raise request_error(url, error) from error

    def retry(self, url: str, action: Callable[[], T]) -> T:
        """Repeats an action while it raises TransientError, and returns its result.

        After a try that received new bytes, the count of tries starts again.
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


def download(file: ModelFile, folder: Path, http: HttpClient, report: Report) -> ModelFile:
    """Fetches a file into a folder, unpacks and checks it.

    If the transfer breaks, the fetched bytes are kept. The next call fetches only the rest if the
    server can tell that the file is unchanged. Content that differs from the published file is
    deleted.
    """
    target = folder / file.name
    part = _beside(target, PARTIAL)
    with disk_errors(target), _locked(part) as output:
        http.retry(file.url, _Transfer(file, target, output, http, report).advance)
        output.flush()
        finished = _unpack(part, file, target) if file.is_packed else part
        stored = measure(file.name, finished)
        if reason := difference(stored, file, finished):
            _refuse(file, target, reason)
        _sync(finished)
        os.replace(finished, target)
        _remove_partials(target)
        _sync(target.parent)
    return stored


@dataclass
class _Transfer:
    """The transfer of one file. Each try resumes where the previous try ended.

    If the server gave no strong ETag, each try starts at the first byte.
    """

    file: ModelFile
    target: Path
    output: BinaryIO
    http: HttpClient
    report: Report
    furthest: int = 0

    def advance(self) -> None:
        """Tries once to fetch the rest of the file."""
        tag = _beside(self.target, PARTIAL + ETAG)
        etag = tag.read_text("utf-8") if tag.exists() else ""
        # Without an ETag, the rest might belong to another version.
        offset = self.output.seek(0, os.SEEK_END) if etag else self._truncate(0)
        # Packed files are requested as they are stored. A response that the server unpacks while
        # it sends it has no Content-Length and cannot be resumed.
        headers = {"Accept-Encoding": "gzip" if self.file.is_packed else "identity"}
        if offset:
            headers |= {"Range": f"bytes={offset}-", "If-Range": etag}
        with self.http.open(self.file.url, headers) as response:
            span = response.headers.get("Content-Range", "")
            if response.status_code == 416 and span == f"bytes */{offset}":
                return  # the file has no more bytes
            is_range = response.status_code == 206 and span.startswith(f"bytes {offset}-")
            if response.status_code in (206, 416) and not is_range:
                self._truncate(0)
                raise TransientError(
                    f"the server sent {span or 'no range'}, not the bytes from {offset} on"
                )
            offset = self._truncate(offset if is_range else 0)
            etag = response.headers.get("ETag", "")
            tag.write_text("" if etag.startswith("W/") else etag, "utf-8")
            self._write(response, offset)

    def _write(self, response: httpx2.Response, start: int) -> None:
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isascii() and length.isdigit() else None
        done, limit = start, None if self.file.is_packed else self.file.size
        self.report(done, total)
        try:
            for block in response.iter_raw():
                self.output.write(block)
                done += len(block)
                self.report(done, total)
                if limit is not None and done > limit:  # more bytes could fill the disk
                    _refuse(self.file, self.target, f"has more than {limit} bytes")
        except httpx2.TransportError as error:
            # A try has progressed if it got further in the file than all earlier tries. After some
            # tries without progress, `HttpClient.retry` gives up.
            broken = TransientError(
                f"the connection broke after {done} of {total or 'an unknown number of'} bytes"
            )
            broken.has_progressed = done > max(start, self.furthest)
            self.furthest = max(done, self.furthest)
            raise broken from error

    def _truncate(self, size: int) -> int:
        return self.output.truncate(self.output.seek(size))


@contextmanager
def _locked(part: Path) -> Iterator[BinaryIO]:
    """Opens the partial file for writing, and locks it against other processes."""
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as output:
        try:
            fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CacheError(
                f"{part} is being written by another `regard`; wait until it has ended"
            ) from error
        # The process that held the lock may have renamed the file since it was opened here.
        if not part.exists() or not os.path.samestat(os.fstat(output.fileno()), part.stat()):
            raise CacheError(f"{part} was finished by another `regard`; run the same command again")
        yield output


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
        raise CacheError(
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


def _unpack(part: Path, file: ModelFile, target: Path) -> Path:
    with part.open("rb") as packed:
        if packed.read(len(GZIP_MAGIC)) != GZIP_MAGIC:
            return part
    unpacked = _beside(target, UNPACKED)
    limit = MAX_UNPACKED_BYTES if file.size is None else file.size
    done = 0
    try:
        with gzip.open(part, "rb") as source, unpacked.open("wb") as output:
            while block := source.read(BLOCK_BYTES):
                if done + len(block) > limit:
                    raise DamagedFileError(f"it has more than {limit} bytes")
                output.write(block)
                done += len(block)
    except (EOFError, gzip.BadGzipFile, zlib.error, DamagedFileError) as error:
        _refuse(file, target, f"cannot be unpacked: {error}")
    except BaseException:  # the packed file is kept; unpacking it again takes about a second
        unpacked.unlink(missing_ok=True)
        raise
    return unpacked


def _refuse(file: ModelFile, target: Path, reason: str) -> NoReturn:
    _remove_partials(target)
    raise damaged_download(file, target, reason)


def damaged_download(file: ModelFile, target: Path, reason: str) -> DamagedFileError:
    return DamagedFileError(
        f"{target}: the download from {shown(file.url)} {reason}; "
        "it was deleted, run the same command again"
    )


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(target.name + suffix)


def _remove_partials(target: Path) -> None:
    for suffix in (PARTIAL, PARTIAL + ETAG, UNPACKED):
        _beside(target, suffix).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
