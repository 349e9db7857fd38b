"""Reads e-books (.epub): chapters, the table of contents, the title and the description."""

from itertools import islice
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from service.documents.base import DocumentError, PassageDocument
from service.documents.html import read_html
from service.documents.inline import reader_of
from service.documents.tagged import Element, local_name
from service.documents.xml_files import ArchiveDocument, XmlDocument, XmlParser, read_archive

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

    def read(root: Element, name: str) -> XmlDocument | PassageDocument:
        if (kind := local_name(root)) == "html":
            return read_html(members[name].data)
        texts = ("title", "description") if kind == "package" else ("text",)
        return XmlDocument(root, reader_of(*texts).read(root), _set_language)

    return ArchiveDocument(members, [package, *names], read, parser)


def _chapters(package: Element, name: str) -> list[str]:
    items = {each.get("id"): each for each in package.iter("{*}item")}
    order = [items.get(each.get("idref")) for each in package.iter("{*}itemref")]
    names = (
        normpath(join(dirname(name), unquote(each.get("href", ""))))
        for each in (*order, *items.values())
        if each is not None and each.get("media-type") in (CHAPTER, CONTENTS)
    )
    return [*dict.fromkeys(names)]


def _set_language(root: Element, language: str) -> None:
    if root.get(_XML_LANGUAGE):
        root.set(_XML_LANGUAGE, language)
    for element in islice(root.iter("{*}language"), 1):
        element.text = language
