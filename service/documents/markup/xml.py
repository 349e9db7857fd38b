"""Parses and writes the XML of documents.

The parser does not expand entities, load DTDs or use the network.
"""

from collections.abc import Callable, Sequence

from lxml import etree

from service.documents.base import DocumentError, DocumentTooLargeError
from service.documents.markup.inline import Element
from service.documents.markup.tagged import Block

MAX_XML_BYTES = 32 * 1024 * 1024
MAX_NODES = 1_000_000
"""Limits on the XML files of a document together. A node takes up to 400 bytes of memory."""

NO_MEMORY = 2
"""Code of libxml2's errors for too little memory.

Source: libxml2, enum xmlParserErrors.
"""


class XmlParser:
    """Parses the XML files of one document, which have their limits together."""

    def __init__(self) -> None:
        self.num_bytes = self.num_nodes = 0

    def parse(self, data: bytes, name: str) -> Element:
        """Returns the root of an XML file.

        Args:
            data: Content of the file.
            name: Name of the file, for error messages.

        Raises:
            DocumentError: The file is not well-formed, or declares entities.
            DocumentTooLargeError: The files have more than MAX_XML_BYTES or MAX_NODES.
        """
        self._count(data, name)
        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, strip_cdata=False
        )
        try:
            root = etree.fromstring(data, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            if getattr(error, "code", None) == NO_MEMORY:
                raise MemoryError from None
            raise DocumentError(f"{name} is not well-formed XML: {error}") from None
        dtd = root.getroottree().docinfo.internalDTD
        if dtd is not None and any(True for _ in dtd.iterentities()):
            raise DocumentError(f"{name} declares XML entities, which are not read; remove them")
        return root

    def _count(self, data: bytes, name: str) -> None:
        """Adds a file to the sums, before the file is parsed.

        In UTF-8 and UTF-16, each element, comment and instruction has the byte `<`, and each
        attribute has the byte `=`.
        """
        self.num_bytes += len(data)
        end_tags = data.count(b"</") + data.count(b"<\0/")
        self.num_nodes += data.count(b"<") - end_tags + data.count(b"=")
        for number, limit, unit in (
            (self.num_bytes, MAX_XML_BYTES, "bytes"),
            (self.num_nodes, MAX_NODES, "elements and attributes"),
        ):
            if number > limit:
                raise DocumentTooLargeError(
                    f"the XML of the document has {number} {unit} up to {name}; the limit is "
                    f"{limit}. Split the document"
                )


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
    """Returns the name of an element without its namespace.

    The result is "" for a comment, an entity or a processing instruction.
    """
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


class XmlDocument:
    """An XML file with blocks to translate. A block is translated as a text in HTML.

    Args:
        root: Root of the file.
        blocks: Blocks, in the order of the file.
        set_language: Writes the code of the target language into the tree; None if the format has
            no place for the code.
    """

    is_html = True

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
        return [block.text.html for block in self.blocks]

    def write(self, translations: Sequence[str], language: str) -> bytes:
        """Returns the file with the translations."""
        for block, translation in zip(self.blocks, translations, strict=True):
            block.set(translation)
        if language and self.set_language is not None:
            self.set_language(self.root, language)
        return serialize_xml(self.root)
