"""Finds the encoding of a text: by a byte order mark, UTF-8, a declaration, or its words."""

import codecs
import re
from contextlib import suppress

from charset_normalizer import from_bytes

from service.documents.base import DocumentError, DocumentTooLargeError

_BYTE_ORDER_MARKS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
]
_LATIN = ("iso-8859-1", "iso8859-1", "latin1", "latin-1", "ascii", "us-ascii")
CODE_PAGES = (
    "cp1252 cp1250 cp1251 cp1253 cp1254 cp1255 cp1256 shift_jis gb18030 big5 euc_kr koi8_r".split()
)

# Largest number of lines, tags and strings of a document that is one text. A piece takes up to 700
# bytes of memory.
MAX_PIECES = 500_000

# Bytes in which a declaration of the encoding is searched, and from which the encoding is guessed.
DECLARATION_BYTES, SAMPLE_BYTES = 1024, 100_000
MAX_CHAOS = 0.05  # by which the likely encoding may seem worse than another one


def decode(
    data: bytes, marks: str = "", declared: re.Pattern[bytes] | None = None
) -> tuple[str, str, str]:
    """Returns the byte order mark of a file, or "", the text of the file, and its encoding.

    `marks` are the characters that begin further pieces of the document, beside its lines. The
    group of `declared` is the name of the encoding in the document.
    """
    try:
        encoding, text = _decoded(data, declared)
    except UnicodeDecodeError:
        raise DocumentError(
            "the encoding of the file is not known; save it with the encoding UTF-8"
        ) from None
    pieces = sum(map(text.count, "\n\r" + marks)) - text.count("\r\n")
    if pieces > MAX_PIECES:
        raise DocumentTooLargeError(
            f"the document has {pieces} lines, tags and strings; the limit is {MAX_PIECES}. "
            "Split it"
        )
    start = int(text.startswith("\ufeff"))
    return text[:start], text[start:], encoding


def _decoded(data: bytes, declaration: re.Pattern[bytes] | None) -> tuple[str, str]:
    """Returns the encoding of a text, and the text with its byte order mark.

    Raises a UnicodeDecodeError if no encoding fits.
    """
    found = declaration.search(data, 0, DECLARATION_BYTES) if declaration else None
    declared = found[1].decode() if found else ""
    marked = [name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)]
    declared = "cp1252" if declared.lower() in _LATIN else declared or "utf-8"
    for name in (*marked, *([declared] if data.isascii() else ["utf-8", declared])):
        with suppress(LookupError, ValueError):
            text = data.decode(name)
            if marked or not data.isascii() or text == data.decode("ascii"):
                return name, text
    name = "utf-8" if data.isascii() else _likely_encoding(data)
    return name, data.decode(name)


def _likely_encoding(data: bytes) -> str:
    """Returns the encoding in which a text has the most usual words. Western Europe goes first."""
    start = data[:SAMPLE_BYTES]
    found = [*from_bytes(start[: start.rfind(b"\n") + 1] or start, cp_isolation=CODE_PAGES)]
    chaos = min((each.chaos for each in found), default=0)
    best = max(
        (each for each in found if each.chaos <= chaos + MAX_CHAOS),
        key=lambda each: (each.coherence, "cp1252" in each.could_be_from_charset),
        default=None,
    )
    if best is None or "cp1252" in best.could_be_from_charset:
        return "utf-8" if best is None else "cp1252"
    return str(best.encoding)
