"""Reads OpenDocument text (.odt): paragraphs and headings of the body, headers and footers."""

from collections.abc import Container, Iterator

from service.documents.base import DocumentError
from service.documents.inline import BlockReader, Role
from service.documents.tagged import Element
from service.documents.xml_files import ArchiveDocument, XmlDocument, local_name, read_archive

TYPE = b"application/vnd.oasis.opendocument.text"
APART_KEPT = frozenset(
    "tracked-changes automatic-styles styles font-face-decls scripts settings object-ole "
    "binary-data".split()
)
KEPT = frozenset(
    "bibliography-mark page-number page-count date time author-name sequence creator "
    "creator-initials index-entry-page-number sequence-ref note-ref".split()
)

# Roles of elements inside a paragraph; `_role` covers all other names.
ROLES: dict[str, Role] = {
    **dict.fromkeys(("span", "a", "meta"), Role.WORDS),
    **dict.fromkeys(("note", "annotation"), Role.ASIDE),
    **dict.fromkeys(KEPT, Role.KEPT),
    **dict.fromkeys((*APART_KEPT, "note-citation"), Role.APART_KEPT),
}

BREAKS = frozenset(("tab", "line-break"))
_STYLE_NAME = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}name"
_USED_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}style-name"
_ANCHOR = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}anchor-type"
_TRIVIAL = frozenset(("rsid", "paragraph-rsid", "language", "country"))


def read_odt(data: bytes) -> ArchiveDocument:
    members = read_archive(data)
    kind = members["mimetype"].data.strip() if "mimetype" in members else b""
    if "content.xml" not in members or kind != TYPE:
        raise DocumentError("the archive is no OpenDocument text; is it another format?")
    return ArchiveDocument(members, ["content.xml", "styles.xml"], _read_part)


def _read_part(root: Element, _name: str) -> XmlDocument:
    trivial = {style.get(_STYLE_NAME) for style in root.iter() if _is_trivial(style)}
    reader = BlockReader(lambda element: _role(element, trivial))
    return XmlDocument(root, [block for body in _bodies(root) for block in reader.read(body)])


def _bodies(root: Element) -> Iterator[Element]:
    """Yields the paragraphs and headings that are not inside another paragraph or heading."""
    waiting = [root]
    while waiting:
        element = waiting.pop()
        if local_name(element) in ("p", "h"):
            yield element
        elif local_name(element) not in APART_KEPT:
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
    return Role.APART if len(element) or element.text or name in BREAKS else Role.MARK


def _is_trivial(style: Element) -> bool:
    """Reports whether a style only marks the language or the editing session of its text."""
    parent = style.getparent()
    if parent is None or local_name(parent) != "automatic-styles" or local_name(style) != "style":
        return False
    properties = [child for child in style if local_name(child)]
    names = {name.rpartition("}")[2] for child in properties for name in child.attrib}
    return names <= _TRIVIAL and not any(map(len, properties))
