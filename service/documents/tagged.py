"""Texts with inline elements, in two forms: a tree, and HTML that is sent for translation.

The tags of this HTML are the same for every format. They have an id, but no attribute of the
document. `<span id="1">` surrounds words to translate. `<img id="2">` stands for an element without
words. `<code id="3"></code>` stands for an element whose words stay as they are. `<br>`, without an
id, stands for a line break, and `<hr>` for a tab.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from html import escape, unescape
from itertools import count, groupby
from typing import Any

from lxml import etree

from service.text.entities import unescaped
from service.text.html_text import OpenElements, pieces, without_controls
from service.text.letters import has_letters
from service.text.markup import Kind

# An element of lxml, which has no type hints.
Element = Any

# Largest number of inline elements in a text, because placing them takes more than linear time.
MAX_UNITS = 500

LINE_BREAK = "<br>"
_LINE_BREAKS = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TABS = re.compile(r"<hr\s*/?>", re.IGNORECASE)
_TAGS = re.compile(r"<[^>]*>")
_WORD = re.compile(r"\S+")


class Form(Enum):
    """The kind of an inline element; the value is its tag in the HTML."""

    WORDS = "span"  # with words to translate
    EMPTY = "img"  # without words, such as a footnote reference
    KEPT = "code"  # its words stay as they are; in the sentence, it counts as a single word


@dataclass(slots=True, eq=False)
class Unit:
    form: Form
    source: Any  # the element in the document, as the format represents it
    children: "list[Node]" = field(default_factory=list)  # only of the form WORDS
    is_ordered: bool = False  # whether it keeps its order among the ordered elements beside it


Node = str | Unit


class TaggedText:
    """A text with inline elements, as a tree in `nodes` and as HTML in `html`.

    The white space at its ends is in `before` and `after`. If `keeps_lines` is false, line breaks
    count as white space.
    """

    __slots__ = ("after", "before", "html", "keeps_lines", "nodes")

    def __init__(self, nodes: Sequence[Node], keeps_lines: bool = False) -> None:
        self.keeps_lines = keeps_lines
        core = joined(nodes)
        self.before = self.after = ""
        if core and isinstance(first := core[0], str):
            core[0] = words = first.lstrip()
            self.before = first.removesuffix(words)
        if core and isinstance(last := core[-1], str):
            core[-1] = words = last.rstrip()
            self.after = last.removeprefix(words)
        self.nodes = joined(core)
        self.html = to_html(self.nodes)
        if keeps_lines:
            self.html = self.html.replace("\n", LINE_BREAK).replace("\t", "<hr>")

    def tree_of(self, translation: str) -> list[Node]:
        """Returns a translation, which is HTML, as a tree without `before` and `after`.

        The tree has all words of the translation. It has each element of the source exactly once,
        inside the same element as in the source. Other tags are left out.
        """
        if self.keeps_lines:
            translation = _TABS.sub("\t", _LINE_BREAKS.sub("\n", translation))
        return _Reader(self.nodes).read(without_controls(translation))

    def placed(self, source: str, write: Callable[[list[Node]], str]) -> Callable[[str], str]:
        """Returns a function that writes a translation. A text that does not change stays."""
        return lambda reply: source if reply == self.html else write(self.tree_of(reply))


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document that is translated as a whole. `place` writes a translated tree."""

    text: TaggedText
    place: Callable[[list[Node]], None]

    def set(self, translation: str) -> None:
        """Writes a translation, which is HTML. The document keeps a text that does not change."""
        if translation != self.text.html:
            text = self.text
            self.place(joined([text.before, *text.tree_of(translation), text.after]))


def local_name(element: Element) -> str:
    """Returns the name of an element without its namespace; "" for comments, entities and such."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


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
    return "".join(node if isinstance(node, str) else words_of(node.children) for node in nodes)


def is_translated(nodes: Sequence[Node]) -> bool:
    return has_letters(words_of(nodes))


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


def plain_text(html: str) -> str:
    return unescape(_TAGS.sub("", _TABS.sub(" ", without_controls(html).replace(LINE_BREAK, " "))))


class _Reader:
    """Reads the translation of one text, whose source are the given nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.root = Unit(Form.WORDS, None, [*nodes])
        self.by_id = {str(number): unit for number, unit in enumerate(units_of(nodes), 1)}
        parents = (self.root, *self.by_id.values())
        self.parents = {child: unit for unit in parents for child in unit.children}
        self.found = {self.root: Unit(Form.WORDS, None)}

    def read(self, translation: str) -> list[Node]:
        around = OpenElements(self.root)
        for piece in pieces(translation):
            inner = around.inner
            if piece.kind is Kind.TEXT:
                self.found[inner].children.append(unescaped(piece.source))
            elif piece.kind is Kind.CLOSE:
                around.end(piece.name)
            elif piece.name:
                unit = self.by_id.get(piece.attribute_values().get("id") or "")
                is_first = unit and unit not in self.found and self.parents[unit] is inner
                if unit and is_first and piece.name == unit.form.value:
                    self.found[inner].children.append(self._new(unit))
                    inner = unit if unit.form is Form.WORDS else inner
                if piece.kind is Kind.OPEN:
                    around.begin(piece.name, inner)
        for unit in self.by_id.values():
            if unit not in self.found:
                self._add_missing(unit)
        self._tidy()
        return self.found[self.root].children

    def _new(self, unit: Unit) -> Unit:
        self.found[unit] = new = replace(unit, children=[])
        return new

    def _add_missing(self, unit: Unit) -> None:
        """Adds an element whose tag is missing, around its likely words or at the end."""
        parent = self.parents[unit]
        inside = self.found[parent].children
        inside[:] = joined(inside)
        new = self._new(unit)
        if unit.form is Form.WORDS:
            likely = _likely_words(parent.children, unit, inside)
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
        numbers = {self.found[unit]: number for number, unit in enumerate(self.by_id.values())}
        for nodes in [unit.children for unit in self.found.values()]:
            nodes[:] = joined(nodes)
            ordered = [each for each in nodes if isinstance(each, Unit) and each.is_ordered]
            remaining = iter(sorted(ordered, key=numbers.__getitem__))
            nodes[:] = [
                next(remaining) if isinstance(each, Unit) and each.is_ordered else each
                for each in nodes
            ]


def _likely_words(
    source: Sequence[Node], unit: Unit, nodes: Sequence[Node]
) -> tuple[int, int, int] | None:
    """Returns the translated words that an element gets if its tag is not in the translation.

    The element's own words, such as a name or a number, are taken if the translation has them
    exactly once. If not, the words at the same relative position are taken. `source` and `nodes`
    are the siblings of the element in the source and in the translation.

    Returns the index of a string in `nodes`, and the bounds of the words in this string.
    """
    texts = [(n, node) for n, node in enumerate(nodes) if isinstance(node, str)]
    own = words_of([unit]).strip()
    same = re.compile(rf"(?<!\w){re.escape(own)}(?!\w)")
    exact = [(n, *match.span()) for n, text in texts for match in same.finditer(text)]
    if len(exact) == 1 and own:
        return exact[0]
    words = [(n, *match.span()) for n, text in texts for match in _WORD.finditer(text)]
    if not words:
        return None
    share = len(words) / max(1, len(words_of(source).split()))
    first = min(int(len(words_of(source[: source.index(unit)]).split()) * share), len(words) - 1)
    number, start, _ = words[first]
    chosen = words[first : first + max(1, round(len(own.split()) * share))]
    return number, start, max(end for n, _, end in chosen if n == number)
