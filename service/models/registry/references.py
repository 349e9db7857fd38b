"""References, the names of models; and manifests, TOML files that list models to serve.

[[model]]
reference = "firefox:en-de"
dtype = "int8"

[model.sha256]
"model.ende.intgemm.alphas.bin" = "9c1…"
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from service.models.registry.errors import ManifestError, UnknownReferenceError
from service.models.registry.files import SHA256
from service.models.remote import find_remote
from service.settings import DEVICE

HUB_NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)
REVISION = re.compile(r"[A-Za-z0-9][\w./-]*", re.ASCII)
PAIR = re.compile(r"[a-z]{2,3}(?:_[a-z]{2,4})?-[a-z]{2,3}(?:_[a-z]{2,4})?")
COMMIT = re.compile(r"[0-9a-f]{40}")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

SUFFIX = ".toml"


class Source(StrEnum):
    """Source of a model; the value is the prefix of its references."""

    FOLDER = ""
    PACKAGE = "package:"
    HUB = "hf:"
    FIREFOX = "firefox:"
    OPENAI = "openai:"


PULLED = (Source.HUB, Source.FIREFOX)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model to serve. `str` gives its reference.

    Attributes:
        name: A folder, a package, `owner/name`, a language pair, or a model's name at an endpoint.
        revision: A branch, tag or commit at Hugging Face, or an architecture at Mozilla; if empty,
            the source's default is used. For the source OPENAI, the address of the endpoint,
            followed by `#` and the language pairs.
        device: Device of the model; if empty, the server's setting is used.
        dtype: Precision of the model; if empty, the server's setting is used.
        pins: Maps paths inside the model's folder to the sha256 checksums that the files must have.
    """

    source: Source
    name: str
    revision: str = ""
    device: str = ""
    dtype: str = ""
    pins: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_pulled(self) -> bool:
        return self.source in PULLED

    def __str__(self) -> str:
        return f"{self.source.value}{self.name}" + f"@{self.revision}" * bool(self.revision)


def parse_reference(text: str) -> ModelEntry:
    require_one_line(text)
    for source in PULLED:
        if text.startswith(source):
            return _parse_pulled(source, text)
    if text.startswith(Source.OPENAI):
        if not find_remote(text):
            raise UnknownReferenceError(
                "an openai: reference is not valid; write openai:MODEL@http://HOST:PORT/v1#en-de"
            )
        name, _, address = text.removeprefix(Source.OPENAI).partition("@")
        return ModelEntry(Source.OPENAI, name, address)
    if text.startswith(Source.PACKAGE):
        return ModelEntry(Source.PACKAGE, text.removeprefix(Source.PACKAGE))
    return ModelEntry(Source.FOLDER, text)


def require_one_line(text: str) -> None:
    """Refuses control characters, because a line break could forge lines of the log."""
    if CONTROL.search(text):
        raise UnknownReferenceError(f"{text!r} contains control characters; remove them")


def _parse_pulled(source: Source, text: str) -> ModelEntry:
    name, at, revision = text.removeprefix(source).partition("@")
    pattern, shape = (
        (HUB_NAME, "hf:owner/name or hf:owner/name@revision")
        if source is Source.HUB
        else (PAIR, "firefox:en-de or firefox:en-de@architecture")
    )
    is_revision = REVISION.fullmatch(revision) and ".." not in revision if at else True
    if not pattern.fullmatch(name) or ".." in name or not is_revision:
        raise UnknownReferenceError(f"{text!r} is not a valid reference; write {shape}")
    return ModelEntry(source, name, revision)


def read_entries(texts: Iterable[str]) -> list[ModelEntry]:
    entries: list[ModelEntry] = []
    for text in texts:
        if text.endswith(SUFFIX):
            require_one_line(text)
            entries += read_manifest(Path(text))
        else:
            entries.append(parse_reference(text))
    return entries


def read_manifest(path: Path) -> list[ModelEntry]:
    """Reads the models of a manifest; folders of models are relative to the manifest's folder."""
    try:
        manifest = _Manifest.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ManifestError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except ValidationError as error:
        raise ManifestError(str(path), list(map(_fault, error.errors()))) from error
    except ValueError as error:  # the errors of TOML and of UTF-8
        raise ManifestError(str(path), [f"is not TOML: {error}"]) from error
    return [_entry(table, path.parent) for table in manifest.model]


def _check_reference(text: str) -> str:
    parse_reference(text)
    return text


def _check_inside(file: str) -> str:
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or str(path) != file:
        raise ValueError("this is not a path inside the model's folder")
    return file


class _Table(BaseModel, extra="forbid", strict=True):
    reference: Annotated[str, Field(min_length=1), AfterValidator(_check_reference)]
    device: Annotated[str, Field(pattern=rf"^({DEVICE.pattern})?$")] = ""
    dtype: Literal["", "auto", "float32", "bfloat16", "float16", "int8"] = ""
    sha256: dict[
        Annotated[str, AfterValidator(_check_inside)],
        Annotated[str, Field(pattern=rf"^{SHA256.pattern}$")],
    ] = {}


class _Manifest(BaseModel, extra="forbid", strict=True):
    model: list[_Table] = Field(min_length=1)


def _fault(error: ErrorDetails) -> str:
    """Returns a fault such as `model.1.device: String should match pattern …`."""
    place = [each + 1 if isinstance(each, int) else each for each in error["loc"]]
    return f"{'.'.join(map(str, place))}: {error['msg']}"


def _entry(table: _Table, folder: Path) -> ModelEntry:
    entry = parse_reference(table.reference)
    name = str(folder / entry.name) if entry.source is Source.FOLDER else entry.name
    return replace(entry, name=name, device=table.device, dtype=table.dtype, pins=table.sha256)
