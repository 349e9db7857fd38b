"""Downloads one file: resumes after a failure, checks the file, and renames it when complete.

A partial download is called `NAME.part`. A complete download is unpacked if it is packed. After its
size and checksum have been checked, the file is renamed to NAME, in the same folder.
"""

import errno
import fcntl
import gzip
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

import httpx2

from service.models.registry.errors import (
    CacheError,
    DamagedFileError,
    DiskFullError,
    TransientError,
)
from service.models.registry.files import (
    BLOCK_BYTES,
    PARTIAL,
    PublishedFile,
    StoredFile,
    difference,
    measure,
)
from service.models.registry.sources.http_client import HttpClient, shown

ETAG = ".etag"
UNPACKED = ".unpacked"
GZIP_MAGIC = b"\x1f\x8b"
MAX_UNPACKED_BYTES = 1 << 36
CACHE_SETTING = "REGARD_MODEL_CACHE"
FULL = (errno.ENOSPC, errno.EDQUOT)

Report = Callable[[int, int | None], None]
"""Receives the number of bytes fetched so far, and the total number (None if unknown)."""


def download(file: PublishedFile, folder: Path, http: HttpClient, report: Report) -> StoredFile:
    """Fetches a file into a folder.

    If the transfer breaks, the fetched bytes are kept. The next call fetches only the rest if the
    server can tell that the file is unchanged. If the server cannot tell this, the next call
    fetches the whole file. Content that differs from the published file is deleted.
    """
    target = folder / file.name
    part = target.with_name(target.name + PARTIAL)
    with disk_errors(target), _locked(part) as output:
        transfer = _Transfer(file, target, part, output, http, report)
        http.retry(file.url, transfer.advance)
        finished = _unpack(part, file, target) if file.is_packed else part
        stored = _check(file, finished, target)
        _sync(finished)
        os.replace(finished, target)
        for left in (part, _etag_of(part)):
            left.unlink(missing_ok=True)
        _sync(target.parent)
    return stored


@dataclass
class _Transfer:
    """The transfer of one file.

    Each try resumes where the previous try ended. If the server gave no strong ETag, each try
    starts at the first byte.
    """

    file: PublishedFile
    target: Path
    part: Path
    output: BinaryIO
    http: HttpClient
    report: Report
    furthest: int = 0

    def advance(self) -> None:
        """Tries once to fetch the rest of the file."""
        offset = self.output.seek(0, os.SEEK_END)
        etag = _read_etag(self.part)
        if offset and not etag:  # without an ETag, the rest might belong to another version
            offset = self._truncate(0)
        with self.http.open(self.file.url, self._headers(offset, etag)) as response:
            if response.status_code != 416:
                self._write(response, self._begin(response, offset))
            elif response.headers.get("Content-Range") != f"bytes */{offset}":
                self._truncate(0)
                raise TransientError("the file is shorter than the part that was fetched before")

    def _headers(self, offset: int, etag: str) -> dict[str, str]:
        # Packed files are requested as they are stored. Without this header, the server may unpack
        # a file while sending it. Such a response has no Content-Length and cannot be resumed.
        headers = {"Accept-Encoding": "gzip" if self.file.is_packed else "identity"}
        if offset:
            headers |= {"Range": f"bytes={offset}-", "If-Range": etag}
        return headers

    def _begin(self, response: httpx2.Response, offset: int) -> int:
        """Cuts the partial file at the position of the response's first byte.

        Returns that position. It is 0 if the server sends the whole file.
        """
        start = offset if response.status_code == 206 else 0
        span = response.headers.get("Content-Range", "")
        if response.status_code == 206 and not span.startswith(f"bytes {offset}-"):
            self._truncate(0)
            raise TransientError(
                f"the server sent {span or 'no range'}, not the bytes from {offset} on"
            )
        self._truncate(start)
        etag = response.headers.get("ETag", "")
        _etag_of(self.part).write_text("" if etag.startswith("W/") else etag, "utf-8")
        return start

    def _write(self, response: httpx2.Response, start: int) -> None:
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isascii() and length.isdigit() else None
        done, limit = start, None if self.file.is_packed else self.file.size
        self.report(done, total)
        try:
            for block in response.iter_raw():
                _write_all(self.output, block, total and total - done, self.target)
                done += len(block)
                self.report(done, total)
                if limit is not None and done > limit:  # more bytes could fill the disk
                    _refuse(self.file, self.target, f"has more than {limit} bytes", self.part)
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
    # The file is unbuffered, so that no received bytes are lost if this process ends.
    with part.open("ab", buffering=0) as output:
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

    Args:
        target: File that is being written.
        setting: Environment variable that names the folder.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            _raise_disk_full(target, None, error, setting)
        raise CacheError(
            f"{target} cannot be written: {error.strerror or error}; "
            f"set {setting} to a folder that can be written"
        ) from error


