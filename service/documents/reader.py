"""The process that reads and writes documents, so that a document cannot harm the server.

The command is `python -m service.documents.reader SOCKET MAX_BYTES MAX_SECONDS`. SOCKET is the
descriptor of an inherited socket. The process imports the formats once, and forks a child for each
request. The child may use MAX_BYTES of memory and MAX_SECONDS of processor time. The process ends
when a child fails, or when the server closes the socket. It writes no file.
"""

import ctypes
import gc
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from service.documents.base import Document, DocumentError, DocumentTooLargeError
from service.documents.formats import read_document
from service.errors import fault
from service.text.html.html_text import plain_text

MAX_TEXT_BYTES = 64 * 1024 * 1024
"""Largest size of the texts of a document with their tags, in UTF-8."""

SAMPLE_TEXTS = 100
SAMPLE_CHARS = 4000
"""SAMPLE_TEXTS and SAMPLE_CHARS limit the sample from which a document's language is detected."""

CHILD_FAILED, NO_MEMORY = 3, 4
"""Exit statuses of a child that does not answer."""

_DIE_WITH_PARENT = 1
"""The option PR_SET_PDEATHSIG of prctl."""


class Answer(bytes, Enum):
    """The first part of an answer; the other parts are the result, or the reason of a refusal."""

    DONE = b"done"
    DAMAGED = b"damaged"
    TOO_LARGE = b"too large"
    FAULT = b"fault"


def pack(parts: Sequence[bytes]) -> bytes:
    """Returns a message with the given parts."""
    lengths = struct.pack(f"!I{len(parts)}Q", len(parts), *map(len, parts))
    return b"".join((lengths, *parts))


def unpack(file: BinaryIO) -> list[bytes]:
    """Reads a message and returns its parts.

    Raises:
        EOFError: The message is incomplete, because the other process has ended.
    """
    (number,) = struct.unpack("!I", _exactly(file, 4))
    lengths = struct.unpack(f"!{number}Q", _exactly(file, 8 * number))
    return [_exactly(file, length) for length in lengths]


def _exactly(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise EOFError
    return data


def answer(request: Sequence[bytes]) -> list[bytes]:
    """Reads a document, or writes its translation.

    Args:
        request: The name and the content of the document. A request to write also has the target
            language and the translations.

    Returns:
        The parts of the answer. `_described` has the parts for a document that has been read.

    Raises:
        MemoryError: The document needs too much memory.
    """
    name, data, *rest = request
    try:
        document = read_document(name.decode(), data)
        texts = document.texts()
        if rest:
            language, *translations = (part.decode() for part in rest)
            return [Answer.DONE, document.write(translations, language)]
        return [Answer.DONE, *_described(document, texts)]
    except DocumentTooLargeError as error:
        return [Answer.TOO_LARGE, _encoded(str(error))]
    except DocumentError as error:
        return [Answer.DAMAGED, _encoded(str(error))]
    except RecursionError:
        return [Answer.DAMAGED, b"the elements of the document are nested too deep"]
    except MemoryError:
        raise
    except Exception as error:
        return [Answer.FAULT, _encoded(fault(error))]


def _described(document: Document, texts: Sequence[str]) -> list[bytes]:
    """Returns whether the texts are HTML, the number and a sample of their words, and the texts."""
    encoded = [*map(_encoded, texts)]
    size = sum(map(len, encoded))
    if size > MAX_TEXT_BYTES:
        raise DocumentTooLargeError(
            f"the texts of the document have {size} bytes; the limit is {MAX_TEXT_BYTES}. Split it"
        )
    words = map(plain_text, texts) if document.is_html else texts
    step = len(texts) // SAMPLE_TEXTS + 1
    num_chars, sample = 0, []
    for number, each in enumerate(words):
        num_chars += len(each)
        if number % step == 0:
            sample.append(each[:SAMPLE_CHARS])
    is_html = b"html" if document.is_html else b""
    return [is_html, b"%d" % num_chars, _encoded("\n".join(sample)[:SAMPLE_CHARS]), *encoded]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")


def _limit(max_bytes: int, max_seconds: int) -> None:
    """Limits the memory and the processor time of this process, which is a child."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    max_bytes += pages * resource.getpagesize()
    for kind, wanted in ((resource.RLIMIT_AS, max_bytes), (resource.RLIMIT_CPU, max_seconds)):
        _, hard = resource.getrlimit(kind)
        is_higher = hard != resource.RLIM_INFINITY and wanted > hard
        resource.setrlimit(kind, (hard if is_higher else wanted, hard))


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _serve_one(connection: socket.socket, *limits: int) -> None:
    """Answers one request in a child, and waits for the child.

    Raises:
        SystemExit: The child has failed. The status is 128 and the number of the signal that ended
            the child, or the child's own status.
    """
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        status = CHILD_FAILED
        try:
            _end_with_parent()
            _limit(*limits)
            if os.getppid() != parent:  # the parent has ended before the call of prctl
                raise ProcessLookupError
            connection.sendall(pack(answer(unpack(connection.makefile("rb")))))
            status = 0
        except MemoryError:
            status = NO_MEMORY
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    status = os.waitstatus_to_exitcode(ended)
    if status:
        sys.exit(128 - status if status < 0 else status)


def main() -> None:
    """Answers requests until the server closes the socket."""
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
