"""OpenDocument text (.odt): paragraphs and headings of the body, headers and footers."""

from service.documents.base import DocumentError
from service.documents.markup.archive import ArchiveDocument, read_archive, read_parts
from service.documents.markup.inline import Element
from service.documents.markup.xml import BlockReader, XmlDocument, local_name, parse_xml

TYPE = b"application/vnd.oasis.opendocument.text"
BLOCKS = frozenset(("p", "h"))
KEPT = frozenset(
    "note-citation tracked-changes bibliography-mark page-number page-count date time author-name "
    "sequence automatic-styles styles font-face-decls scripts settings index-entry-page-number "
    "creator object-ole".split()
)
_STYLE_NAME = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}name"
_USED_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}style-name"
_TRIVIAL = frozenset(("rsid", "paragraph-rsid", "language", "country"))


def read_odt(data: bytes) -> ArchiveDocument:
    """Reads an OpenDocument text, the format of LibreOffice Writer.

    Raises:
        DocumentError: The file is damaged, or it is not an OpenDocument text.
    """
    members = read_archive(data)
    kind = members["mimetype"].data.strip() if "mimetype" in members else b""
    if "content.xml" not in members or kind != TYPE:
        raise DocumentError("the archive is no OpenDocument text; is it another format?")
    return read_parts(members, ["content.xml", "styles.xml"], _read_part)


def _read_part(data: bytes, name: str) -> XmlDocument:
    root = parse_xml(data, name)
    trivial = {style.get(_STYLE_NAME) for style in root.iter() if _is_trivial(style)}
    reader = BlockReader(
        is_block=lambda element: (
            local_name(element) in BLOCKS or local_name(element) in ("note", "annotation")
        ),
        is_kept=lambda element: local_name(element) in KEPT,
        is_plain=lambda element: (
            local_name(element) in ("bookmark", "bookmark-start", "bookmark-end", "soft-page-break")
            or (local_name(element) == "span" and element.get(_USED_STYLE) in trivial)
        ),
    )
    blocks = [
        block
        for block in reader.read(root)
        if any(_is_text(place.element) for span in block for place in span.places)
    ]
    return XmlDocument(root, blocks)


def _is_text(element: Element) -> bool:
    """Reports whether an element is a paragraph or a heading, or is inside one of them."""
    return any(local_name(each) in BLOCKS for each in (element, *element.iterancestors()))


def _is_trivial(style: Element) -> bool:
    """Reports whether a style only marks the language or the editing session of its text."""
    if local_name(style) != "style" or not local_name(style.getparent()) == "automatic-styles":
        return False
    properties = [child for child in style if local_name(child)]
    names = [name.rpartition("}")[2] for child in properties for name in child.attrib]
    return all(name in _TRIVIAL for name in names) and not any(len(c) for c in properties)