def _write_all(output: BinaryIO, block: bytes, missing: int | None, target: Path) -> None:
    """Writes a block; `missing` is the number of bytes still to write, this block included."""
    rest = memoryview(block)
    try:
        while rest:
            written = output.write(rest)
            rest = rest[written:]
    except OSError as error:
        if error.errno in FULL:
            needed = None if missing is None else missing - (len(block) - len(rest))
            _raise_disk_full(target, needed, error)
        raise


def _raise_disk_full(
    target: Path, needed: int | None, error: OSError, setting: str = CACHE_SETTING
) -> NoReturn:
    amount = "more space is needed" if needed is None else f"{needed} more bytes are needed"
    raise DiskFullError(
        f"the disk is full: {target} cannot be written, {amount}. Complete files are kept: "
        f"free some space and run the same command, or set {setting} to another disk"
    ) from error


def require_space(folder: Path, needed: int, setting: str = CACHE_SETTING) -> None:
    """Checks that a download fits on the disk before it starts.

    Args:
        folder: Folder to download into.
        needed: Bytes that will be written.
        setting: Environment variable that names the folder.
    """
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise DiskFullError(
            f"{needed} bytes are needed in {folder}, and {free} are free; "
            f"free some space, or set {setting} to another disk"
        )


def _unpack(part: Path, file: PublishedFile, target: Path) -> Path:
    """Unpacks a fetched file and returns the new path; returns `part` if the file is not packed."""
    with part.open("rb") as packed:
        if packed.read(len(GZIP_MAGIC)) != GZIP_MAGIC:
            return part
    unpacked = target.with_name(target.name + UNPACKED + PARTIAL)
    try:
        with gzip.open(part, "rb") as source, unpacked.open("wb", buffering=0) as output:
            _copy(source, output, file, target)  # type: ignore[arg-type]
    except (EOFError, gzip.BadGzipFile, zlib.error, DamagedFileError) as error:
        _refuse(file, target, f"cannot be unpacked: {error}", part, unpacked)
    except BaseException:  # the packed file is kept; unpacking it again takes about a second
        unpacked.unlink(missing_ok=True)
        raise
    return unpacked


def _copy(source: BinaryIO, output: BinaryIO, file: PublishedFile, target: Path) -> None:
    limit = MAX_UNPACKED_BYTES if file.size is None else file.size
    done = 0
    while block := source.read(BLOCK_BYTES):
        missing = None if file.size is None else file.size - done
        done += len(block)
        if done > limit:
            raise DamagedFileError(f"it has more than {limit} bytes")
        _write_all(output, block, missing, target)


def _check(file: PublishedFile, path: Path, target: Path) -> StoredFile:
    """Compares a fetched file with the published one; deletes the fetched one if they differ."""
    stored = measure(file.name, path)
    reason = difference(stored, file, path)
    if reason is not None:
        _refuse(file, target, reason, path, target.with_name(target.name + PARTIAL))
    return stored


def _refuse(file: PublishedFile, target: Path, reason: str, *paths: Path) -> NoReturn:
    for path in paths:
        path.unlink(missing_ok=True)
        _etag_of(path).unlink(missing_ok=True)
    raise damaged_download(file, target, reason)


def damaged_download(file: PublishedFile, target: Path, reason: str) -> DamagedFileError:
    """Returns the error for a fetched file that differs from the published one."""
    return DamagedFileError(
        f"{target}: the download from {shown(file.url)} {reason}; "
        "it was deleted, run the same command again"
    )


def _etag_of(part: Path) -> Path:
    return part.with_name(part.name + ETAG)


def _read_etag(part: Path) -> str:
    try:
        return _etag_of(part).read_text("utf-8")
    except FileNotFoundError:
        return ""


def _sync(path: Path) -> None:
    """Waits until a file or folder is on the disk, so that it survives a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
