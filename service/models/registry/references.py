"""References: texts that name a model by a source, a name and sometimes a revision.

An endpoint is another server with OpenAI's API. Regard sends it texts over the network, and models
of the endpoint translate them.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from service.models.registry.errors import UnknownReferenceError
from service.models.remote import find_remote

HUB_NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)
REVISION = re.compile(r"[A-Za-z0-9][\w./-]*", re.ASCII)
PAIR = re.compile(r"[a-z]{2,3}(?:_[a-z]{2,4})?-[a-z]{2,3}(?:_[a-z]{2,4})?")
COMMIT = re.compile(r"[0-9a-f]{40}")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Source(StrEnum):
    """Source of a model; the value is the prefix of its references."""

    FOLDER = ""
    PACKAGE = "package:"
    HUB = "hf:"
    FIREFOX = "firefox:"
    OPENAI = "openai:"


PULLED = (Source.HUB, Source.FIREFOX)


@dataclass(frozen=True, slots=True)
class Reference:
    """The name of a model.

    Attributes:
        source: Source of the model.
        name: A folder, a package, `owner/name`, a language pair, or a model's name at an endpoint.
        revision: A branch, tag or commit at Hugging Face, or an architecture at Mozilla; if
            empty, the source's default is used. For the source OPENAI, it is the address of the
            endpoint, followed by `#` and the language pairs.
    """

    source: Source
    name: str
    revision: str = ""

    @property
    def is_pulled(self) -> bool:
        return self.source in PULLED

    def __str__(self) -> str:
        return f"{self.source.value}{self.name}" + f"@{self.revision}" * bool(self.revision)


def parse_reference(text: str) -> Reference:
    """Parses a reference."""
    require_one_line(text)
    for source in (Source.HUB, Source.FIREFOX):
        if text.startswith(source):
            return _parse_pulled(source, text)
    if text.startswith(Source.OPENAI):
        return _parse_endpoint(text)
    if text.startswith(Source.PACKAGE):
        return Reference(Source.PACKAGE, text.removeprefix(Source.PACKAGE))
    return Reference(Source.FOLDER, text)


def require_one_line(text: str) -> None:
    """Refuses control characters, because a line break could forge lines of the log."""
    if CONTROL.search(text):
        raise UnknownReferenceError(f"{text!r} contains control characters; remove them")


def _parse_endpoint(text: str) -> Reference:
    if not find_remote(text):
        raise UnknownReferenceError(
            "an openai: reference is not valid; write openai:MODEL@http://HOST:PORT/v1#en-de"
        )
    name, _, address = text.removeprefix(Source.OPENAI).partition("@")
    return Reference(Source.OPENAI, name, address)


def _parse_pulled(source: Source, text: str) -> Reference:
    name, at, revision = text.removeprefix(source).partition("@")
    pattern, shape = (
        (HUB_NAME, "hf:owner/name or hf:owner/name@revision")
        if source is Source.HUB
        else (PAIR, "firefox:en-de or firefox:en-de@architecture")
    )
    is_revision = REVISION.fullmatch(revision) and ".." not in revision if at else True
    if not pattern.fullmatch(name) or ".." in name or not is_revision:
        raise UnknownReferenceError(f"{text!r} is not a valid reference; write {shape}")
    return Reference(source, name, revision)
