"""Reads e-books (.epub): chapters, the table of contents, the title and the description."""

from collections.abc import Iterator
from itertools import islice
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
    package = next((each.get("full-path", "") for each in container.iter("{*}rootfile")), "")
    if package not in members:
        raise DocumentError(f"the package {package[:80]!r} of the e-book is missing")
    names = _chapters(parser.parse(members[package].data, package), package)
    return ArchiveDocument(members, [package, *names], _read_part, parser)


def _chapters(package: Element, name: str) -> list[str]:
    items = {each.get("id"): each for each in package.iter("{*}item")}
    order = [items.get(each.get("idref")) for each in package.iter("{*}itemref")]
    names = (
        normpath(join(dirname(name), unquote(each.get("href", ""))))
        for each in (*order, *items.values())
        if each is not None and each.get("media-type") in (CHAPTER, CONTENTS)
    )
    return [*dict.fromkeys(names)]


def _read_part(root: Element, _name: str) -> XmlDocument:
    if (kind := local_name(root)) == "html":
        blocks = [*BlockReader(_page_role).read(root), *_attributes(root)]
        for element in root.iterfind(".//*[@translate='yes']"):
            if any(says_translated(dict(each.attrib)) is False for each in element.iterancestors()):
                blocks += BlockReader(_page_role).read(element)
    else:
        names = ("title", "description") if kind == "package" else ("text",)
        blocks = reader_of(*names).read(root)
    return XmlDocument(root, blocks, _set_language)


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


def _set_language(root: Element, language: str) -> None:
    for name in ("lang", _XML_LANGUAGE):
        if root.get(name):
            root.set(name, language)
    for element in islice(root.iter("{*}language"), 1):
        element.text = language
