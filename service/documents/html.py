"""Reads HTML (.html) documents.

All characters outside of texts are kept, except for the language of the root element. Parsers such
as `lxml` and `html5lib` would write the page with other quotes, other entities and added elements.

A block is a sequence of texts and inline elements, such as a paragraph. Usually a block is one
passage: a text to translate.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from itertools import groupby, islice

from service.documents.base import Passage, PassageDocument, skipped_in, with_breaks, wrap
from service.documents.encodings import decode
from service.documents.tagged import (
    MAX_UNITS,
    Block,
    Form,
    Node,
    TaggedText,
    Unit,
    is_translated,
    units_of,
    words_of,
)
from service.text.attributes import VALUE, filled, values_in
from service.text.entities import unescaped
from service.text.html_text import pieces, tokens_of
from service.text.letters import split_margins
from service.text.markup import Kind, Token
from service.text.messages import without_syntax

_LANGUAGES = tuple(
    re.compile(rf"""(<html\b[^<>]*?\s{name}=(["']?))[\w-]*(?=\2[\s>/])""", re.IGNORECASE)
    for name in ("lang", "xml:lang")
)
_CHARSET = re.compile(
    rb"""<(?:meta\b[^<>]*?charset|\?xml\b[^<>]*?encoding)\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE
)

# Limits on a block that can become one passage: inline elements around a word, and tokens.
MAX_DEPTH = 100
MAX_TOKENS = 2 * MAX_UNITS

_WHITE_SPACE = re.compile(r"[ \t\r\n\f]+")


def read_html(data: bytes) -> PassageDocument:
    """Reads a page or a fragment of a page; broken nesting is accepted."""
    mark, text, encoding = decode(data, "<", _CHARSET)
    page = mark + text
    tokens = tokens_of(pieces(page), marks_values=VALUE not in page)
    attributes, finish = attributes_of(tokens)
    parts, skipped = [*Markup().parts(tokens), *attributes], skipped_in(data)
    return PassageDocument(
        parts, _LANGUAGES, finish, True, encoding, skipped, errors="xmlcharrefreplace"
    )


def attributes_of(tokens: Sequence[Token]) -> tuple[list[Passage], Callable[[str], str]]:
    """Returns a passage for each value of an attribute that people read.

    The passages write nothing. The function, called after them, writes their translations.
    """
    translations: dict[str, str] = {}

    def keep(value: str, translation: str) -> str:
        before, _, after = split_margins(value)
        translations[value] = before + unescaped(translation) + after
        return ""

    values = values_in(token.source for token in tokens if token.kind is not Kind.TEXT)
    passages = [
        Passage(escape(value.strip(), quote=False), partial(keep, value)) for value in values
    ]
    return passages, lambda written: filled(written, translations)


def _source(tokens: Sequence[Token]) -> str:
    return "".join(token.source for token in tokens)


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


def _trimmed(
    tokens: Sequence[Token], ends: dict[int, int], tied: Container[str]
) -> tuple[int, int]:
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
    for start, end in ends.items():
        if start < first and last <= end and tokens[end].source in tied:
            starts, stops = [*starts, start], [*stops, end + 1]
    return min([first, *starts]), max([last, *stops])


class Markup:
    """Reads and writes texts with tags. A subclass is a language with other tags than HTML."""

    tied: Container[str] = ()  # end tags that are written anew with the words before them

    def read(self, source: str) -> str:
        """Returns the words of the source of a text."""
        return unescaped(source)

    def escape(self, words: str) -> str:
        return escape(words, quote=False)

    def element(self, before: str, inside: str, after: str) -> str:
        return before + inside + after

    def tags(self, tokens: Sequence[Token]) -> tuple[str, str]:
        """Returns the characters around the translation of an element."""
        return tokens[0].source, tokens[-1].source

    def parts(self, tokens: Sequence[Token]) -> Iterator[str | Passage]:
        for is_apart, group in groupby(tokens, key=lambda token: token.kind is Kind.BLOCK):
            if is_apart:
                yield _source(list(group))
            else:
                yield from self._block(list(group))

    def in_lines(self, tokens: Sequence[Token], between: Iterable[str]) -> Iterator[str | Passage]:
        """Yields the parts of a text of several lines, whose translations have as many lines.

        `between` are the characters to write for the line feeds in the tokens.
        """
        remaining = iter(between)
        for part in self.parts(tokens):
            lines = (part if isinstance(part, str) else part.place(part.text)).split("\n")
            ends = [*islice(remaining, len(lines) - 1)]
            if isinstance(part, str):
                yield with_breaks(lines, ends)
            else:
                yield Passage(part.text, partial(self._wrapped, part, lines, ends))

    def _wrapped(
        self, passage: Passage, lines: Sequence[str], ends: Sequence[str], translation: str
    ) -> str:
        if translation != passage.text:
            wrapped = wrap(passage.place(translation), lines)
            lines = [self.line(line, lines[0]) for line in wrapped]
        return with_breaks(lines, ends)

    def line(self, line: str, source: str) -> str:
        """Returns a line of a translation, changed so that it reads as words."""
        return line

    def _block(self, tokens: Sequence[Token]) -> Iterator[str | Passage]:
        """Yields the parts of a block. Unbalanced, too many or too deep tags part its texts."""
        ends = _ends(tokens)
        if ends is None or len(tokens) > MAX_TOKENS:
            for token in tokens:
                yield from self._passage([token]) if token.kind is Kind.TEXT else [token.source]
            return
        first, last = _trimmed(tokens, ends, self.tied)
        yield _source(tokens[:first])
        yield from self._passage(tokens[first:last])
        yield _source(tokens[last:])

    def _passage(self, tokens: Sequence[Token]) -> Iterator[str | Passage]:
        """Yields a passage and the white space around it, or a kept string without words."""
        before, source, after = split_margins(_source(tokens))
        # An element without an end tag may end in space.
        if tokens and tokens[-1].kind is Kind.OPAQUE:
            source, after = source + after, ""
        nodes = self.nodes(tokens)
        if not is_translated(nodes):
            yield before + source + after
            return
        text = TaggedText(nodes)
        # `before` and `after` are written separately. `first` and `last` therefore contain only
        # the other white space at the ends of the text, such as a no-break space.
        first = text.before.removeprefix(self.collapsed(before))
        last = text.after.removesuffix(self.collapsed(after))

        place = text.placed(source, lambda nodes: self.written([first, *nodes, last]))
        yield from (before, Passage(text.html, place), after)

    def collapsed(self, source: str) -> str:
        return _WHITE_SPACE.sub(" ", self.read(source))

    def nodes(self, tokens: Sequence[Token]) -> list[Node]:
        """Returns the tree of tokens whose tags are balanced."""
        nodes: list[Node] = []
        around: list[tuple[int, list[Node]]] = []  # index of each start tag, and nodes before it
        for number, token in enumerate(tokens):
            if token.kind is Kind.TEXT:
                nodes.append(self.collapsed(token.source))
            elif token.kind is Kind.OPEN:
                around.append((number, nodes))
                nodes = []
            elif token.kind is Kind.CLOSE:
                inside = nodes
                start, nodes = around.pop()
                if words_of(inside).strip() or any(u.form is Form.KEPT for u in units_of(inside)):
                    tags = self.tags(tokens[start : number + 1])
                    nodes.append(Unit(Form.WORDS, tags, inside))
                else:
                    nodes.append(Unit(Form.EMPTY, (_source(tokens[start : number + 1]), "")))
            else:
                form = Form.KEPT if token.kind is Kind.OPAQUE else Form.EMPTY
                nodes.append(Unit(form, (token.source, "")))
        return nodes

    def written(self, nodes: Sequence[Node]) -> str:
        parts = []
        for node in nodes:
            if isinstance(node, str):
                parts.append(self.escape(node))
            else:
                before, after = node.source
                if before == "[" and parts and parts[-1].endswith("!"):  # `![` begins an image
                    parts[-1] = parts[-1][:-1] + "\\!"
                inside = self.written(node.children)
                parts.append(self.element(before, inside, after))
        return "".join(parts)


class _Value(Markup):
    """A value of a catalogue. Its line breaks stay, and so does `&` if it has no entities."""

    def __init__(self, source: str) -> None:
        self.has_entities = unescaped(source) != source

    def escape(self, words: str) -> str:
        escaped = super().escape(words)
        return escaped if self.has_entities else escaped.replace("&amp;", "&")

    def collapsed(self, source: str) -> str:
        return self.read(source)


def value_text(source: str) -> tuple[TaggedText, Callable[[Sequence[Node]], str]]:
    """Returns a value of a catalogue as a text, and the function that writes a translated tree.

    The tags of a value such as `Read <b>all</b>` are tags, unless it has blocks or is a message.
    """
    tokens = tokens_of(pieces(source)) if "</" in source else []
    # An element such as `<0>` is none of HTML.
    is_inline = not any(
        each.kind is Kind.BLOCK or (each.kind is Kind.TEXT and "<" in each.source)
        for each in tokens
    )
    is_tagged = is_inline and 0 < len(tokens) <= MAX_TOKENS and _ends(tokens) is not None
    if is_tagged and without_syntax(source) == source:
        value = _Value(source)
        return TaggedText(value.nodes(tokens), True), value.written
    return TaggedText([source], True), words_of


def with_markup(block: Block) -> Block:
    """Returns a block of XML whose text has tags if it is itself HTML, as in a CDATA section."""
    text = block.text
    if "</" not in words_of(text.nodes) or any(isinstance(node, Unit) for node in text.nodes):
        return block
    read, write = value_text("".join([text.before, *map(str, text.nodes), text.after]))
    return Block(read, lambda found: block.place([write(found)]))


def with_tags(document: PassageDocument) -> PassageDocument:
    """Returns a catalogue with HTML texts if one of its values has tags."""

    def tagged(passage: Passage) -> Passage:
        text, write = value_text(passage.text)
        placed = text.placed(passage.text, write)
        return Passage(text.html, lambda reply: passage.place(placed(reply)))

    if not any("</" in text for text in document.texts()):
        return document
    parts = [part if isinstance(part, str) else tagged(part) for part in document.parts]
    return replace(document, parts=parts, is_html=True)
