"""XML files of documents. The parser does not expand entities, load DTDs or use the network."""

from collections.abc import Callable, Sequence

from lxml import etree

from service.documents.base import DocumentError, DocumentTooLargeError
from service.documents.markup.inline import Block, Element, Place, Span, fill, texts_of

MAX_XML_BYTES = 32 * 1024 * 1024
"""Largest XML file that is parsed. Its tree takes several times as much memory as the file."""


def parse_xml(data: bytes, name: str) -> Element:
    """Returns the root of an XML file.

    Args:
        data: Content of the file.
        name: Name of the file, for error messages.

    Raises:
        DocumentError: The file is not well-formed, or declares entities.
        DocumentTooLargeError: The file is over the limit.
    """
    if len(data) > MAX_XML_BYTES:
        raise DocumentTooLargeError(
            f"{name} has {len(data)} bytes; the limit is {MAX_XML_BYTES}. Split the document"
        )
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, strip_cdata=False
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise DocumentError(f"{name} is not well-formed XML: {error}") from None
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and any(True for _ in dtd.iterentities()):
        raise DocumentError(f"{name} declares XML entities, which are not read; remove them")
    return root


def serialize_xml(root: Element) -> bytes:
    """Returns an XML file in its original encoding, with an XML declaration."""
    tree = root.getroottree()
    info = tree.docinfo
    written: bytes = etree.tostring(
        tree,
        encoding=info.encoding or "UTF-8",
        xml_declaration=True,
        standalone=info.standalone,
    )
    return written


def local_name(element: Element) -> str:
    """Returns the name of an element without its namespace; "" for a comment or an entity."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


class XmlDocument:
    """An XML file with blocks to translate.

    Args:
        root: Root of the file.
        blocks: Blocks, in the order of the file.
        set_language: Writes the code of the target language into the tree; None if the format does
            not state a language.
    """

    def __init__(
        self,
        root: Element,
        blocks: Sequence[Block],
        set_language: Callable[[Element, str], None] | None = None,
    ) -> None:
        self.root = root
        self.blocks = blocks
        self.set_language = set_language

    def texts(self) -> list[str]:
        """Returns the texts to translate, in order."""
        return [text for block in self.blocks for text in texts_of(block)]

    def write(self, translations: Sequence[str], language: str) -> bytes:
        """Returns the file with the translations."""
        remaining = iter(translations)
        for block in self.blocks:
            fill(block, remaining)
        if language and self.set_language is not None:
            self.set_language(self.root, language)
        return serialize_xml(self.root)


class BlockReader:
    """Finds the blocks of a tree in which any element may contain text, as in XHTML.

    Args:
        is_block: Whether a block begins at the start of an element and ends at the element's end.
        is_kept: Whether an element and all elements inside it stay as they are.
        is_plain: Whether an element groups text without changing its formatting.
    """

    def __init__(
        self,
        is_block: Callable[[Element], bool],
        is_kept: Callable[[Element], bool],
        is_plain: Callable[[Element], bool] = lambda element: False,
    ) -> None:
        self.is_block = is_block
        self.is_kept = is_kept
        self.is_plain = is_plain

    def read(self, root: Element) -> list[Block]:
        """Returns the blocks with text, in order."""
        blocks: list[list[list[Place]]] = [[[]]]
        waiting = [(root, True)]
        while waiting:
            element, is_start = waiting.pop()
            self._separate(element, blocks)
            if is_start:
                waiting.append((element, False))
            if is_start and local_name(element) and not self.is_kept(element):
                blocks[-1][-1].append(Place(element))
                waiting += [(child, True) for child in reversed(element)]
            if not is_start and element is not root:
                blocks[-1][-1].append(Place(element, "tail"))
        spans = ([Span(places) for places in block if places] for block in blocks)
        return [block for block in spans if texts_of(block)]

    def _separate(self, element: Element, blocks: list[list[list[Place]]]) -> None:
        """Begins a new block or a new span at the start or the end of an element."""
        if element.tag is etree.Comment:
            return
        if local_name(element) and self.is_block(element):
            blocks.append([[]])
        elif not local_name(element) or self.is_kept(element) or not self.is_plain(element):
            blocks[-1].append([])
