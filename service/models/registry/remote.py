"""What a registry says of a model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from service.models.registry.errors import DamagedFileError, DownloadError, NotPublishedError

SHA256 = re.compile(r"[0-9a-f]{64}")


def is_sha256(value: object) -> bool:
    """Whether something is spelled as a sha256 sum."""
    return isinstance(value, str) and SHA256.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that can be pulled.

    Attributes:
        name: Its path inside the model's folder.
        url: Where it is.
        size: In bytes, as it will lie on disk; None where the registry does not say.
        sha256: Likewise.
        git_sha1: Its id as a blob of git, which small files of Hugging Face have instead.
        is_packed: Whether it may come packed with gzip.
    """

    name: str
    url: str
    size: int | None = None
    sha256: str | None = None
    git_sha1: str | None = None
    is_packed: bool = False

    def __post_init__(self) -> None:
        """Refuses what is no sum: parts of one become names of folders.

        Raises:
            DownloadError: The registry is not what it should be.
        """
        if not (self.sha256 is None or is_sha256(self.sha256)):
            raise DownloadError(f"{self.name} is published with {self.sha256!r} for a sha256 sum")


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model that can be pulled, in one version.

    Attributes:
        folder: Where its files go, inside the cache; the last part is the model's name.
        revision: Which version it is: a commit, or the beginning of the weights' sum.
        files: All that are needed.
        token: Sent along, to the registry alone.
    """

    folder: PurePosixPath
    revision: str
    files: tuple[RemoteFile, ...]
    token: str = ""

    def __repr__(self) -> str:
        return f"RemoteModel({str(self.folder)!r}, {len(self.files)} files)"

    def with_pins(self, pins: Mapping[str, str]) -> "RemoteModel":
        """The same, whose files have to have these sums.

        Raises:
            NotPublishedError: A pin is of a file that it does not have.
            DamagedFileError: What is published has another sum.
        """
        unknown = sorted(pins.keys() - {file.name for file in self.files})
        if unknown:
            names = ", ".join(file.name for file in self.files)
            raise NotPublishedError(f"no file is called {', '.join(unknown)}, only {names}")
        wrong = [
            f"{file.name} is published with the sha256 sum {file.sha256}, pinned is {pin}"
            for file in self.files
            if (pin := pins.get(file.name)) and file.sha256 not in (None, pin)
        ]
        if wrong:
            raise DamagedFileError("; ".join(wrong))
        files = (replace(file, sha256=pins.get(file.name, file.sha256)) for file in self.files)
        return replace(self, files=tuple(files))
