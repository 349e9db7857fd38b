"""Reads Markdown (.md): CommonMark with tables, footnotes, mathematics, directives and admonitions.

markdown-it finds the blocks and the spans inside them. Paragraphs, headings, list items, quotes and
cells of tables are texts. All other characters are kept.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import (
    StateInline,
    autolink,
    backtick,
    entity,
    escape,
    html_inline,
    image,
    link,
    newline,
)
from markdown_it.token import Token as Span
from markdown_it.utils import EnvType

from service.documents.base import LINE, Passage, PassageDocument, decode
from service.documents.html import Markup, attributes_of, tokens_of
from service.text.attributes import VALUE
from service.text.entities import unescaped
from service.text.html_text import Piece, pieces
from service.text.letters import split_margins
from service.text.markup import Kind, Token

InlineRule = Callable[[StateInline, bool], bool]

_FRONT_MATTER = re.compile(
    r"(?:---[ \t]*(\r\n?|\n)(?:.*?\1)??(?:---|\.\.\.)|\+\+\+[ \t]*(\r\n?|\n)(?:.*?\2)??\+\+\+)"
    r"[ \t]*(?=[\r\n]|\Z)",
    re.DOTALL,
)

# Lines that belong to a tool: directives, alerts, templates, tables of contents. The group begins
# mathematics, which ends with its closing mark in this line or a later one.
_KEPT_LINE = re.compile(
    r":{3,}.*|(?:\{%.*%\}|\{\{.*\}\}|\[TOC\]|\[\[.*\]\]|\[!\w+\][+-]?)\s*$"
    r"|(\$\$|\\\[|\\begin(\{\w+\*?\}))",
)
_CLOSING = {"$$": "$$", "\\[": "\\]"}
MAX_FORMULA_LINES = 200
MAX_FORMULA_CHARS = 1000

# Start of a block whose other lines have an indent of four: footnote, definition, admonition.
_MARKER = re.compile(r"\[\^[^\]\s]+\]:[ \t]*|:[ \t]+|(?:!!!|\?\?\?\+?)[ \t].*")
_INDENT = 4

# Mark at the start of a paragraph: a task, or an alert with a title.
_TASK = re.compile(r"\[(?:[ xX]|!\w+)\][+-]?[ \t]+")

_FORMULA = re.compile(
    r"\$\$[^$]+\$\$|\$(?=\S)[^$\n]*[^$\s\\]\$(?!\d)|\\\(.*?\\\)|\\\[.*?\\\]", re.DOTALL
)
_REFERENCE = re.compile(r"\[\^[^\]\s]+\]|\{[#.:%][^{}\n]*\}")  # footnotes, attributes

_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])|&(?:#\w{1,8}|\w{1,32});")
_SPECIAL = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|$)|`|(?<![\s*])\*|\*(?![\s*])|(?<![^\W_])_|_(?![^\W_])"
    r"|\](?=[(\[:])|<(?=[A-Za-z/!?])|&(?=#?\w{1,32};)|~(?=~)"
)
# Start of a block. The match ends where a backslash makes it a text.
_BLOCK = re.compile(r"^(?:\d{1,9}(?=[.)](?:\s|$))|(?=(?:[-+*]|#{1,6})(?:\s|$)|[>:]|[-=]+$))")

_MARKED = re.compile(r"[*_`<\[\]~]")


class Markdown(Markup):
    """The marks of Markdown. Some characters are escaped too, such as `|` in a cell of a table."""

    tied = ("]", "][]")  # links that are named by their words

    def __init__(self, escaped: Iterable[str]) -> None:
        self.escaped = escaped

    def read(self, source: str) -> str:
        return _ESCAPED.sub(lambda found: found[1] or unescaped(found[0]), source)

    def escape(self, words: str) -> str:
        written = _SPECIAL.sub(r"\\\g<0>", words)
        for char in self.escaped:
            written = written.replace(char, f"\\{char}")
        return written

    def tags(self, tokens: Sequence[Token]) -> tuple[str, str]:
        before, after = super().tags(tokens)
        if after in self.tied:
            after = f"][{''.join(token.source for token in tokens[1:-1])}]"
        return before, after

    def element(self, before: str, inside: str, after: str) -> str:
        """Returns an element. A mark of emphasis must touch a word."""
        start, words, end = split_margins(inside)
        if not words and before[0] in "*_~":
            return inside
        return start + before + words + after + end

    def line(self, line: str, source: str) -> str:
        return line if _BLOCK.match(source) else _BLOCK.sub(r"\g<0>\\", line, count=1)


def read_markdown(data: bytes) -> PassageDocument:
    mark, text, encoding = decode(data, "|")
    front = _FRONT_MATTER.match(text)
    place = front.end() if front else 0
    tokens: list[Token] = []
    parts = [mark, text[:place], *_parts(text[place:], tokens)]
    attributes, finish = attributes_of(tokens)
    return PassageDocument([*parts, *attributes], None, finish, True, encoding)


def _parts(text: str, tokens: list[Token]) -> Iterator[str | Passage]:
    """Yields the parts of a text, and adds the tokens of its paragraphs to `tokens`."""
    lines = [match.span(1) for match in LINE.finditer(text) if match[0]]
    blocks: list[Span] = []
    env: EnvType = {}
    _PARSER.block.parse("\n".join(text[slice(*line)] for line in lines), _PARSER, env, blocks)
    cursor = 0
    around = ""
    for block in blocks:
        if block.type == "inline" and block.map and block.content:
            is_cell = around in ("th_open", "td_open")
            content = block.content.replace("|", "\\|") if is_cell else block.content
            places: list[tuple[int, int]] = []
            for number, line in enumerate(map(str.lstrip, content.split("\n")), block.map[0]):
                start, end = lines[number]
                found = (
                    text.find(line, max(cursor, start), end)
                    if is_cell
                    else (text.rfind(line, max(cursor, start), end))
                )
                places.append((found, found + len(line)))
            if min(places)[0] >= 0:
                yield text[cursor : places[0][0]]
                between = [text[a[1] : b[0]] for a, b in pairwise(places)]
                source = "\n".join(text[slice(*place)] for place in places)
                markup = Markdown("|" * is_cell + "[" * ("references" in env))
                yield from _paragraph(source, between, env, tokens, markup)
                cursor = places[-1][1]
        around = block.type
    yield text[cursor:]


def _paragraph(
    source: str, between: Sequence[str], env: EnvType, tokens: list[Token], markup: Markdown
) -> Iterator[str | Passage]:
    """Yields the parts of a paragraph. `between` are the characters from line to line."""
    task = _TASK.match(source)
    place = task.end() if task else 0
    yield source[:place]
    own = tokens_of(_pieces(source[place:], env), has_marks=VALUE in source)
    tokens += own
    yield from markup.in_lines(own, between)


def _pieces(source: str, env: EnvType) -> Iterator[Piece]:
    """Yields the spans of a paragraph as pieces. Joined, they equal the source."""
    state = StateInline(source, _PARSER, env, [])
    _PARSER.inline.tokenize(state)
    places: list[tuple[int, int, Span]] = []
    end = 0
    for span in state.tokens:
        start, end = end, span.meta.get("end") or end + (len(span.content) or 1)
        places.append((start, end, span))
    for rule in _PARSER.inline.ruler2.getRules(""):
        rule(state)
    for start, end, span in places:
        if span.markup in ("**", "__"):  # the other character has become an empty text
            start, end = (start - 1, end) if span.nesting > 0 else (start, end + 1)
        if span.content or span.type != "text":
            yield from _piece(span, source[start:end])


def _piece(span: Span, source: str) -> Iterator[Piece]:
    kind = _KINDS.get(span.type)
    if kind is not None:
        yield Piece(kind, source)
    elif span.type == "html_inline":
        found = [*pieces(source)]
        yield from found if len(found) == 1 else [Piece(Kind.EMPTY, source)]
    elif span.type != "image":
        yield Piece(Kind.OPEN if span.nesting > 0 else Kind.CLOSE, source, span.tag)
    elif _MARKED.search(span.content):
        yield Piece(Kind.EMPTY, source)
    else:
        start, end = len("!["), len("![") + len(span.content)
        yield Piece(Kind.OPEN, source[:start], span.tag)
        yield Piece(Kind.TEXT, source[start:end])
        yield Piece(Kind.CLOSE, source[end:], span.tag)


_KINDS = {
    **dict.fromkeys(("text", "text_special", "softbreak"), Kind.TEXT),
    **dict.fromkeys(("code_inline", "formula"), Kind.OPAQUE),
    "reference": Kind.EMPTY,
    "hardbreak": Kind.BLOCK,
}


def _placed(rule: InlineRule) -> InlineRule:
    """Returns a rule that also records where its last span ends."""

    def placed(state: StateInline, silent: bool) -> bool:
        number = len(state.tokens)
        found = rule(state, silent)
        if len(state.tokens) > number:
            state.tokens[-1].meta["end"] = state.pos
        return found

    return placed


def _whole_autolink(state: StateInline, silent: bool) -> bool:
    found = autolink(state, silent)
    if found and not silent:
        del state.tokens[-2:]
        state.tokens[-1].type = "code_inline"
    return found


def _rule_of(kind: str, pattern: re.Pattern[str]) -> InlineRule:
    def rule(state: StateInline, silent: bool) -> bool:
        limit = min(state.posMax, state.pos + MAX_FORMULA_CHARS)
        found = pattern.match(state.src, state.pos, limit)
        if found and not silent:
            state.push(kind, "", 0)
        state.pos = found.end() if found else state.pos
        return found is not None

    return rule


def _start_of(state: StateBlock, line: int) -> int:
    return state.bMarks[line] + state.tShift[line]


def _kept_lines(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Reads lines that are kept, such as a directive."""
    end = state.eMarks[first]
    found = _KEPT_LINE.match(state.src, _start_of(state, first), end)
    if found is None or state.is_code_block(first):
        return False
    line, place = first, found.end()
    if found[1]:
        closing = _CLOSING.get(found[1]) or f"\\end{found[2]}"
        while (place := state.src.find(closing, place, end)) < 0:
            line += 1
            if line >= min(last, first + MAX_FORMULA_LINES):
                return False
            place, end = state.bMarks[line], state.eMarks[line]
        if state.src[place + len(closing) : end].strip(" \t.,"):
            return False
    if not silent:
        state.line = line + 1
    return True


