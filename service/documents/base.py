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


def decode(data: bytes) -> str:
    """Returns the text of a UTF-8 file. A byte order mark stays as the text's first character.

    Raises:
        DocumentError: The file has another encoding.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"the file is not UTF-8 (byte {error.start}); save it with the encoding UTF-8"
        ) from None


def split_margins(text: str) -> tuple[str, str, str]:
    """Returns the white space before a text, the text, and the white space after it."""
    core = text.strip()
    start = len(text) - len(text.lstrip())
    return text[:start], core, text[start + len(core) :]
