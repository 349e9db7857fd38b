"""Texts with inline elements, in two forms: a tree, and HTML that is sent for translation.

The tags of this HTML are the same for every format. They have an id, but no attribute of the
document. `<span id="1">` surrounds words to translate. `<img id="2">` stands for an element without
words. `<code id="3"></code>` stands for an element whose words stay as they are. `<br>`, without an
id, stands for a line break.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from html import escape
from itertools import count, groupby
from typing import Any

from lxml import etree, html

from service.text.html.elements import new_parser, parse_fragment, without_controls
from service.text.letters import has_letters

MAX_UNITS = 500
"""Largest number of inline elements in a text.

The time to place the elements in a translation grows faster than their number.
"""

LINE_BREAK = "<br>"
_LINE_BREAKS = re.compile(r"<br\s*/?>", re.IGNORECASE)
_WORD = re.compile(r"\S+")
_NOT_SHOWN = ("script", "style")


class Form(Enum):
    """The kind of an inline element; the value is its tag in the HTML."""

    WORDS = "span"
    """An element with words to translate."""
    EMPTY = "img"
    """An element without words, such as a footnote reference."""
    KEPT = "code"
    """An element whose words stay as they are.

    The sentence is translated as if a single word stood in the place of the element.
    """


@dataclass(slots=True, eq=False)
class Unit:
    """An inline element.

    Attributes:
        form: Form of the element in the text.
        source: The element in the document, as the format represents it.
        children: Words and elements inside this element. Only the form WORDS has children.
        is_ordered: Whether the element must keep its order among the ordered elements beside it.
            The start of a bookmark, for example, must stay before its end.
    """

    form: Form
    source: Any
    children: "list[Node]" = field(default_factory=list)
    is_ordered: bool = False


Node = str | Unit
"""A part of a text: words, or an inline element."""


class TaggedText:
    """A text with inline elements.

    Args:
        nodes: The text as a tree.
        keeps_lines: Whether line breaks are kept. If false, line breaks count as white space.

    Attributes:
        before: White space at the start of the text, which is not translated.
        nodes: The text without the white space in `before` and `after`.
        after: White space at the end of the text, which is not translated.
        html: The text as HTML.
    """

    def __init__(self, nodes: Sequence[Node], keeps_lines: bool = False) -> None:
        self.keeps_lines = keeps_lines
        core = joined(nodes)
        self.before = self.after = ""
        if core and isinstance(core[0], str):
            self.before, core[0] = _cut(core[0], len(core[0]) - len(core[0].lstrip()))
        if core and isinstance(core[-1], str):
            core[-1], self.after = _cut(core[-1], len(core[-1].rstrip()))
        self.nodes = joined(core)
        self.html = to_html(self.nodes)
        if keeps_lines:
            self.html = self.html.replace("\n", LINE_BREAK)

    def tree_of(self, translation: str) -> list[Node]:
        """Returns a translation as a tree, without the white space in `before` and `after`."""
        if self.keeps_lines:
            translation = _LINE_BREAKS.sub("\n", translation)
        return from_html(translation, self.nodes)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document that is translated as a whole.

    Attributes:
        text: The text of the piece.
        place: Writes a translated tree into the document.
    """

    text: TaggedText
    place: Callable[[list[Node]], None]

    def set(self, translation: str) -> None:
        """Writes a translation, which is HTML.

        If the translation equals the HTML of the text, the document does not change.
        """
        if translation != self.text.html:
            text = self.text
            self.place(joined([text.before, *text.tree_of(translation), text.after]))


def _cut(text: str, at: int) -> tuple[str, str]:
    return text[:at], text[at:]


def joined(nodes: Sequence[Node]) -> list[Node]:
    """Returns nodes without empty strings; neighbouring strings become one."""
    found: list[Node] = []
    for is_text, group in groupby(nodes, key=lambda node: isinstance(node, str)):
        if is_text:
            text = "".join(map(str, group))
            found += [text] if text else []
        else:
            found += group
    return found


