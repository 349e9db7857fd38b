"""Reads and writes documents in the process of `service.documents.reader`."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, TypeVar, cast

from service.documents.base import DocumentError, DocumentTooLargeError
from service.documents.reader import NO_MEMORY, Answer, pack, unpack
from service.errors import UnavailableError
from service.ipc.processes import module_command

logger = logging.getLogger("regard.documents")

T = TypeVar("T")

MIN_MEMORY = 256 * 1024 * 1024
MEMORY_FACTOR = 25
"""Memory for reading or writing a document, as a multiple of REGARD_MAX_FILE_BYTES.

With the default of that setting, the limit is 500 MiB.
"""

NICENESS = 10
"""Priority of the process. On a busy machine, requests for sentences go first."""

MAX_SECONDS = 60
"""Processor time for reading a document, and again for writing it."""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document that has been read.

    Attributes:
        is_html: Whether the texts and their translations are HTML.
        num_chars: Number of characters of the words.
        sample: Some of the words, from which the language is detected.
        texts: Texts to translate, in the order of the document.
        num_bytes: Size of the texts in UTF-8.
    """

    is_html: bool
    num_chars: int
    sample: str
    texts: list[str]
    num_bytes: int


class DocumentReader:
    """Reads and writes documents in a process with limits, one at a time.

    The process starts with the first document. A process that has failed is replaced.

    Args:
        max_file_bytes: Largest size of a document.
        max_seconds: Processor time for one document.
    """

    def __init__(self, max_file_bytes: int, max_seconds: int = MAX_SECONDS) -> None:
        self.max_bytes = max(MIN_MEMORY, MEMORY_FACTOR * max_file_bytes)
        self.max_seconds = max_seconds
        self.lock = asyncio.Lock()
        self.process: _Process | None = None
        self.is_closed = False

    async def read(self, name: str, data: bytes) -> ReadDocument:
        """Returns the texts of a document.

        Raises:
            DocumentError: The document is damaged or too large.
        """

        def read(process: _Process) -> ReadDocument:
            is_html, num_chars, sample, *texts = process.ask([_encoded(name), data])
            return ReadDocument(
                bool(is_html),
                int(num_chars),
                sample.decode(),
                [text.decode() for text in texts],
                sum(map(len, texts)),
            )

        return await self._run(read)

    async def write(
        self, name: str, data: bytes, translations: Sequence[str], language: str
    ) -> bytes:
        """Returns a document with translations of its texts. The document is read again.

        Raises:
            DocumentError: The document is too large.
        """

        def write(process: _Process) -> bytes:
            parts = map(_encoded, (language, *translations))
            (written,) = process.ask([_encoded(name), data, *parts])
            return written

        return await self._run(write)

    def close(self) -> None:
        """Ends the process. No other process is started."""
        self.is_closed = True
        if self.process is not None:
            self.process.close()

    async def _run(self, ask: "Callable[[_Process], T]") -> T:
        """Returns the result of `ask`, which runs in a thread. Cancelling ends the process."""
        async with self.lock:
            if self.is_closed:
                raise UnavailableError("the server is stopping; try again", 1)
            if self.process is None or self.process.has_ended:
                self.process = _Process(self.max_bytes, self.max_seconds)
            process = self.process
            work = asyncio.create_task(asyncio.to_thread(ask, process))
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
    """A started process.

    Args:
        max_bytes: Memory for one document.
        max_seconds: Processor time for one document.
    """

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

    def ask(self, request: Sequence[bytes]) -> list[bytes]:
        """Returns the parts of an answer.

        Raises:
            DocumentError: The document is damaged or too large, or has ended the process.
        """
        try:
            self.connection.sendall(pack(request))
            kind, *parts = unpack(self.file)
        except (OSError, EOFError):
            status = self.child.wait()
            self.close()
            raise self._failure(status) from None
        if kind == Answer.DONE:
            return parts
        reason = parts[0].decode()
        if kind == Answer.FAULT:
            logger.error("a document cannot be read: %s", reason)
            raise DocumentError("the reader of documents has failed; the server's log says where")
        raise DocumentTooLargeError(reason) if kind == Answer.TOO_LARGE else DocumentError(reason)

    def end(self) -> None:
        """Ends the process at once. A thread in `ask` then gets an error."""
        self.has_ended = True
        self.child.kill()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the process, and waits for its end."""
        self.end()
        self.child.wait()
        self.file.close()
        self.connection.close()

    def _failure(self, status: int) -> Exception:
        """Returns the error for a process that has ended with a status."""
        if status == 128 + signal.SIGXCPU:
            return DocumentTooLargeError(
                f"the document takes more than {self.max_seconds} s of processor time; split it"
            )
        if status in (NO_MEMORY, 128 + signal.SIGKILL, -signal.SIGKILL):
            return DocumentTooLargeError(  # the kernel kills the process if it has no memory left
                f"the document takes more than {self.max_bytes} bytes of memory; split it, or "
                f"raise REGARD_MAX_FILE_BYTES: the limit is {MEMORY_FACTOR} times as high"
            )
        if status > 128:
            return DocumentError("the document ends the process that reads it; save it again")
        return RuntimeError(f"the reader of documents has ended with status {status}")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
