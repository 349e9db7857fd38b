"""Reads the texts of PDF files. The translation is Markdown, because a PDF has no paragraphs.

A line that is shorter than the others ends a paragraph. Pictures, tables, columns and formatting
are lost.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pypdf import PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import DictionaryObject

from service.documents.base import DocumentError, Passage, PassageDocument
from service.documents.markdown import Markdown
from service.text.letters import has_letters

# Length of a line that may end a paragraph, as a share of the length of the longest lines.
SHORT_LINE = 0.8
_DAMAGED = (
    PyPdfError,
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
)
_ITEM = re.compile(r"(?:[•▪◦‣–-]|\d{1,3}[.)]|[a-z]\))\s")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_A-Z])")


def read_pdf(data: bytes) -> PassageDocument:
    parts: list[str | Passage] = []
    skipped = Counter[str]()
    number = 0
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentError("the PDF is encrypted; remove its password")
        for page in reader.pages:
            number += 1
            for paragraph in _paragraphs(page.extract_text().splitlines()):
                parts += (_passage(paragraph) if has_letters(paragraph) else paragraph, "\n\n")
            objects: Any = page["/Resources"] if "/Resources" in page else {}
            objects = objects.get("/XObject") or DictionaryObject()
            for each in objects.get_object().values():
                skipped["images"] += each.get_object().get("/Subtype") == "/Image"
    except _DAMAGED as error:
        raise DocumentError(f"page {number} of the PDF cannot be read: {error}") from None
    if not any(isinstance(part, Passage) for part in parts):
        raise DocumentError("the PDF has no text; read scanned pages by a program for OCR first")
    return PassageDocument(parts, skipped=+skipped)


def _passage(text: str) -> Passage:
    markdown = Markdown("")
    return Passage(text, lambda translation: markdown.line(markdown.escape(translation), ""))


def _paragraphs(lines: list[str]) -> Iterator[str]:
    lines = [line.strip() for line in lines]
    width = sorted(map(len, lines))[-1 - len(lines) // 10] if lines else 0
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if paragraph and (not line or _ITEM.match(line) or len(paragraph[-1]) < SHORT_LINE * width):
            yield " ".join(_HYPHEN.sub("", "\n".join(paragraph)).split())
            paragraph = []
        paragraph += [line] if line else []