def words_of(nodes: Sequence[Node]) -> str:
    """Returns the words of a tree, without tags."""
    return "".join(node if isinstance(node, str) else words_of(node.children) for node in nodes)


def units_of(nodes: Sequence[Node]) -> Iterator[Unit]:
    """Yields all elements of a tree, in the order of their starts."""
    for node in nodes:
        if isinstance(node, Unit):
            yield node
            yield from units_of(node.children)


def to_html(nodes: Sequence[Node]) -> str:
    """Returns a tree as HTML. The elements get the ids 1, 2, …, in the order of their starts."""
    ids = count(1)

    def parts(nodes: Sequence[Node]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, str):
                yield escape(node, quote=False)
                continue
            tag = node.form.value
            yield f'<{tag} id="{next(ids)}">'
            yield from parts(node.children)
            if node.form is not Form.EMPTY:
                yield f"</{tag}>"

    return "".join(parts(nodes))


def from_html(translation: str, nodes: Sequence[Node]) -> list[Node]:
    """Returns a translation as a tree.

    The tree has all words of the translation. It has each element of the source exactly once,
    inside the same element as in the source. Other tags are left out.

    Args:
        translation: HTML, which may be malformed.
        nodes: The source.
    """
    return _Reader(nodes).read(translation)


@dataclass(slots=True)
class _Origin:
    """An element of the source.

    Attributes:
        unit: The element.
        parent: The element around `unit`; None if no element is around `unit`.
        number: Id of the element in the HTML, from 1.
    """

    unit: Unit
    parent: Unit | None
    number: int


