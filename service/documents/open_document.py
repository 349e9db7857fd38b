"""Reads OpenDocument: texts (.odt), presentations (.odp) and tables (.ods)."""

import re
from collections.abc import Container, Iterator
from itertools import chain

from lxml import etree

from service.documents.base import DocumentError
from service.documents.code_values import as_compared, constants, is_prose
from service.documents.inline import BlockReader, Role
from service.documents.tagged import Element, local_name
from service.documents.xml_files import ArchiveDocument, XmlDocument, read_archive

TYPE = b"application/vnd.oasis.opendocument."
_PARTS = re.compile(r"content\.xml|styles\.xml|meta\.xml|Object \d+/content\.xml")  # charts too

# Elements with texts: paragraphs, texts of images, declared footers, properties of the document.
TEXTS = frozenset("p h title desc footer-decl header-decl subject description".split())
APART_KEPT = frozenset(
    "tracked-changes automatic-styles styles font-face-decls scripts settings object-ole "
    "binary-data".split()
)

# Attributes with formulas, and attributes that name texts of cells.
_FORMULAS = etree.XPath("//@*[contains(' formula condition ', concat(' ', local-name(), ' '))]")
_NAMED = etree.XPath(
    "//@*[local-name() = 'source-field-name' or local-name(..) = 'filter-condition']"
)

# Roles of elements inside a paragraph; `_role` covers all other names.
ROLES: dict[str, Role] = {
    **dict.fromkeys(
        ("span", "a", "meta", "text-input", "content-control", "ruby-base"), Role.WORDS
    ),
    **dict.fromkeys(("note", "annotation"), Role.ASIDE),
    **dict.fromkeys(("creator", "date", "creator-initials"), Role.KEPT),
    **dict.fromkeys((*APART_KEPT, "note-citation"), Role.APART_KEPT),
    **dict.fromkeys(("tab", "line-break"), Role.APART),
}

_STYLE_NAME = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}name"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_USED_STYLE = f"{_TEXT}style-name"
_ANCHOR = f"{_TEXT}anchor-type"
_COUNT = f"{_TEXT}c"  # of spaces
_VALUE_TYPE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}value-type"
_FORMULA = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}formula"
_TRIVIAL = frozenset(("rsid", "paragraph-rsid", "language", "country"))


def read_open_document(data: bytes, kind: str) -> ArchiveDocument:
    """Reads a document of the kind "text", "presentation" or "spreadsheet"."""
    members = read_archive(data)
    found = members["mimetype"].data.strip() if "mimetype" in members else b""
    if "content.xml" not in members or found != TYPE + kind.encode():
        raise DocumentError(f"the archive is no OpenDocument {kind}; is it another format?")
    return ArchiveDocument(members, sorted(filter(_PARTS.fullmatch, members)), _read_part)


def _read_part(root: Element, _name: str) -> XmlDocument:
    styles = root.iterfind(".//{*}automatic-styles/{*}style")
    trivial = {style.get(_STYLE_NAME) for style in styles if _is_trivial(style)}
    reader = BlockReader(lambda element: _role(element, trivial))
    kept = {*map(as_compared, chain(_NAMED(root), *map(constants, _FORMULAS(root))))}
    return XmlDocument(root, [block for body in _bodies(root, kept) for block in reader.read(body)])


def _bodies(root: Element, kept: Container[str]) -> Iterator[Element]:
    """Yields the elements with texts that are not inside another one, or in a computed cell.

    In a cell, texts that are code stay, and so do texts in `kept`, which other cells name.
    """
    waiting = [root]
    while waiting:
        element = waiting.pop()
        name = local_name(element)
        is_computed = name == "table-cell" and (
            element.get(_VALUE_TYPE, "string") != "string" or _FORMULA in element.attrib
        )
        is_text = name in TEXTS
        if is_text and (name == "desc" or local_name(element.getparent()) == "table-cell"):
            words = "".join(element.itertext())
            is_text = is_prose(words) and as_compared(words) not in kept
        if is_text:
            yield element
        elif name not in APART_KEPT and not is_computed:
            waiting += reversed(element)


def _role(element: Element, trivial: Container[str | None]) -> Role:
    """Returns the role of an element; `trivial` styles do not change the look of a text."""
    name = local_name(element)
    if name == "span" and element.get(_USED_STYLE) in trivial:
        return Role.PLAIN
    if name in ROLES:
        return ROLES[name]
    if name == "frame" and element.get(_ANCHOR) == "as-char":
        return Role.ASIDE
    is_field = not len(element) and element.tag.startswith(_TEXT) and name not in ("p", "h")
    if is_field and element.text:
        return Role.KEPT
    is_break = element.get(_COUNT, "1") != "1"  # columns of a table
    return Role.APART if len(element) or element.text or is_break else Role.MARK


def _is_trivial(style: Element) -> bool:
    """Reports whether a style only marks the language or the editing session of its text."""
    properties = [child for child in style if local_name(child)]
    names = {name.rpartition("}")[2] for child in properties for name in child.attrib}
    return names <= _TRIVIAL and not any(map(len, properties))
