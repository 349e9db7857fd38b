"""Finds the format of a document by the extension of its file, and reads the document."""

from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import NamedTuple

from service.documents.base import DocumentTooLargeError, PassageDocument, UnsupportedFormatError
from service.documents.catalogs import OF_PROPERTIES, OF_STRINGS, read_json, read_pairs, read_yaml
from service.documents.epub import read_epub
from service.documents.gettext import read_po
from service.documents.html import read_html, with_tags
from service.documents.markdown import read_markdown
from service.documents.office import read_office
from service.documents.open_document import read_open_document
from service.documents.pdf import read_pdf
from service.documents.plain_text import read_text
from service.documents.resources import read_resources
from service.documents.subtitles import read_ass, read_cues
from service.documents.xliff import read_xliff
from service.documents.xml_files import MAX_BYTES, ArchiveDocument, XmlDocument

# A document that has been read. `write` gets one translation for each of the `texts`, in order. If
# `is_html` is true, the texts are HTML, and translations may be malformed or have other tags. Some
# formats state the language of the text, and keep it if the language of `write` is "".
Document = PassageDocument | XmlDocument | ArchiveDocument


class Format(NamedTuple):
    """A format of documents. `read` raises a DocumentError for a damaged or too large document."""

    media_type: str
    read: Callable[[bytes], Document]


_OFFICE = "application/vnd.openxmlformats-officedocument"
_OPEN = "application/vnd.oasis.opendocument"
_TABLE: tuple[tuple[str, str, Callable[..., Document]], ...] = (
    (".txt", "text/plain", read_text),
    (".md", "text/markdown", read_markdown),
    (".html .htm", "text/html", read_html),
    (".srt", "application/x-subrip", partial(read_cues, is_vtt=False)),
    (".vtt", "text/vtt", partial(read_cues, is_vtt=True)),
    (".ass .ssa", "text/x-ssa", read_ass),
    (".po", "text/x-gettext-translation", read_po),
    (".xlf .xliff", "application/xliff+xml", read_xliff),
    (".json", "application/json", read_json),
    (".arb", "application/json", partial(read_json, is_arb=True)),
    (".strings", "text/plain", partial(read_pairs, syntax=OF_STRINGS)),
    (".properties", "text/plain", partial(read_pairs, syntax=OF_PROPERTIES)),
    (".yml .yaml", "application/yaml", read_yaml),
    (".xml .resx", "application/xml", read_resources),
    (".docx", f"{_OFFICE}.wordprocessingml.document", partial(read_office, folder="word")),
    (".pptx", f"{_OFFICE}.presentationml.presentation", partial(read_office, folder="ppt")),
    (".xlsx", f"{_OFFICE}.spreadsheetml.sheet", partial(read_office, folder="xl")),
    (".odt", f"{_OPEN}.text", partial(read_open_document, kind="text")),
    (".odp", f"{_OPEN}.presentation", partial(read_open_document, kind="presentation")),
    (".ods", f"{_OPEN}.spreadsheet", partial(read_open_document, kind="spreadsheet")),
    (".pdf", "application/pdf", read_pdf),
    (".epub", "application/epub+zip", read_epub),
)

_CATALOGUES = frozenset(".po .json .arb .strings .properties .yml .yaml".split())

# Maps each extension, in lower case, to its format.
FORMATS = {name: Format(kind, read) for names, kind, read in _TABLE for name in names.split()}


def written_extension(path: PurePath) -> str:
    """Returns the extension of the translation of a file. A PDF becomes Markdown."""
    return ".md" if path.suffix.lower() == ".pdf" else path.suffix


def extension_of(name: str) -> str:
    return PurePath(name).suffix.lower()


def format_of(name: str) -> Format:
    if found := FORMATS.get(suffix := extension_of(name)):
        return found
    raise UnsupportedFormatError(
        f"the extension {suffix[:16]!r} is not supported; supported: {', '.join(FORMATS)}"
    )


def read_document(name: str, data: bytes, keeps_fuzzy: bool = False) -> Document:
    """Reads a document. With `keeps_fuzzy`, the entries of gettext that are fuzzy remain so."""
    chosen = format_of(name)
    if len(data) > MAX_BYTES:
        raise DocumentTooLargeError(
            f"the file has {len(data)} bytes; the limit is {MAX_BYTES}. Split it"
        )
    document = read_po(data, keeps_fuzzy) if chosen.read is read_po else chosen.read(data)
    if isinstance(document, PassageDocument) and extension_of(name) in _CATALOGUES:
        return with_tags(document)
    return document