class _Reader:
    """Reads the translation of one text.

    Args:
        nodes: The source.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        parents = {child: unit for unit in units_of(nodes) for child in _units(unit.children)}
        self.origins = [
            _Origin(unit, parents.get(unit), number)
            for number, unit in enumerate(units_of(nodes), 1)
        ]
        self.by_id = {str(origin.number): origin for origin in self.origins}
        self.found: dict[Unit, Unit] = {}
        self.top: list[Node] = []

    def read(self, translation: str) -> list[Node]:
        """Returns the translation as a tree."""
        root = _parsed(translation)
        open_: list[tuple[Any, Unit | None]] = [(root, None)]
        for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
            inside = self._children(open_[-1][1])
            if event == "start":
                origin = self._claim(element, open_[-1][1])
                if origin is not None:
                    inside.append(self._new(origin))
                    if origin.unit.form is Form.WORDS:
                        open_.append((element, origin.unit))
                        inside = self._children(origin.unit)
                inside.append("" if element.tag in _NOT_SHOWN else element.text or "")
                continue
            if element is open_[-1][0]:
                open_.pop()
            if element is not root:
                self._children(open_[-1][1] if open_ else None).append(element.tail or "")
        for origin in self.origins:
            if origin.unit not in self.found:
                self._add_missing(origin)
        self._tidy()
        return self.top

    def _children(self, unit: Unit | None) -> list[Node]:
        """Returns the nodes of a translated element, or the nodes outside all elements."""
        return self.top if unit is None else self.found[unit].children

    def _claim(self, element: Any, parent: Unit | None) -> _Origin | None:
        """Returns the source element of a translated element; None if its tag must be left out.

        A tag is left out if its id or name is wrong, or if the element was found before. A tag is
        also left out if it is not inside the same element as in the source.
        """
        origin = self.by_id.get(element.get("id", ""))
        if origin is None or origin.unit in self.found or origin.parent is not parent:
            return None
        return origin if element.tag == origin.unit.form.value else None

    def _new(self, origin: _Origin) -> Unit:
        self.found[origin.unit] = new = replace(origin.unit, children=[])
        return new

    def _add_missing(self, origin: _Origin) -> None:
        """Adds an element whose tag is missing.

        The element surrounds the words that `_likely_words` finds, or stands at the end.
        """
        inside = self._children(origin.parent)
        inside[:] = joined(inside)
        new = self._new(origin)
        if origin.unit.form is Form.WORDS:
            siblings = self.nodes if origin.parent is None else origin.parent.children
            likely = _likely_words(siblings, origin.unit, inside)
            if likely is not None:
                number, start, end = likely
                text = inside[number]
                assert isinstance(text, str)
                new.children = [text[start:end]]
                inside[number : number + 1] = [text[:start], new, text[end:]]
                return
        inside.append(new)

    def _tidy(self) -> None:
        """Joins strings, and restores the order of ordered elements."""
        numbers = {id(self.found[each.unit]): each.number for each in self.origins}
        for nodes in (self.top, *(unit.children for unit in self.found.values())):
            nodes[:] = joined(nodes)
            places = [n for n, each in enumerate(nodes) if not isinstance(each, str)]
            places = [n for n in places if nodes[n].is_ordered]  # type: ignore[union-attr]
            ordered = sorted((nodes[n] for n in places), key=lambda each: numbers[id(each)])
            for place, node in zip(places, ordered, strict=True):
                nodes[place] = node


def _units(nodes: Sequence[Node]) -> Iterator[Unit]:
    return (node for node in nodes if isinstance(node, Unit))


def _likely_words(
    source: Sequence[Node], unit: Unit, nodes: Sequence[Node]
) -> tuple[int, int, int] | None:
    """Returns the translated words that an element gets if its tag is not in the translation.

    The element's own words, such as a name or a number, are taken if the translation has them
    exactly once. If not, the words at the same relative position are taken.

    Args:
        source: The element and its siblings in the source.
        unit: The element.
        nodes: The translated siblings.

    Returns:
        The index of a string in `nodes`, and the bounds of the words in this string. The
        result is None if `nodes` has no words.
    """
    texts = [(n, node) for n, node in enumerate(nodes) if isinstance(node, str) and node.strip()]
    if not texts:
        return None
    words = words_of([unit]).strip()
    same = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")
    exact = [(n, *match.span()) for n, text in texts for match in same.finditer(text)]
    if len(exact) == 1 and words:
        return exact[0]
    before = len(words_of(source[: source.index(unit)]))
    middle = (before + len(words_of([unit])) / 2) / max(1, len(words_of(source)))
    size = len(words_of([unit])) / max(1, len(words_of(source)))
    total = len(words_of(nodes))
    wanted = middle * total
    starts = [len(words_of(nodes[:n])) for n, _ in texts]
    best = min(range(len(texts)), key=lambda n: _distance(wanted, starts[n], len(texts[n][1])))
    number, text = texts[best]
    first, last = (wanted - starts[best] + side * size * total / 2 for side in (-1, 1))
    spans = [match.span() for match in _WORD.finditer(text)]
    inside = [span for span in spans if first <= sum(span) / 2 <= last]
    nearest = min(spans, key=lambda span: abs(sum(span) / 2 - (first + last) / 2))
    chosen = inside or [nearest]
    return number, chosen[0][0], chosen[-1][1]


def _distance(place: float, start: int, length: int) -> float:
    """Returns the distance of a place from a string; 0 if the place is in the string."""
    return max(start - place, place - start - length, 0)


def is_translated(nodes: Sequence[Node]) -> bool:
    """Reports whether a text has words to translate."""
    return has_letters(words_of(nodes))


def _parsed(text: str) -> Any:
    """Returns an element with the content of a text in HTML.

    A text that the parser refuses becomes the text of the element. Elements that are nested more
    than about 2,000 levels deep are left out.
    """
    text = without_controls(text)
    try:
        return parse_fragment(text, new_parser())
    except (etree.ParserError, etree.XMLSyntaxError):
        refused = html.Element("div")
        refused.text = text
        return refused
