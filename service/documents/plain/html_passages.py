"""Groups the tokens of an HTML page into passages and kept strings.

A passage is a text to translate. A block is a sequence of texts and inline elements, such as a
paragraph. Usually a block is one passage.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from html import escape
from itertools import groupby

from service.documents.base import split_margins
from service.documents.markup.tagged import (
    MAX_UNITS,
    Form,
    Node,
    TaggedText,
    Unit,
    is_translated,
    units_of,
    words_of,
)
from service.documents.plain.passages import Passage
from service.text.html.elements import unescaped

MAX_DEPTH = 100
"""Largest number of inline elements around a word, in a block that can become one passage."""

MAX_TOKENS = 2 * MAX_UNITS
"""Largest number of tokens in a block that can become one passage."""

_WHITE_SPACE = re.compile(r"[ \t\r\n\f]+")


class Kind(Enum):
    """The kind of a token."""

    TEXT = auto()
    OPEN = auto()
    """Start tag of an inline element."""
    CLOSE = auto()
    """End tag of an inline element."""
    EMPTY = auto()
    """A comment, a processing instruction, or an inline element without content."""
    KEPT = auto()
    """An inline element that stays as it is, with its content."""
    CONTENT = auto()
    """A part of a kept element.

    The tokenizer joins this part to the token before it, so `passages` never receives this kind.
    """
    APART = auto()
    """Any other part of a page. It ends a sentence."""


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a page.

    Attributes:
        kind: Its kind.
        source: Its characters in the page.
    """

    kind: Kind
    source: str


def passages(tokens: Iterable[Token]) -> list[str | Passage]:
    """Returns the kept strings and the passages of a page."""
    parts: list[str | Passage] = []
    for is_apart, group in groupby(tokens, key=lambda token: token.kind is Kind.APART):
        if is_apart:
            parts.append(_source(list(group)))
        else:
            parts += _block(list(group))
    return parts


def _source(tokens: Sequence[Token]) -> str:
    return "".join(token.source for token in tokens)


def _block(tokens: Sequence[Token]) -> Iterator[str | Passage]:
    """Yields the parts of a block. Usually the block has one passage.

    Each text between two tags is a passage of its own if the tags are unbalanced or nested too
    deeply. The same holds for a block with more than MAX_TOKENS tokens.
    """
    ends = _ends(tokens)
    if ends is None or len(tokens) > MAX_TOKENS:
        for token in tokens:
            yield from _parts([token], {}) if token.kind is Kind.TEXT else [token.source]
        return
    first, last = _trimmed(tokens, ends)
    yield _source(tokens[:first])
    shifted = {start - first: end - first for start, end in ends.items()}
    yield from _parts(tokens[first:last], shifted)
    yield _source(tokens[last:])


def _ends(tokens: Sequence[Token]) -> dict[int, int] | None:
    """Maps the index of each start tag to the index of its end tag.

    Returns None if tags are unbalanced or nested too deeply.
    """
    ends: dict[int, int] = {}
    open_: list[int] = []
    for number, token in enumerate(tokens):
        if token.kind is Kind.OPEN:
            open_.append(number)
        elif token.kind is Kind.CLOSE:
            if not open_:
                return None
            ends[open_.pop()] = number
        if len(open_) > MAX_DEPTH:
            return None
    return None if open_ else ends


def _trimmed(tokens: Sequence[Token], ends: dict[int, int]) -> tuple[int, int]:
    """Returns the index of the first token of a block's text, and the index after its last token.

    Tags that surround the whole text are outside these bounds.
    """
    shown = [
        number
        for number, token in enumerate(tokens)
        if token.kind is Kind.KEPT or (token.kind is Kind.TEXT and token.source.strip())
    ]
    if not shown:
        return 0, 0
    first, last = shown[0], shown[-1] + 1
    starts = [start for start, end in ends.items() if start < first <= end < last]
    stops = [end + 1 for start, end in ends.items() if first <= start < last <= end]
    return min([first, *starts]), max([last, *stops])


def _parts(tokens: Sequence[Token], ends: dict[int, int]) -> Iterator[str | Passage]:
    """Yields a passage and the white space around it, or one kept string if there are no words."""
    before, source, after = split_margins(_source(tokens))
    nodes = _nodes(tokens, ends, 0, len(tokens))
    if not is_translated(nodes):
        yield before + source + after
        return
    text = TaggedText(nodes)
    # `before` and `after` are written separately. `first` and `last` therefore contain only the
    # other white space at the ends of the text, such as a no-break space.
    first = text.before.removeprefix(_collapsed(before))
    last = text.after.removesuffix(_collapsed(after))

    def place(translation: str) -> str:
        if translation == text.html:
            return source
        return _written([first, *text.tree_of(translation), last])

    yield from (before, Passage(text.html, place), after)


def _collapsed(source: str) -> str:
    """Returns a text with decoded entities, and one space for each run of white space."""
    return _WHITE_SPACE.sub(" ", unescaped(source))


def _nodes(tokens: Sequence[Token], ends: dict[int, int], first: int, last: int) -> list[Node]:
    """Returns the tree of the tokens with the indices from `first` to `last` - 1."""
    nodes: list[Node] = []
    number = first
    while number < last:
        token = tokens[number]
        if token.kind is Kind.TEXT:
            nodes.append(_collapsed(token.source))
        elif token.kind is Kind.OPEN:
            end = ends[number]
            inside = _nodes(tokens, ends, number + 1, end)
            if words_of(inside).strip() or any(u.form is Form.KEPT for u in units_of(inside)):
                nodes.append(Unit(Form.WORDS, (token.source, tokens[end].source), inside))
            else:
                nodes.append(Unit(Form.EMPTY, (_source(tokens[number : end + 1]), "")))
            number = end
        else:
            form = Form.KEPT if token.kind is Kind.KEPT else Form.EMPTY
            nodes.append(Unit(form, (token.source, "")))
        number += 1
    return nodes


def _written(nodes: Sequence[Node]) -> str:
    """Returns a tree as HTML with the tags of the page."""
    parts = []
    for node in nodes:
        if isinstance(node, str):
            parts.append(escape(node, quote=False))
        else:
            before, after = node.source
            parts += (before, _written(node.children), after)
    return "".join(parts)
