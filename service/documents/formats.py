"""Finds the format of a document by the extension of its file, and reads the document."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath

from service.documents.base import DocumentTooLargeError, PassageDocument, UnsupportedFormatError
from service.documents.catalogs import (
    read_arb,
    read_json,
    read_properties,
    read_strings,
    read_yaml,
)
from service.documents.epub import read_epub
from service.documents.gettext import read_po
from service.documents.html import read_html
from service.documents.markdown import read_markdown
from service.documents.office import read_office
from service.documents.open_document import read_open_document
from service.documents.pdf import read_pdf
from service.documents.plain_text import read_text
from service.documents.resources import read_resources
from service.documents.subtitles import read_ass, read_srt, read_vtt
from service.documents.xliff import read_xliff
from service.documents.xml_files import MAX_BYTES, ArchiveDocument, XmlDocument

# A document that has been read. `write` gets one translation for each of the `texts`, in order. If
# `is_html` is true, the texts are HTML, and translations may be malformed or have other tags. Some
# formats state the language of the text, and keep it if the language of `write` is "".
Document = PassageDocument | XmlDocument | ArchiveDocument


@dataclass(frozen=True, slots=True)
class Format:
    """A format of documents. `read` raises a DocumentError for a damaged or too large document."""

    media_type: str
    read: Callable[[bytes], Document]


def _open_document(kind: str) -> Format:
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    return Format(media_type, partial(read_open_document, kind=kind))


_RESOURCES = Format("application/xml", read_resources)
_OFFICE = "application/vnd.openxmlformats-officedocument"
_ASS = Format("text/x-ssa", read_ass)
_YAML = Format("application/yaml", read_yaml)
_HTML = Format("text/html", read_html)
_XLIFF = Format("application/xliff+xml", read_xliff)

# Maps each extension, in lower case, to its format.
FORMATS: dict[str, Format] = {
    ".txt": Format("text/plain", read_text),
    ".md": Format("text/markdown", read_markdown),
    ".html": _HTML,
    ".htm": _HTML,
    ".srt": Format("application/x-subrip", read_srt),
    ".vtt": Format("text/vtt", read_vtt),
    ".ass": _ASS,
    ".ssa": _ASS,
    ".po": Format("text/x-gettext-translation", read_po),
    ".xlf": _XLIFF,
    ".xliff": _XLIFF,
    ".json": Format("application/json", read_json),
    ".arb": Format("application/json", read_arb),
    ".strings": Format("text/plain", read_strings),
    ".properties": Format("text/plain", read_properties),
    ".yml": _YAML,
    ".yaml": _YAML,
    ".xml": _RESOURCES,
    ".resx": _RESOURCES,
    ".docx": Format(f"{_OFFICE}.wordprocessingml.document", partial(read_office, folder="word")),
    ".pptx": Format(f"{_OFFICE}.presentationml.presentation", partial(read_office, folder="ppt")),
    ".xlsx": Format(f"{_OFFICE}.spreadsheetml.sheet", partial(read_office, folder="xl")),
    ".odt": _open_document("text"),
    ".odp": _open_document("presentation"),
    ".ods": _open_document("spreadsheet"),
    ".pdf": Format("application/pdf", read_pdf),
    ".epub": Format("application/epub+zip", read_epub),
}


def written_extension(path: PurePath) -> str:
    """Returns the extension of the translation of a file. A PDF becomes Markdown."""
    return ".md" if path.suffix.lower() == ".pdf" else path.suffix


def extension_of(name: str) -> str:
    """Returns the extension of a file in lower case, such as `.docx`."""
    return PurePath(name).suffix.lower()


def format_of(name: str) -> Format:
    suffix = extension_of(name)
    if suffix not in FORMATS:
        raise UnsupportedFormatError(
            f"the extension {suffix[:16]!r} is not supported; supported: {', '.join(FORMATS)}"
        )
    return FORMATS[suffix]


def read_document(name: str, data: bytes, keeps_fuzzy: bool = False) -> Document:
    """Reads a document. With `keeps_fuzzy`, the entries of gettext that are fuzzy remain so."""
    chosen = format_of(name)
    if len(data) > MAX_BYTES:
        raise DocumentTooLargeError(
            f"the file has {len(data)} bytes; the limit is {MAX_BYTES}. Split it"
        )
    return read_po(data, keeps_fuzzy) if chosen.read is read_po else chosen.read(data)
