"""Resources of programs in XML: Android (strings.xml) and .NET (.resx)."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from lxml import etree

from service.documents.base import DocumentError
from service.documents.catalogs import read_escapes
from service.documents.code_values import is_prose
from service.documents.html import with_markup
from service.documents.inline import BlockReader, Role
from service.documents.tagged import Block, Element, Node, TaggedText, local_name, words_of
from service.documents.xliff import read_xliff
from service.documents.xml_files import XmlDocument, XmlParser

_SPACES = re.compile(r"\s+")
_QUOTE = re.compile(r'(?<!\\)"')

# The values of strings, not those of pictures and of properties of a form.
_VALUES = etree.XPath(
    "*[local-name() = 'data'][not(@type or @mimetype or starts-with(@name, '>>'))]"
    "/*[local-name() = 'value']"
)
_READER = BlockReader(lambda element: Role.KEPT if local_name(element) == "g" else Role.WORDS)


def read_resources(data: bytes) -> XmlDocument:
    root = XmlParser().parse(data, "the file")
    kind = local_name(root)
    if kind == "xliff":
        return read_xliff(data)
    if kind == "resources":
        blocks = [_of_android(block) for each in _strings(root) for block in _READER.read(each)]
    elif kind == "root":
        blocks = [with_markup(block) for each in _values(root) for block in _READER.read(each)]
    else:
        raise DocumentError(f"the root <{kind}> is not that of Android's strings, RESX or XLIFF")
    return XmlDocument(root, blocks, source=data)


def _strings(root: Element) -> Iterator[Element]:
    for element in root:
        name = local_name(element) if element.get("translatable") != "false" else ""
        items = element if name in ("string-array", "plurals", "array") else ()
        for each in [element] if name == "string" else items:
            words = read_escapes("".join(each.itertext()))
            if words.strip()[:1] not in ("@", "?") and is_prose(words, element.get("name", "")):
                yield each


def _values(root: Element) -> Iterator[Element]:
    for each in _VALUES(root):
        if is_prose("".join(each.itertext()), each.getparent().get("name", "")):
            yield each


def _of_android(block: Block) -> Block:
    """Returns a block whose text has characters in place of the escapes of Android."""
    text = block.text
    nodes = [text.before, *text.nodes, text.after]
    quotes = "'" if _QUOTE.search(words_of(nodes)) else "'\""
    read = TaggedText(
        _mapped(nodes, lambda source: read_escapes(_SPACES.sub(" ", source))), keeps_lines=True
    )
    place = partial(_escaped, quotes=quotes)
    return with_markup(Block(read, lambda found: block.place(_mapped(found, place))))


def _mapped(nodes: Sequence[Node], change: Callable[[str], str]) -> list[Node]:
    return [
        change(node)
        if isinstance(node, str)
        else replace(node, children=_mapped(node.children, change))
        for node in nodes
    ]


def _escaped(words: str, quotes: str) -> str:
    return re.sub(rf"[\\{quotes}]|^[@?]", r"\\\g<0>", words).replace("\n", r"\n")
