"""Microsoft Office: Word (.docx) and PowerPoint (.pptx).

A paragraph consists of runs, and each run has a formatting. Neighbouring runs with equal formatting
form one text. Proofing marks, which editors add while a person types, do not count as formatting.
"""

import re
from collections.abc import Iterator, Sequence

from lxml import etree

from service.documents.base import DocumentError
from service.documents.markup.archive import ArchiveDocument, read_archive, read_parts
from service.documents.markup.inline import Block, Element, Place, Span, texts_of
from service.documents.markup.xml import XmlDocument, local_name, parse_xml

_WORD_PARTS = re.compile(r"word/(header|footer|footnotes|endnotes|comments)\d*\.xml")
_SLIDES = re.compile(r"ppt/(slides/slide|notesSlides/notesSlide)(\d+)\.xml")
_TRIVIAL_PROPERTIES = frozenset(("lang", "noProof", "proofErr"))
_TRIVIAL_ATTRIBUTES = frozenset(("lang", "altLang", "dirty", "err", "noProof", "smtClean", "hint"))
_BREAKS = frozenset(("tab", "br", "cr", "drawing", "pict", "object", "footnoteReference", "sym"))
_LEFT_OUT = frozenset(("p", "fld", "pPr"))
_PRESERVE = "{http://www.w3.org/XML/1998/namespace}space"


def read_docx(data: bytes) -> ArchiveDocument:
    """Reads a Word document: body, headers, footers, notes, text boxes and comments.

    Raises:
        DocumentError: The file is damaged, or it is not a Word document.
    """
    members = read_archive(data)
    if "word/document.xml" not in members:
        raise DocumentError("the archive has no word/document.xml; is it another format?")
    others = sorted(name for name in members if _WORD_PARTS.fullmatch(name))
    return read_parts(members, ["word/document.xml", *others], _read_part)


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
    return read_parts(members, [match[0] for match in ordered], _read_part)


def _read_part(data: bytes, name: str) -> XmlDocument:
    root = parse_xml(data, name)
    if root.getroottree().docinfo.doctype:
        raise DocumentError(f"{name} has a DOCTYPE, which Office documents may not have")
    paragraphs = (_block(element) for element in root.iter() if local_name(element) == "p")
    return OfficePart(root, [block for block in paragraphs if texts_of(block)])


class OfficePart(XmlDocument):
    """One XML file of an Office document."""

    def write(self, translations: Sequence[str], language: str) -> bytes:
        """Returns the file with the translations.

        Without `xml:space="preserve"`, Word ignores the white space at the ends of a text.
        """
        for place in (p for block in self.blocks for span in block for p in span.places):
            if etree.QName(place.element).namespace.endswith("wordprocessingml/main"):
                place.element.set(_PRESERVE, "preserve")
        return super().write(translations, language)


def _block(paragraph: Element) -> Block:
    """Returns the spans of a paragraph."""
    groups: list[tuple[bytes | None, list[Place]]] = [(None, [])]
    for element, formatting in _strings(paragraph):
        if element is None:
            groups.append((None, []))
        elif groups[-1][0] == formatting:
            groups[-1][1].append(Place(element))
        else:
            groups.append((formatting, [Place(element)]))
    return [Span(places) for _, places in groups if places]


def _strings(paragraph: Element) -> Iterator[tuple[Element | None, bytes]]:
    """Yields each text element of a paragraph with its formatting, and None for each break.

    A paragraph may contain a text box, which has its own paragraphs. The paragraphs of the text box
    are left out here, because `_read_part` reads them as separate blocks.
    """
    waiting = [(child, True) for child in reversed(paragraph)]
    while waiting:
        element, is_start = waiting.pop()
        name = local_name(element)
        if name == "t" and local_name(element.getparent()) == "r":
            yield element, _formatting(element.getparent())
        elif name in _BREAKS or name == "fld" or (name != "r" and len(element)):
            yield None, b""  # A break at both ends of a link keeps the link's words inside it.
            if is_start and name not in _LEFT_OUT:
                waiting.append((element, False))
                waiting += [(child, True) for child in reversed(element)]
        elif is_start and name == "r":
            waiting += [(child, True) for child in reversed(element)]


def _formatting(run: Element) -> bytes:
    """Returns the formatting of a run as bytes, which are equal for runs that look the same."""
    properties = next((child for child in run if local_name(child) == "rPr"), None)
    if properties is None:
        return b""
    shown = [child for child in properties if local_name(child) not in _TRIVIAL_PROPERTIES]
    shown.insert(0, properties)
    return b"".join(sorted(map(_described, shown)))


def _described(element: Element) -> bytes:
    """Returns the name, attributes and children of an element as bytes.

    Trivial attributes are left out. The children of `rPr` are left out too.
    """
    attributes = sorted(
        f"{name}={value}"
        for name, value in element.attrib.items()
        if etree.QName(name).localname not in _TRIVIAL_ATTRIBUTES
    )
    name = local_name(element)
    if not attributes and name in ("rPr", "rFonts"):
        return b""
    inner = b"" if name == "rPr" else b"".join(map(_described, element))
    return f"<{name} {' '.join(attributes)}>".encode() + inner
