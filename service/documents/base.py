"""The interface of every document, and its errors.

* DocumentError: the document cannot be read or is refused
  * UnsupportedFormatError: no supported format uses the extension of the file
  * DocumentTooLargeError: the document is over a limit
"""

from collections.abc import Sequence
from typing import Protocol


class DocumentError(Exception):
    """The document cannot be read or is refused. The message names the fault."""


class UnsupportedFormatError(DocumentError):
    """No supported format uses the extension of the file."""


class DocumentTooLargeError(DocumentError):
    """The document is over a limit."""


MAX_PIECES = 500_000
"""Largest number of lines, tags and strings of a document that is one text.

A piece takes up to 700 bytes of memory.
"""


class Document(Protocol):
    """A document that has been read."""

    @property
    def is_html(self) -> bool:
        """Whether the texts and their translations are HTML, with tags for inline elements."""

    def texts(self) -> list[str]:
        """Returns the texts to translate, in the order of the document."""

    def write(self, translations: Sequence[str], language: str) -> bytes:
        """Returns the document with one translation in the place of each text.

        Args:
            translations: One translation for each text that `texts` returns, in the same order.
                HTML translations may be malformed, or have other tags than the texts.
            language: Code of the target language. Some formats state the language of the text.
                If `language` is "", such a document keeps its old language code.
        """


def decode(data: bytes, marks: str = "") -> str:
    """Returns the text of a UTF-8 file. A byte order mark stays as the text's first character.

    Args:
        data: The file.
        marks: Characters that begin further pieces of the document, beside its lines.

    Raises:
        DocumentError: The file has another encoding, or too many pieces.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"the file is not UTF-8 (byte {error.start}); save it with the encoding UTF-8"
        ) from None
    pieces = sum(map(text.count, "\n\r" + marks)) - text.count("\r\n")
    if pieces > MAX_PIECES:
        raise DocumentTooLargeError(
            f"the document has {pieces} lines, tags and strings; the limit is {MAX_PIECES}. "
            "Split it"
        )
    return text


def split_margins(text: str) -> tuple[str, str, str]:
    """Returns the white space before a text, the text, and the white space after it."""
    core = text.strip()
    start = len(text) - len(text.lstrip())
    return text[:start], core, text[start + len(core) :]
