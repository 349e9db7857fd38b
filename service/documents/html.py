"""Reads HTML (.html) documents.

All characters outside of texts are kept, except for the language of the root element. Parsers such
as `lxml` and `html5lib` would write the page with other quotes, other entities and added elements.

A block is a sequence of texts and inline elements, such as a paragraph. Usually a block is one
passage: a text to translate.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from html import escape
from itertools import groupby

from service.documents.base import Passage, PassageDocument, decode
from service.documents.tagged import (
    MAX_UNITS,
    Form,
    Node,
    OpenElements,
    TaggedText,
    Unit,
    is_translated,
    units_of,
    words_of,
)
from service.text.attributes import VALUE, filled, read_attributes, values_in
from service.text.entities import unescaped
from service.text.html_text import INLINE, Piece, pieces, says_translated
from service.text.letters import split_margins
from service.text.markup import Kind, Token

# Elements that can be part of a sentence, and whose content is not translated.
KEPT_INSIDE = frozenset("code kbd samp var math svg notranslate".split())

# Elements that end a sentence, and whose content is not translated.
KEPT_APART = frozenset("script style pre textarea iframe template".split())

_CLOSED_BY_THE_NEXT = frozenset("p li td th tr dt dd option".split())
_ROOT_LANGUAGE = re.compile(r"(<html\b[^<>]*?\slang=)([\"']?)[\w-]*\2(?=[\s>/])", re.IGNORECASE)
_CHARSET = re.compile(r"""<meta\b[^<>]*?charset\s*=\s*["']?([^\s"'/>;]+)""", re.IGNORECASE)

# Number of characters in which a browser searches for the charset of a page.
CHARSET_CHARS = 1024

# Limits on a block that can become one passage: inline elements around a word, and tokens.
MAX_DEPTH = 100
MAX_TOKENS = 2 * MAX_UNITS

_WHITE_SPACE = re.compile(r"[ \t\r\n\f]+")


class Content(Enum):
    """The treatment of the content of an element."""

    TRANSLATED = "translated"
    # Kept because of an attribute. An element in it with `translate="yes"` is translated.
    UNTRANSLATED = "untranslated"
    # Kept because of the element's name.
    KEPT = "kept"


def read_html(data: bytes) -> PassageDocument:
    """Reads a page or a fragment of a page; broken nesting is accepted."""
    page = "".join(decode(data, marks="<"))
    charset = _CHARSET.search(page, 0, CHARSET_CHARS)
    has_other_charset = charset is not None and charset[1].lower() not in ("utf-8", "utf8")
    is_ascii = has_other_charset and page.isascii()  # ASCII bytes mean the same in both charsets
    tokens = _tokens(page)
    parts: list[str | Passage] = []
    for is_apart, group in groupby(tokens, key=lambda token: token.kind is Kind.BLOCK):
        if is_apart:
            parts.append(_source(list(group)))
        else:
            parts += _block(list(group))
    translations: dict[str, str] = {}
    parts += _attributes(tokens, translations)
    return PassageDocument(
        parts, _set_language, lambda written: filled(written, translations), True, is_ascii
    )


def _attributes(tokens: Sequence[Token], translations: dict[str, str]) -> Iterator[Passage]:
    """Yields a passage for each value of an attribute that people read.

    The passages write nothing. Their translations go to the given mapping.
    """

    def keep(value: str, translation: str) -> str:
        before, _, after = split_margins(value)
        translations[value] = before + unescaped(translation) + after
        return ""

    for value in values_in(token.source for token in tokens if token.kind is not Kind.TEXT):
        yield Passage(escape(value.strip(), quote=False), partial(keep, value))


def is_kept(tag: str, attributes: Mapping[str, str | None]) -> bool:
    return says_translated(attributes) is False or tag in KEPT_INSIDE or tag in KEPT_APART


def is_inside(tag: str) -> bool:
    return tag in INLINE or tag in KEPT_INSIDE


def _tokens(page: str) -> list[Token]:
    """Cuts a page into tokens. The token of a kept element has its content."""
    around = OpenElements(Content.TRANSLATED)
    has_marks = VALUE in page  # HTML does not allow this character
    found: list[tuple[Kind, list[str]]] = []
    for piece in pieces(page):
        kind = _kind(piece, around)
        if kind is None:
            found[-1][1].append(piece.source)
        else:
            found.append((kind, [piece.source if has_marks else _marked(piece)]))
    return [Token(kind, "".join(sources)) for kind, sources in found]


def _marked(piece: Piece) -> str:
    """Returns the source of a piece, with marks around the values that people read."""
    if piece.kind not in (Kind.OPEN, Kind.EMPTY) or not piece.attributes.strip():
        return piece.source
    attributes = piece.attribute_values()
    names = read_attributes(piece.name, attributes)
    if not names or says_translated(attributes) is False:
        return piece.source
    return piece.marked(names)


def _kind(piece: Piece, around: OpenElements[Content]) -> Kind | None:
    """Returns the kind of a piece's token; None if the piece is in a kept element."""
    kind = piece.kind if not piece.name or is_inside(piece.name) else Kind.BLOCK
    is_content = around.inner is not Content.TRANSLATED
    is_innermost = around.name == piece.name
    if piece.kind is Kind.OPEN:
        if is_innermost and piece.name in _CLOSED_BY_THE_NEXT:
            around.end(piece.name)
        attributes = piece.attribute_values()
        is_start_of_kept = is_kept(piece.name, attributes)
        content = around.inner
        if content is Content.UNTRANSLATED and says_translated(attributes) and not is_start_of_kept:
            # This element is a block of its own in the untranslated element around it.
            content, kind, is_content = Content.TRANSLATED, Kind.BLOCK, False
        elif content is Content.TRANSLATED and is_start_of_kept:
            is_named = piece.name in KEPT_INSIDE or piece.name in KEPT_APART
            content = Content.KEPT if is_named else Content.UNTRANSLATED
            kind = Kind.OPAQUE if kind is Kind.OPEN else kind
        around.begin(piece.name, content)
    elif piece.kind is Kind.CLOSE:
        around.end(piece.name)
        if not is_content and around.inner is not Content.TRANSLATED:
            kind = Kind.BLOCK
        elif not is_innermost:
            kind, is_content = Kind.BLOCK, around.inner is not Content.TRANSLATED
    return None if is_content else kind


def _source(tokens: Sequence[Token]) -> str:
    return "".join(token.source for token in tokens)


def _block(tokens: Sequence[Token]) -> Iterator[str | Passage]:
    """Yields the parts of a block. Unbalanced, too many or too deep tags keep its texts apart."""
    ends = _ends(tokens)
    if ends is None or len(tokens) > MAX_TOKENS:
        for token in tokens:
            yield from _parts([token]) if token.kind is Kind.TEXT else [token.source]
        return
    first, last = _trimmed(tokens, ends)
    yield _source(tokens[:first])
    yield from _parts(tokens[first:last])
    yield _source(tokens[last:])


def _ends(tokens: Sequence[Token]) -> dict[int, int] | None:
    """Maps the index of each start tag to the index of its end tag; None as `_block` says."""
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
    """Returns the bounds of a block's text, without tags that surround the whole text."""
    shown = [
        number
        for number, token in enumerate(tokens)
        if token.kind is Kind.OPAQUE or (token.kind is Kind.TEXT and token.source.strip())
    ]
    if not shown:
        return 0, 0
    first, last = shown[0], shown[-1] + 1
    starts = [start for start, end in ends.items() if start < first <= end < last]
    stops = [end + 1 for start, end in ends.items() if first <= start < last <= end]
    return min([first, *starts]), max([last, *stops])


def _parts(tokens: Sequence[Token]) -> Iterator[str | Passage]:
    """Yields a passage and the white space around it, or one kept string if there are no words."""
    before, source, after = split_margins(_source(tokens))
    if tokens and tokens[-1].kind is Kind.OPAQUE:  # an element without an end tag may end in space
        source, after = source + after, ""
    nodes = _nodes(tokens)
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
    return _WHITE_SPACE.sub(" ", unescaped(source))


def _nodes(tokens: Sequence[Token]) -> list[Node]:
    """Returns the tree of tokens whose tags are balanced."""
    nodes: list[Node] = []
    around: list[tuple[int, list[Node]]] = []  # index of each open start tag, and nodes before it
    for number, token in enumerate(tokens):
        if token.kind is Kind.TEXT:
            nodes.append(_collapsed(token.source))
        elif token.kind is Kind.OPEN:
            around.append((number, nodes))
            nodes = []
        elif token.kind is Kind.CLOSE:
            inside = nodes
            start, nodes = around.pop()
            if words_of(inside).strip() or any(u.form is Form.KEPT for u in units_of(inside)):
                nodes.append(Unit(Form.WORDS, (tokens[start].source, token.source), inside))
            else:
                nodes.append(Unit(Form.EMPTY, (_source(tokens[start : number + 1]), "")))
        else:
            form = Form.KEPT if token.kind is Kind.OPAQUE else Form.EMPTY
            nodes.append(Unit(form, (token.source, "")))
    return nodes


def _written(nodes: Sequence[Node]) -> str:
    parts = []
    for node in nodes:
        if isinstance(node, str):
            parts.append(escape(node, quote=False))
        else:
            before, after = node.source
            parts += (before, _written(node.children), after)
    return "".join(parts)


def _set_language(written: str, language: str) -> str:
    return _ROOT_LANGUAGE.sub(
        lambda match: f"{match[1]}{match[2]}{language}{match[2]}", written, count=1
    )
