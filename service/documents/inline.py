"""Finds the texts of an XML file in which any element may contain text, as in XHTML.

A block is a text that is translated as a whole. It ends where an element such as a paragraph or a
line break starts or ends. The elements inside a block are inline elements. A translation may
change the order of inline elements.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from html import unescape
from typing import Literal

from lxml import etree

from service.documents.tagged import (
    MAX_UNITS,
    Block,
    Element,
    Form,
    Node,
    TaggedText,
    Unit,
    is_translated,
    joined,
    local_name,
    units_of,
    words_of,
)


class Role(Enum):
    """The role of an element in the text around it."""

    # Inline elements.
    WORDS = auto()  # with words
    PLAIN = auto()  # with words, but without a formatting; a translation may drop the element
    EMPTY = auto()  # stays as it is and does not stand for a word, such as an image
    MARK = auto()  # like EMPTY, and keeps its order among these elements: the start of a bookmark
    KEPT = auto()  # stays as it is and stands for a word, such as a page number
    ASIDE = auto()  # does not stand for a word, and has texts of its own, such as a footnote

    # Elements that end a block.
    APART = auto()  # with texts of its own, such as a paragraph
    APART_KEPT = auto()  # stays as it is


# Largest number of nested elements around a whole text that need no tags in its HTML.
MAX_DEPTH = 10

# The attribute that says whether white space is part of a text.
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_keeps_lines = etree.XPath("ancestor-or-self::*[@xml:space != ''][1]/@xml:space = 'preserve'")

SEPARATE = (Role.APART, Role.APART_KEPT)

# Roles of inline elements whose words belong to the text around them.
SURROUNDING = (Role.WORDS, Role.PLAIN)


@dataclass(frozen=True, slots=True)
class Place:
    """One string of an XML tree: the text of an element, or its tail (the text after its end)."""

    element: Element
    part: Literal["text", "tail"] = "text"

    def get(self) -> str:
        return getattr(self.element, self.part) or ""

    def set(self, text: str) -> None:
        setattr(self.element, self.part, text)


class BlockReader:
    """Finds the blocks of a tree. `role_of` returns the role of an element."""

    def __init__(self, role_of: Callable[[Element], Role]) -> None:
        self.role_of = role_of
        self.divided: set[Element] = set()

    def _role(self, element: Element) -> Role:
        if element.tag is etree.Entity:
            return Role.PLAIN
        return self.role_of(element) if isinstance(element.tag, str) else Role.EMPTY

    def read(self, root: Element) -> list[Block]:
        self.divided = self._divided(root)
        return list(self._inside(root))

    def _divided(self, root: Element) -> set[Element]:
        """Returns the inline elements that contain the start or the end of a block."""
        divided: set[Element] = set()
        for element in root.iter():
            if element is not root and self._role(element) in SEPARATE:
                around = element.getparent()
                while around not in divided and self._role(around) in SURROUNDING:
                    divided.add(around)
                    if around is root:
                        break
                    around = around.getparent()
        return divided

    def _inside(self, element: Element) -> Iterator[Block]:
        first = Place(element)
        children: list[Element] = []
        for child in element:
            role = self._role(child)
            if role not in SEPARATE and child not in self.divided:
                children.append(child)
                continue
            yield from self._blocks(first, children)
            if role is not Role.APART_KEPT:
                yield from self._inside(child)
            first, children = Place(child, "tail"), []
        yield from self._blocks(first, children)

    def _blocks(self, first: Place, children: list[Element]) -> Iterator[Block]:
        """Yields the block of adjacent elements, then the blocks of the ASIDE elements in them."""
        yield from self._block(first, children)
        for aside in self._asides(children):
            yield from self._inside(aside)

    def _asides(self, children: Sequence[Element]) -> Iterator[Element]:
        for child in children:
            if self._role(child) is Role.ASIDE:
                yield child
            elif self._role(child) in SURROUNDING:
                yield from self._asides(child)

    def _block(self, first: Place, children: list[Element], depth: int = 0) -> Iterator[Block]:
        """Yields the block of some adjacent elements, if they have words.

        Elements with more than MAX_UNITS inline tags give one block for each string instead.
        `depth` is the number of elements around `children` that contain the whole text.
        """
        first, children = self._trimmed(first, children)
        nodes: list[Node] = [first.get(), *self._nodes(children)]
        shown = [each for each in nodes if not isinstance(each, str) or each.strip()]
        units = list(units_of(shown))
        if len(units) > MAX_UNITS:
            for place in (first, *self._places(children)):
                yield from _plain_block([place])
        elif len(shown) == 1 and units and units[0].form is Form.WORDS and depth < MAX_DEPTH:
            outer = units[0].source
            yield from self._block(Place(outer), list(outer), depth + 1)
        elif not units and not any(each.tag is etree.Entity for each in children):
            yield from _plain_block([first, *self._places(children)])
        elif is_translated(nodes):
            text = TaggedText(nodes, _keeps_lines(first.element))
            yield Block(text, lambda found: _rebuild(first, children, found))

    def _trimmed(self, first: Place, children: list[Element]) -> tuple[Place, list[Element]]:
        """Drops elements at the start and at the end that contain no words of this text."""

        def is_left_out(child: Element, beside: Place) -> bool:
            return not beside.get().strip() and not _has_content(self._unit(child))

        start, end = 0, len(children)
        while start < end and is_left_out(children[start], first):
            first = Place(children[start], "tail")
            start += 1
        while start < end and is_left_out(children[end - 1], Place(children[end - 1], "tail")):
            end -= 1
        return first, children[start:end]

    def _places(self, children: Sequence[Element]) -> Iterator[Place]:
        """Yields the strings of elements and of their tails, in order."""
        for child in children:
            if self._role(child) in SURROUNDING and child.tag is not etree.Entity:
                yield Place(child)
                yield from self._places(child)
            yield Place(child, "tail")

    def _nodes(self, children: Sequence[Element]) -> Iterator[Node]:
        for child in children:
            yield from self._unit(child)
            yield child.tail or ""

    def _unit(self, element: Element) -> list[Node]:
        """Returns the nodes that stand for an element in the text around it."""
        if element.tag is etree.Entity:
            return [unescape(element.text)]
        role = self._role(element)
        if role not in SURROUNDING:
            form = Form.KEPT if role is Role.KEPT else Form.EMPTY
            return [Unit(form, element, is_ordered=role is Role.MARK)]
        nodes = joined([element.text or "", *self._nodes(element)])
        if role is Role.PLAIN:
            return nodes
        return [
            Unit(Form.WORDS, element, nodes) if _has_content(nodes) else Unit(Form.EMPTY, element)
        ]


def reader_of(*names: str) -> BlockReader:
    """Returns a reader of elements with the given names, wherever they are in other elements."""

    def role(element: Element) -> Role:
        is_read = len(element) or local_name(element) in names
        return Role.APART if is_read else Role.APART_KEPT

    return BlockReader(role)


def attribute_block(element: Element, name: str) -> Block:
    """Returns the block of an attribute that people read."""
    return Block(TaggedText([element.get(name)]), lambda nodes: element.set(name, words_of(nodes)))


def _has_content(nodes: Sequence[Node]) -> bool:
    return any(isinstance(each, str) or each.form is not Form.EMPTY for each in nodes)


def _plain_block(places: Sequence[Place]) -> Iterator[Block]:
    """Yields one block for all strings, if they have words. The first one gets the translation."""

    def write(nodes: list[Node]) -> None:
        first, *others = places
        words = words_of(nodes)
        is_leaf = first.part == "text" and not len(first.element) and "]]>" not in words
        has_section = is_leaf and b"<![CDATA[" in etree.tostring(first.element)
        first.set(etree.CDATA(words) if has_section else words)
        for place in others:
            place.set("")

    text = "".join(place.get() for place in places)
    if is_translated([text]):
        yield Block(TaggedText([text], _keeps_lines(places[0].element)), write)


def _rebuild(first: Place, children: Sequence[Element], nodes: Sequence[Node]) -> None:
    """Replaces adjacent elements, and the string before them, by nodes in linear time."""
    owner = first.element if first.part == "text" else first.element.getparent()
    last = first
    following = children[-1].getnext() if children else None
    for child in children:
        owner.remove(child)
    last.set("")
    for node in nodes:
        if isinstance(node, str):
            last.set(last.get() + node)
            continue
        element = node.source
        if element.getparent() is not None:
            element.getparent().remove(element)
        if node.form is Form.WORDS:
            _rebuild(Place(element), list(element), node.children)
        element.tail = None
        insert(owner, following, [element])
        last = Place(element, "tail")


def insert(owner: Element, following: Element | None, children: Iterable[Element]) -> None:
    """Inserts children into `owner` before `following`, or at the end if `following` is None."""
    for child in children:
        if following is None:
            owner.append(child)
        else:
            following.addprevious(child)
