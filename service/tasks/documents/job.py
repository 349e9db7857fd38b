"""A document that is being translated, its batches of texts, and the name of its translation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from service.documents.process import ReadDocument
from service.documents.store import DocumentState
from service.tasks.context import RequestContext
from service.text.glossary.terms import Terms

MAX_NAME_CHARS = 100
"""Largest length of the stem of a translation's file name. A longer stem is cut."""


@dataclass(slots=True)
class DocumentJob:
    """A document that is being translated.

    Attributes:
        name: Name of the document.
        data: Content of the document.
        document: The texts.
        size: Memory that the document and its texts take, in bytes.
        source: Code of the source language; None if the server detects it.
        target: Code of the target language.
        context: Context of the job. The time limit begins at `context.started`.
        state: State that clients see.
        terms: Terms of the request's glossary; None without a glossary or without a `source`.
    """

    name: str
    data: bytes
    document: ReadDocument
    size: int
    source: str | None
    target: str
    context: RequestContext
    state: DocumentState
    terms: Terms | None = None


def batches_of(texts: Sequence[str], max_chars: int) -> list[list[str]]:
    """Groups texts into batches, in order. A text over the limit is a batch of its own."""
    batches: list[list[str]] = []
    num_chars = 0
    for text in texts:
        if not batches or num_chars + len(text) > max_chars:
            batches.append([])
            num_chars = 0
        batches[-1].append(text)
        num_chars += len(text)
    return batches


def translated_name(name: str, language: str) -> str:
    """Returns the file name of a translation: `book.pt.docx` for `book.docx`.

    If no printable character stands before the extension, the name begins with `document`.
    """
    plain = "".join(char for char in name.replace("\\", "/") if char.isprintable())
    path = PurePosixPath(PurePosixPath(plain).name)
    if not path.suffix:
        path = PurePosixPath(f"document{path.name}")
    return f"{path.stem[:MAX_NAME_CHARS]}.{language}{path.suffix}"
