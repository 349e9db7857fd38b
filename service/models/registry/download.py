"""One file from a registry: resumed where it broke off, checked, and put into place whole.

What is on its way lies beside its place as `NAME.part`. Only a file whose size and sum are right
is ever called NAME.
"""

import errno
import fcntl
import gzip
import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from service.models.registry.errors import CacheError, DamagedFileError, DiskFullError
from service.models.registry.http_client import (
    BLOCK_BYTES,
    HttpClient,
    PassingError,
    RangeRefusedError,
    Response,
    shown,
)
from service.models.registry.remote import RemoteFile

PART = ".part"
ETAG = ".etag"
UNPACKED = ".unpacked"
GZIP_MAGIC = b"\x1f\x8b"
MAX_UNPACKED_BYTES = 1 << 36
FULL = (errno.ENOSPC, errno.EDQUOT)

Report = Callable[[int, int | None], None]
"""Told how many bytes there are, and how many there will be, where that is known."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that is in its place.

    Attributes:
        name: Its path inside the model's folder.
        size: In bytes.
        sha256: Its sum.
    """

    name: str
    size: int
    sha256: str


def download(
    file: RemoteFile, folder: Path, http: HttpClient, report: Report, token: str = ""
) -> StoredFile:
    """Fetches a file into a folder.

    Whatever ends it, an exception or the machine, what was fetched is kept, and the next call
    goes on from there; but what turns out to be wrong is thrown away.

    Raises:
        RegistryError: It cannot be had or written, or is not what was published.
    """
    target = folder / file.name
    part = target.with_name(target.name + PART)
    with _disk_trouble_told(target), _locked(part) as output:
        fetch = _Fetch(file, target, part, output, http, report, token)
        http.persevere(file.url, fetch.advance)
        finished = _unpack(part, file, target) if file.is_packed else part
        stored = check(file, finished, target)
        _make_durable(finished)
        os.replace(finished, target)
        for left in (part, _etag_of(part)):
            left.unlink(missing_ok=True)
        _make_durable(target.parent)
    return stored


class _Fetch:
    """A file on its way: each try goes on where the last one ended."""

    def __init__(
        self,
        file: RemoteFile,
        target: Path,
        part: Path,
        output: BinaryIO,
        http: HttpClient,
        report: Report,
        token: str,
    ) -> None:
        self.file, self.target, self.part = file, target, part
        self.output, self.http = output, http
        self.report, self.token = report, token
        self.furthest = 0

    def advance(self) -> None:
        """One try.

        Raises:
            PassingError: It broke off.
        """
        offset = self.output.seek(0, os.SEEK_END)
        etag = _read_etag(self.part)
        if offset and not etag:  # nothing would tell whether the rest is of the same file
            offset = self.output.truncate(self.output.seek(0))
        try:
            with self.http.open(self.file.url, self._headers(offset, etag), self.token) as response:
                self._write(response, self._begin(response, offset))
        except RangeRefusedError as error:
            if error.size != offset:
                self.output.truncate(self.output.seek(0))
                raise PassingError("it is shorter than what is here already") from error

    def _headers(self, offset: int, etag: str) -> dict[str, str]:
        # Packed files are asked for as they are stored: the bucket would unpack them on the way,
        # and then they have no length and cannot be resumed.
        headers = {"Accept-Encoding": "gzip" if self.file.is_packed else "identity"}
        if offset:
            headers |= {"Range": f"bytes={offset}-", "If-Range": etag}
        return headers

    def _begin(self, response: Response, offset: int) -> int:
        """Where the body belongs; the server may give the whole file where a part was asked for."""
        start = offset if response.status == 206 else 0
        span = response.headers.get("Content-Range", "")
        if response.status == 206 and not span.startswith(f"bytes {offset}-"):
            self.output.truncate(self.output.seek(0))
            raise PassingError(f"it gave {span or 'something else'} for the bytes from {offset} on")
        self.output.truncate(self.output.seek(start))
        etag = response.headers.get("ETag", "")
        _etag_of(self.part).write_text("" if etag.startswith("W/") else etag, "utf-8")
        return start

    def _write(self, response: Response, start: int) -> None:
        total = None if response.length is None else start + response.length
        done, most = start, None if self.file.is_packed else self.file.size
        self.report(done, total)
        try:
            for block in response.blocks():
                _write_all(self.output, block, total and total - done, self.target)
                done += len(block)
                self.report(done, total)
                if most is not None and done > most:  # or it would go on until the disk is full
                    _refuse(self.file, self.target, f"has more than {most} bytes", self.part)
        except PassingError as error:
            # A server that begins anew each time, and never gets further, is not waited for.
            error.has_moved = done > max(start, self.furthest)
            self.furthest = max(done, self.furthest)
            raise


@contextmanager
def _locked(part: Path) -> Iterator[BinaryIO]:
    """The file, open to be written, for this process alone."""
    part.parent.mkdir(parents=True, exist_ok=True)
    # Unbuffered: what was received is on its way to the disk whatever happens next.
    with part.open("ab", buffering=0) as output:
        try:
            fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CacheError(f"{part} is being written by another `regard`; wait for it") from error
        # Who held the lock may have put the file into place since it was opened here.
        if not part.exists() or not os.path.samestat(os.fstat(output.fileno()), part.stat()):
            raise CacheError(f"{part} was finished by another `regard`; run the same command again")
        yield output


