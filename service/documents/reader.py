"""Reads and writes documents in a process of its own, so that no document can harm the server.

The process runs `python -m service.documents.reader SOCKET MAX_BYTES MAX_SECONDS`, where SOCKET is
the descriptor of an inherited socket. It forks a child with these limits for each
request. It ends when a child fails, or when the server closes the socket. The socket carries texts
and the descriptors of documents. The process opens no other file.
"""

import asyncio
import ctypes
import errno
import gc
import json
import logging
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from service.documents.base import DocumentError, DocumentTooLargeError
from service.documents.formats import Document, read_document
from service.documents.tagged import plain_text
from service.errors import FULL_DISK, fault, stopping
from service.ipc.processes import module_command
from service.state.documents import Content
from service.text.messages import without_syntax

logger = logging.getLogger("regard.documents")

# Memory for reading or writing a document: at least MIN_MEMORY, and MEMORY_FACTOR times
# REGARD_MAX_FILE_BYTES. With the default of that setting, the limit is 500 MiB.
MIN_MEMORY = 256 * 1024 * 1024
MEMORY_FACTOR = 25

# Processor time for reading a document, and again for writing it.
MAX_SECONDS = 60

# Priority of the process. On a busy machine, requests for sentences go first.
NICENESS = 10

# Largest size of the texts of a document with their tags, in UTF-8.
MAX_TEXT_BYTES = 64 * 1024 * 1024

# Limits on the sample from which a document's language is detected.
SAMPLE_TEXTS = 100
SAMPLE_CHARS = 4000

# Exit statuses of a child that does not answer.
CHILD_FAILED, NO_MEMORY, NO_SPACE = 3, 4, 5

# The first part of an answer. The other parts are the result, or the reason of a refusal.
DONE, DAMAGED, TOO_LARGE, FAULT = b"done", b"damaged", b"too large", b"fault"

_BEGIN = b"\0"  # the byte that carries the descriptor of a document

# The option PR_SET_PDEATHSIG of prctl.
_DIE_WITH_PARENT = 1


@dataclass(frozen=True, slots=True)
class ReadDocument:
    texts: list[str]
    num_bytes: int  # of the texts, in UTF-8
    is_html: bool
    num_chars: int  # of the words, without tags
    sample: str  # some of the words, from which the language is detected
    skipped: dict[str, int]  # numbers of images and equations


class DocumentReader:
    """Reads and writes documents, one at a time, in a process that is replaced if it fails."""

    def __init__(
        self, max_file_bytes: int, max_seconds: int = MAX_SECONDS, keeps_fuzzy: bool = False
    ) -> None:
        self.keeps_fuzzy = keeps_fuzzy
        self.max_bytes = max(MIN_MEMORY, MEMORY_FACTOR * max_file_bytes)
        self.max_seconds = max_seconds
        self.lock = asyncio.Lock()
        self.process: _Process | None = None
        self.is_closed = False

    async def read(self, name: str, content: Content) -> ReadDocument:
        """Reads a document, or raises a DocumentError."""
        about, *texts = await self._ask(content, [name])
        return ReadDocument(texts, **json.loads(about))

    async def write(
        self, name: str, content: Content, translations: Iterable[str], language: str
    ) -> None:
        """Reads a document again, and replaces it by one with translations of its texts."""
        await self._ask(content, chain((name, language), translations))

    def close(self) -> None:
        self.is_closed = True
        if self.process is not None:
            self.process.close()

    async def _ask(self, content: Content, request: Iterable[str]) -> list[str]:
        """Returns the parts of an answer. Cancelling ends the process."""
        async with self.lock:
            if self.is_closed:
                raise stopping()
            if self.process is None or self.process.has_ended:
                self.process = _Process(self.max_bytes, self.max_seconds)
            process = self.process
            request = chain((str(int(self.keeps_fuzzy)),), request)
            work = asyncio.create_task(asyncio.to_thread(process.ask, content, request))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                process.end()
                try:
                    with suppress(Exception):
                        await work  # the thread ends at once
                finally:
                    process.close()  # the thread may not have begun
                raise
            finally:
                del work  # its error refers to this frame, and so to the document


class _Process:
    def __init__(self, max_bytes: int, max_seconds: int) -> None:
        self.max_bytes = max_bytes
        self.max_seconds = max_seconds
        self.has_ended = False
        self.connection, theirs = socket.socketpair()
        with theirs:
            command = module_command("service.documents.reader")
            arguments = map(str, (theirs.fileno(), max_bytes, max_seconds))
            self.child = subprocess.Popen([*command, *arguments], pass_fds=[theirs.fileno()])
        with suppress(OSError):  # it has ended already
            os.setpriority(os.PRIO_PROCESS, self.child.pid, NICENESS)
        self.file = cast(BinaryIO, self.connection.makefile("rb"))

    def ask(self, content: Content, request: Iterable[str]) -> list[str]:
        """Returns the parts of an answer, or raises a DocumentError."""
        try:
            socket.send_fds(self.connection, [_BEGIN], [content.descriptor])
            self.connection.sendall(_packed([*map(_encoded, request)]))
            kind, *parts = _unpacked(self.file)
        except (OSError, EOFError, struct.error):  # the process has ended
            status = self.child.wait()
            self.close()
            raise self._failure(status) from None
        if kind == DONE:
            return [part.decode() for part in parts]
        reason = parts[0].decode()
        if kind == FAULT:
            logger.error("a document cannot be read: %s", reason)
            reason = "the reader of documents has failed; the server's log says where"
        raise DocumentTooLargeError(reason) if kind == TOO_LARGE else DocumentError(reason)

    def end(self) -> None:
        """Ends the process at once. A thread in `ask` then gets an error."""
        self.has_ended = True
        self.child.kill()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        self.child.wait()
        self.file.close()
        self.connection.close()

    def _failure(self, status: int) -> Exception:
        """Returns the error for a process that has ended with a status."""
        if status == 128 + signal.SIGXCPU:
            limit = f"{self.max_seconds} s of processor time"
            return DocumentTooLargeError(f"the document takes more than {limit}; split it")
        if status in (NO_MEMORY, 128 + signal.SIGKILL, -signal.SIGKILL):
            return DocumentTooLargeError(  # the kernel kills the process if it has no memory left
                f"the document takes more than {self.max_bytes} bytes of memory; split it, or "
                f"raise REGARD_MAX_FILE_BYTES: the limit is {MEMORY_FACTOR} times as high"
            )
        if status == NO_SPACE:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if status > 128:
            return DocumentError("the document ends the process that reads it; save it again")
        return RuntimeError(f"the reader of documents has ended with status {status}")


