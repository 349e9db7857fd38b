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
from typing import Any

from service.models.prompts import PROMPTS
from service.models.registry.errors import RegistryError
from service.models.registry.files import is_sha256
from service.models.remote import find_remote
from service.settings import DEVICE

HUB_NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)
REVISION = re.compile(r"[A-Za-z0-9][\w./-]*", re.ASCII)
PAIR = re.compile(r"[a-z]{2,3}(?:_[a-z]{2,4})?-[a-z]{2,3}(?:_[a-z]{2,4})?")
COMMIT = re.compile(r"[0-9a-f]{40}")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

SUFFIX = ".toml"
PACKAGE_SUFFIX = ".argosmodel"
DTYPES = ("auto", "float32", "bfloat16", "float16", "int8")
KEYS = ("reference", "device", "dtype", "sha256")


class Source(StrEnum):
    """Source of a model; the value is the prefix of its references."""

    FOLDER = ""
    PACKAGE = "package:"
    HUB = "hf:"
    FIREFOX = "firefox:"
    ARGOS = "argos:"
    OPENAI = "openai:"


PULLED = (Source.HUB, Source.FIREFOX, Source.ARGOS)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model to serve. `str` gives its reference."""

    source: Source
    name: str  # a folder, package, `owner/name`, language pair, or an endpoint's model
    # A branch, tag or commit at Hugging Face, an architecture at Mozilla, or a version at Argos; if
    # empty, the source's default is used. For the source OPENAI, the address of the endpoint,
    # followed by `#` and the language pairs.
    revision: str = ""
    device: str = ""  # if empty, the server's setting is used
    dtype: str = ""  # precision; if empty, the server's setting is used
    # Maps paths inside the model's folder to the sha256 checksums that the files must have.
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
            raise RegistryError(
                "an openai: reference is not valid; write openai:MODEL@http://HOST:PORT/v1#en-de, "
                "or add &prompt=NAME, &first or both in this order; NAME is one of "
                f"{', '.join(PROMPTS)}"
            )
        name, _, address = text.removeprefix(Source.OPENAI).partition("@")
        return ModelEntry(Source.OPENAI, name, address)
    if text.startswith(Source.PACKAGE):
        return ModelEntry(Source.PACKAGE, text.removeprefix(Source.PACKAGE))
    return ModelEntry(Source.FOLDER, text)


def require_one_line(text: str) -> None:
    """Refuses control characters, because a line break could forge lines of the log."""
    if CONTROL.search(text):
        raise RegistryError(f"{text!r} contains control characters; remove them")


def _parse_pulled(source: Source, text: str) -> ModelEntry:
    name, at, revision = text.removeprefix(source).partition("@")
    pattern, shape = {
        Source.HUB: (HUB_NAME, "hf:owner/name or hf:owner/name@revision"),
        Source.FIREFOX: (PAIR, "firefox:en-de or firefox:en-de@architecture"),
        Source.ARGOS: (PAIR, "argos:en-de or argos:en-de@version"),
    }[source]
    is_revision = REVISION.fullmatch(revision) and ".." not in revision if at else True
    if not pattern.fullmatch(name) or ".." in name or not is_revision:
        raise RegistryError(f"{text!r} is not a valid reference; write {shape}")
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
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RegistryError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RegistryError(f"{path}: is not TOML: {error}") from error
    faults = [
        f"{key!r} is not a known key; only [[model]] is known" for key in content if key != "model"
    ]
    tables = content.get("model")
    if not isinstance(tables, list) or not tables:
        faults.append("it has no [[model]] table")
        tables = []
    entries = [_read_model(table, n, path.parent, faults) for n, table in enumerate(tables, 1)]
    if faults:
        raise RegistryError(f"{path}: {'; '.join(faults)}")
    return entries


def _read_model(table: Any, number: int, folder: Path, faults: list[str]) -> ModelEntry:
    if not isinstance(table, dict):
        faults.append(f"model {number} is not a table")
        table = {}
    name = f"model {number}"
    faults += [
        f"{name}: {key!r} is not a known key; the keys are {', '.join(KEYS)}"
        for key in table
        if key not in KEYS
    ]
    reference = _read_reference(table.get("reference"), name, folder, faults)
    device, dtype = table.get("device", ""), table.get("dtype", "")
    if device != "" and not (isinstance(device, str) and DEVICE.fullmatch(device)):
        faults.append(f"{name}: device is {device!r}, must be auto, cpu, cuda or cuda:N")
    if dtype != "" and dtype not in DTYPES:
        faults.append(f"{name}: dtype is {dtype!r}, must be one of {', '.join(DTYPES)}")
    pins = _read_pins(table, name, faults)
    return replace(reference, device=device, dtype=dtype, pins=pins)


def _read_reference(text: Any, name: str, folder: Path, faults: list[str]) -> ModelEntry:
    reference = ModelEntry(Source.FOLDER, "")
    if not isinstance(text, str) or not text:
        faults.append(f"{name} has no reference")
        return reference
    try:
        reference = parse_reference(text)
    except RegistryError as error:
        faults.append(f"{name}: {error}")
    if reference.source is Source.FOLDER:
        return ModelEntry(Source.FOLDER, str(folder / reference.name))
    return reference


def _read_pins(table: Mapping[str, Any], name: str, faults: list[str]) -> dict[str, str]:
    pins = table.get("sha256", {})
    if not isinstance(pins, dict):
        faults.append(f"{name}: sha256 is not a table of files")
        return {}
    for file, value in pins.items():
        path = PurePosixPath(file)
        if path.is_absolute() or ".." in path.parts or str(path) != file:
            faults.append(f"{name}: {file!r} is not a path inside the model's folder")
        if not is_sha256(value):
            faults.append(f"{name}: the sha256 of {file} is {value!r}, must be 64 hex digits")
    return pins
