"""Reads e-books (.epub): chapters, the table of contents, the title and the description."""

from collections.abc import Iterator
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from lxml import etree

from service.documents.base import DocumentError
from service.documents.html import is_inside, is_kept
from service.documents.inline import BlockReader, Role, attribute_block, reader_of
from service.documents.tagged import Block, Element, local_name
from service.documents.xml_files import ArchiveDocument, XmlDocument, XmlParser, read_archive
from service.text.attributes import read_attributes
from service.text.html_text import INLINE, VOID, says_translated

CONTAINER = "META-INF/container.xml"
CHAPTER = "application/xhtml+xml"
CONTENTS = "application/x-dtbncx+xml"
_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

# Files that only e-books with copy protection have. Adobe and Apple write the first one, and
# Readium LCP the second one.
PROTECTION = ("META-INF/rights.xml", "META-INF/license.lcpl")


def read_epub(data: bytes) -> ArchiveDocument:
    members = read_archive(data, CONTAINER)
    if any(name in members for name in PROTECTION):
        raise DocumentError("the e-book has copy protection and cannot be read")
    parser = XmlParser()
    container = parser.parse(members[CONTAINER].data, CONTAINER)
    roots = (each for each in container.iter() if local_name(each) == "rootfile")
    package = next((each.get("full-path", "") for each in roots), "")
    if package not in members:
        raise DocumentError(f"the package {package[:80]!r} of the e-book is missing")
    names = _chapters(parser.parse(members[package].data, package), package)
    return ArchiveDocument(members, [package, *names], _read_part, parser)


def _chapters(package: Element, name: str) -> list[str]:
    items = {
        each.get("id"): each
        for each in package.iter()
        if local_name(each) == "item" and each.get("media-type") in (CHAPTER, CONTENTS)
    }
    order = [each.get("idref") for each in package.iter() if local_name(each) == "itemref"]
    ids = dict.fromkeys([*(each for each in order if each in items), *items])
    names = (normpath(join(dirname(name), unquote(items[each].get("href", "")))) for each in ids)
    return [*dict.fromkeys(names)]


def _read_part(root: Element, _name: str) -> XmlDocument:
    kind = local_name(root)
    if kind == "html":
        blocks = [*BlockReader(_page_role).read(root), *_attributes(root)]
        for element in root.iterfind(".//*[@translate='yes']"):
            if any(says_translated(dict(each.attrib)) is False for each in element.iterancestors()):
                blocks += BlockReader(_page_role).read(element)
        return XmlDocument(root, blocks, _set_page_language)
    if kind == "package":
        blocks = reader_of("title", "description").read(root)
        return XmlDocument(root, blocks, _set_book_language)
    return XmlDocument(root, reader_of("text").read(root))


def _attributes(root: Element) -> Iterator[Block]:
    """Yields a block for each attribute that people read, but not in elements that are kept."""
    walk = etree.iterwalk(root, events=("start",))
    for _, element in walk:
        attributes = dict(element.attrib)
        if says_translated(attributes) is False:
            walk.skip_subtree()
            continue
        for name in sorted(read_attributes(local_name(element), attributes)):
            yield attribute_block(element, name)
        if is_kept(local_name(element), attributes):
            walk.skip_subtree()


def _page_role(element: Element) -> Role:
    name = local_name(element)
    if is_kept(name, dict(element.attrib)):
        return Role.KEPT if is_inside(name) else Role.APART_KEPT
    if name not in INLINE:
        return Role.APART
    return Role.EMPTY if name in VOID else Role.WORDS


def _set_page_language(root: Element, language: str) -> None:
    for name in ("lang", _XML_LANGUAGE):
        if root.get(name):
            root.set(name, language)


def _set_book_language(root: Element, language: str) -> None:
    found = (each for each in root.iter() if local_name(each) == "language")
    if (element := next(found, None)) is not None:
        element.text = language