def _packed(parts: Sequence[bytes]) -> bytes:
    """Returns a message: the number of its parts, their lengths, and the parts."""
    lengths = struct.pack(f"!I{len(parts)}Q", len(parts), *map(len, parts))
    return b"".join((lengths, *parts))


def _unpacked(file: BinaryIO) -> list[bytes]:
    (number,) = struct.unpack("!I", file.read(4))
    lengths = struct.unpack(f"!{number}Q", file.read(8 * number))
    parts = [file.read(length) for length in lengths]
    if len(parts[-1]) < lengths[-1]:
        raise EOFError
    return parts


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")


def answer(request: Sequence[bytes], keeps_fuzzy: bool = False) -> list[bytes]:
    """Returns the parts of the answer to a name, a content and, to write, language and texts."""
    name, data, *rest = request
    try:
        document = read_document(name.decode(), data, keeps_fuzzy)
        texts = document.texts()
        if rest:
            language, *translations = (part.decode() for part in rest)
            return [DONE, document.write(translations, language)]
        return [DONE, *_described(document, texts)]
    except DocumentTooLargeError as error:
        return [TOO_LARGE, _encoded(str(error))]
    except DocumentError as error:
        return [DAMAGED, _encoded(str(error))]
    except RecursionError:
        return [DAMAGED, b"the elements of the document are nested too deep"]
    except MemoryError:
        raise
    except Exception as error:
        return [FAULT, _encoded(fault(error))]


def _described(document: Document, texts: Sequence[str]) -> list[bytes]:
    """Returns the other fields of a ReadDocument in JSON, and the texts."""
    encoded = [*map(_encoded, texts)]
    size = sum(map(len, encoded))
    if size > MAX_TEXT_BYTES:
        raise DocumentTooLargeError(
            f"the texts of the document have {size} bytes; the limit is {MAX_TEXT_BYTES}. Split it"
        )
    step = len(texts) // SAMPLE_TEXTS + 1
    words = plain_text if document.is_html else str
    sample = [
        words(without_syntax(text, document.is_html))[:SAMPLE_CHARS] for text in texts[::step]
    ]
    about = {
        "num_bytes": size,
        "is_html": document.is_html,
        "num_chars": sum(len(words(text)) for text in texts),
        "sample": "\n".join(sample)[:SAMPLE_CHARS],
        "skipped": document.skipped,
    }
    return [json.dumps(about).encode(), *encoded]


def _limit(max_bytes: int, max_seconds: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    max_bytes += pages * resource.getpagesize()
    for kind, wanted in ((resource.RLIMIT_AS, max_bytes), (resource.RLIMIT_CPU, max_seconds)):
        _, hard = resource.getrlimit(kind)
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (soft, hard))


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _answer_one(connection: socket.socket) -> list[bytes]:
    """Returns the answer to a request. A written document replaces the one that was read."""
    _, (descriptor,), *_ = socket.recv_fds(connection, len(_BEGIN), 1)
    keeps_fuzzy, name, *rest = _unpacked(connection.makefile("rb"))
    with open(descriptor, "r+b") as file:
        file.seek(0)
        kind, *parts = answer([name, file.read(), *rest], keeps_fuzzy == b"1")
        if rest and kind == DONE:
            file.seek(0)
            file.truncate()
            file.write(parts.pop())
    return [kind, *parts]


def _serve_one(connection: socket.socket, max_bytes: int, max_seconds: int) -> None:
    """Answers one request in a child. If the child fails, this process ends with its status."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        status = CHILD_FAILED
        try:
            _end_with_parent()
            _limit(max_bytes, max_seconds)
            if os.getppid() != parent:  # the parent has ended before the call of prctl
                raise ProcessLookupError
            connection.sendall(_packed(_answer_one(connection)))
            status = 0
        except MemoryError:
            status = NO_MEMORY
        except OSError as error:
            status = NO_SPACE if error.errno in FULL_DISK else CHILD_FAILED
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    status = os.waitstatus_to_exitcode(ended)
    if status:
        sys.exit(128 - status if status < 0 else status)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # without memory, the kernel is to end this process and not the server
        Path("/proc/self/oom_score_adj").write_text("1000")
    connection = socket.socket(fileno=int(sys.argv[1]))
    gc.freeze()
    while connection.recv(1, socket.MSG_PEEK):
        _serve_one(connection, *map(int, sys.argv[2:]))


if __name__ == "__main__":
    main()
