"""Keeps translated documents in a folder for a limited time.

All HTTP processes of a server share the folder. A file in JSON has the state of a document. After
the translation, a second file has the translated document. The names of both files begin with the
id of the document. The modification time of the first file is the time at which both expire.
"""

import json
import os
import re
import secrets
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Literal

_ID = re.compile(r"[0-9a-f]{32}")
_STATE = ".json"
_CONTENT = ".data"


@dataclass(slots=True)
class DocumentState:
    name: str  # of the file with the translation
    characters: int  # code points in the texts
    expires: float  # Unix time at which the document is deleted
    id: str = field(default_factory=partial(secrets.token_hex, 16))  # cannot be guessed
    # DeepL's clients send it together with the id.
    key: str = field(default_factory=lambda: secrets.token_hex(32).upper())
    status: Literal["queued", "translating", "done", "error"] = "queued"
    progress: float = 0.0  # share of the texts that are translated
    remaining_seconds: int | None = None  # estimated time until it is done; None if unknown
    skipped: dict[str, int] = field(default_factory=dict)  # numbers of images and equations
    error: str = ""  # reason why the document could not be translated


class Content:
    """The bytes of a document, in an open file that is closed with the last reference to it.

    The HTTP process never holds these bytes as one object. Copying 27 MB would stop all requests
    for 15 ms.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def __len__(self) -> int:
        return os.fstat(self.descriptor).st_size

    def copy_to(self, file: BinaryIO) -> None:
        size, done = len(self), 0
        while done < size:
            done += os.sendfile(file.fileno(), self.descriptor, done, size - done)


class TemporaryFolder(TemporaryDirectory[str]):
    """A new folder for kept documents. `cleanup` removes the folder with all its files."""

    def __init__(self) -> None:
        super().__init__(prefix="regard-", ignore_cleanup_errors=True)


class DocumentStore:
    """The kept documents of a server. Only the server may have access to the folder."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def save(self, state: DocumentState) -> None:
        """Writes a state; other processes read the old state or the new one, never a mixture."""
        with self._writing(state.id + _STATE, state.expires) as file:
            file.write(json.dumps(asdict(state)).encode())

    def finish(self, state: DocumentState, content: Content) -> None:
        with self._writing(state.id + _CONTENT) as file:
            content.copy_to(file)
        self.save(state)

    def load(self, id_: str) -> DocumentState | None:
        """Returns the state of a document; None if the document is unknown or has expired."""
        if not _ID.fullmatch(id_):
            return None
        try:
            state = DocumentState(**json.loads((self.folder / (id_ + _STATE)).read_bytes()))
        except FileNotFoundError:
            return None
        return state if state.expires > time.time() else None

    def content(self, id_: str) -> Content | None:
        try:
            return Content(os.open(self.folder / (id_ + _CONTENT), os.O_RDONLY))
        except FileNotFoundError:
            return None

    def take(self, id_: str) -> Content | None:
        """Removes a document and returns its translation, but only to one of several callers."""
        content = self.content(id_)
        return content if self.remove(id_) else None

    def remove(self, id_: str) -> bool:
        """Removes a document. Only the caller that deletes the state gets True."""
        try:
            (self.folder / (id_ + _STATE)).unlink()
        except FileNotFoundError:
            return False
        (self.folder / (id_ + _CONTENT)).unlink(missing_ok=True)
        return True

    def remove_expired(self) -> tuple[int, float | None]:
        """Removes the expired documents.

        Returns the total size of the translations, and the time at which the next document expires.
        """
        num_bytes, expiries = 0, []
        now = time.time()
        with suppress(FileNotFoundError), os.scandir(self.folder) as files:
            for file in files:
                with suppress(FileNotFoundError):  # another process has removed it
                    if file.name.endswith(_CONTENT):
                        num_bytes += file.stat().st_size
                    elif file.name.endswith(_STATE) and file.stat().st_mtime > now:
                        expiries.append(file.stat().st_mtime)
                    elif file.name.endswith(_STATE):
                        self.remove(file.name.removesuffix(_STATE))
        return num_bytes, min(expiries, default=None)

    @contextmanager
    def _writing(self, name: str, expires: float | None = None) -> Iterator[BinaryIO]:
        temporary = self.folder / f".{secrets.token_hex(16)}"
        try:
            with temporary.open("wb") as file:
                yield file
            if expires is not None:
                os.utime(temporary, (expires, expires))
            os.replace(temporary, self.folder / name)
        except BaseException:  # such as a full disk
            temporary.unlink(missing_ok=True)
            raise
