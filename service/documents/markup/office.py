"""Reads Microsoft Office files: Word (.docx) and PowerPoint (.pptx)."""

import re
from functools import partial

from service.documents.base import DocumentError
from service.documents.markup.archive import ArchiveDocument, read_archive, read_parts
from service.documents.markup.runs import blocks_of
from service.documents.markup.xml import XmlDocument, XmlParser, local_name

_WORD_PARTS = re.compile(r"word/(header|footer|footnotes|endnotes|comments)\d*\.xml")
_SLIDES = re.compile(r"ppt/(slides/slide|notesSlides/notesSlide)(\d{1,9})\.xml")


def read_docx(data: bytes) -> ArchiveDocument:
    """Reads a Word document: body, headers, footers, notes, text boxes and comments.

    Raises:
        DocumentError: The file is damaged, or it is not a Word document.
    """
    members = read_archive(data)
    if "word/document.xml" not in members:
        raise DocumentError("the archive has no word/document.xml; is it another format?")
    others = sorted(name for name in members if _WORD_PARTS.fullmatch(name))
    return read_parts(members, ["word/document.xml", *others], partial(_read_part, XmlParser()))


def read_pptx(data: bytes) -> ArchiveDocument:
    """Reads a presentation: slides and their notes.

    Raises:
        DocumentError: The file is damaged, or it is not a presentation.
    """
    members = read_archive(data)
    if "ppt/presentation.xml" not in members:
        raise DocumentError("the archive has no ppt/presentation.xml; is it another format?")
    found = [match for name in members if (match := _SLIDES.fullmatch(name))]
    ordered = sorted(found, key=lambda match: (match[1] != "slides/slide", int(match[2])))
    return read_parts(members, [match[0] for match in ordered], partial(_read_part, XmlParser()))


def _read_part(parser: XmlParser, data: bytes, name: str) -> XmlDocument:
    root = parser.parse(data, name)
    if root.getroottree().docinfo.doctype:
        raise DocumentError(f"{name} has a DOCTYPE, which Office documents may not have")
    paragraphs = [element for element in root.iter() if local_name(element) == "p"]
    return XmlDocument(root, [block for paragraph in paragraphs for block in blocks_of(paragraph)])