@contextmanager
def _disk_trouble_told(target: Path) -> Iterator[None]:
    """Turns what the file system refuses into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            _tell_full(target, None, error)
        raise CacheError(
            f"{target} cannot be written: {error.strerror or error}; "
            "set REGARD_MODEL_CACHE to a folder that can"
        ) from error


def _write_all(output: BinaryIO, block: bytes, missing: int | None, target: Path) -> None:
    """Writes a block; `missing` is how much of the file, this block included, is still to come."""
    rest = memoryview(block)
    try:
        while rest:
            written = output.write(rest)
            rest = rest[written:]
    except OSError as error:
        if error.errno in FULL:
            needed = None if missing is None else missing - (len(block) - len(rest))
            _tell_full(target, needed, error)
        raise


def _tell_full(target: Path, needed: int | None, error: OSError) -> NoReturn:
    amount = "more space is needed" if needed is None else f"{needed} more bytes are needed"
    raise DiskFullError(
        f"the disk is full: {target} cannot be written, {amount}. What was downloaded is kept: "
        "free some space and run the same command, or set REGARD_MODEL_CACHE to another disk"
    ) from error


def require_space(folder: Path, needed: int) -> None:
    """Sees to it that a download is not begun that cannot end well.

    Raises:
        DiskFullError: There is less space than that.
    """
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise DiskFullError(
            f"{needed} bytes are needed in {folder}, and {free} are free; "
            "free some space, or set REGARD_MODEL_CACHE to another disk"
        )


def _unpack(part: Path, file: RemoteFile, target: Path) -> Path:
    """The file without its packing; the part itself where it has none."""
    with part.open("rb") as packed:
        if packed.read(len(GZIP_MAGIC)) != GZIP_MAGIC:
            return part
    unpacked = target.with_name(target.name + UNPACKED + PART)
    try:
        with gzip.open(part, "rb") as source, unpacked.open("wb", buffering=0) as output:
            _copy(source, output, file, target)  # type: ignore[arg-type]
    except (EOFError, gzip.BadGzipFile, zlib.error, DamagedFileError) as error:
        _refuse(file, target, f"cannot be unpacked: {error}", part, unpacked)
    except BaseException:  # the packed file is kept, it takes a second to unpack it again
        unpacked.unlink(missing_ok=True)
        raise
    return unpacked


def _copy(source: BinaryIO, output: BinaryIO, file: RemoteFile, target: Path) -> None:
    limit = MAX_UNPACKED_BYTES if file.size is None else file.size
    done = 0
    while block := source.read(BLOCK_BYTES):
        missing = None if file.size is None else file.size - done
        done += len(block)
        if done > limit:
            raise DamagedFileError(f"it has more than {limit} bytes")
        _write_all(output, block, missing, target)


def check(file: RemoteFile, path: Path, target: Path) -> StoredFile:
    """Compares what was fetched with what was published; what differs is thrown away.

    Args:
        file: What was published.
        path: What was fetched.
        target: What it is for.

    Raises:
        DamagedFileError: They differ.
    """
    stored = measure(file.name, path)
    reason = difference(stored, file, path)
    if reason is not None:
        _refuse(file, target, reason, path, target.with_name(target.name + PART))
    return stored


def measure(name: str, path: Path) -> StoredFile:
    """Size and sum of a file."""
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        return StoredFile(name, content.tell(), digest)


def difference(stored: StoredFile, file: RemoteFile, path: Path) -> str | None:
    """In what a file differs from what was published; None where it does not."""
    if file.size is not None and stored.size != file.size:
        return f"has {stored.size} bytes, not {file.size}"
    if file.sha256 is not None and stored.sha256 != file.sha256:
        return f"has the sha256 sum {stored.sha256}, not {file.sha256}"
    if file.git_sha1 is not None and (found := _git_sha1(path, stored.size)) != file.git_sha1:
        return f"has the id {found} in git, not {file.git_sha1}"
    return None


def _git_sha1(path: Path, size: int) -> str:
    """What git calls a file: the sum of a header and its content."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as content:
        while block := content.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _refuse(file: RemoteFile, target: Path, reason: str, *paths: Path) -> NoReturn:
    """Throws away what was fetched, and says why."""
    for path in paths:
        path.unlink(missing_ok=True)
        _etag_of(path).unlink(missing_ok=True)
    raise DamagedFileError(
        f"{target}: what {shown(file.url)} gives {reason}; "
        "it was thrown away, run the same command again"
    )


def _etag_of(part: Path) -> Path:
    return part.with_name(part.name + ETAG)


def _read_etag(part: Path) -> str:
    try:
        return _etag_of(part).read_text("utf-8")
    except FileNotFoundError:
        return ""


def _make_durable(path: Path) -> None:
    """Lets a crash of the machine not undo what was just written there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