def _marked_block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Reads the blocks after a mark, such as the paragraphs of a footnote."""
    found = _MARKER.match(state.src, _start_of(state, first), state.eMarks[first])
    if found is None or state.is_code_block(first):
        return False
    if silent:
        return True
    before = (state.bMarks[first], state.tShift[first], state.sCount[first], state.parentType)
    state.blkIndent += _INDENT
    state.bMarks[first], state.tShift[first], state.sCount[first] = found.end(), 0, state.blkIndent
    state.parentType = "reference"
    state.level += 1
    state.line = first + (found.end() == state.eMarks[first])
    state.md.block.tokenize(state, state.line, last)
    state.level -= 1
    state.blkIndent -= _INDENT
    state.bMarks[first], state.tShift[first], state.sCount[first], state.parentType = before
    return True


def _new_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("fragments_join")
    ends: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    for name, block_rule in (("kept_lines", _kept_lines), ("marked_block", _marked_block)):
        parser.block.ruler.before("table", name, block_rule, ends)
    inline = parser.inline.ruler
    for kind, pattern in (("formula", _FORMULA), ("reference", _REFERENCE)):
        inline.before("newline", kind, _placed(_rule_of(kind, pattern)))
    for rule in (newline, escape, link, image, html_inline, entity):
        inline.at(rule.__name__, _placed(rule))
    inline.at("backticks", _placed(backtick))
    inline.at("autolink", _placed(_whole_autolink))
    return parser


_PARSER = _new_parser()
