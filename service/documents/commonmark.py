"""Reads Markdown: the places of its paragraphs, and the spans of a paragraph as pieces of markup.

The language is CommonMark with tables, footnotes, definition lists, mathematics, directives and
admonitions. markdown-it finds blocks and spans.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from markdown_it import MarkdownIt, rules_inline
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token as Span
from markdown_it.utils import EnvType

from service.text.html_text import Piece, pieces
from service.text.letters import LINE
from service.text.markup import Kind

InlineRule = Callable[[StateInline, bool], bool]

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
_DEFINITION = re.compile(r"\[[^\]]+\]:[ \t]*\S")
_INDENT = 4

_FORMULA = re.compile(
    r"\$\$[^$]+\$\$|\$(?=\S)[^$\n]*[^$\s\\]\$(?!\d)|\\\(.*?\\\)|\\\[.*?\\\]", re.DOTALL
)
_REFERENCE = re.compile(r"\[\^[^\]\s]+\]|\{[#.:%][^{}\n]*\}")  # footnotes, attributes

_TEMPLATE = re.compile(r"\{[{%]")  # HTML with it is kept: a template may have `<` in its marks

_MARKED = re.compile(r"[*_`<\[\]~]")


class Paragraph(NamedTuple):
    """The lines of a text without their marks, such as a paragraph or a cell of a table."""

    lines: list[tuple[int, int]]  # start and end of each line
    is_cell: bool
    is_html: bool
    references: EnvType  # the links that the page defines


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Yields the paragraphs of a page without front matter, in order."""
    lines = [match.span(1) for match in LINE.finditer(text) if match[0]]
    blocks = _Blocks()
    references: EnvType = {}
    source = "\n".join(text[start:end] for start, end in lines)
    _PARSER.block.parse(source, _PARSER, references, blocks)
    del source
    cursor = 0
    around = ""
    for block in blocks.from_first():
        is_html = block.type == "html_block" and not _TEMPLATE.search(block.content)
        if (is_html or block.type == "inline") and block.map and block.content:
            is_cell = around in ("th_open", "td_open") and not is_html
            content = block.content.replace("|", "\\|") if is_cell else block.content.rstrip("\n")
            find = text.find if is_cell else text.rfind
            found: list[tuple[int, int]] = []
            for number, line in enumerate(map(str.lstrip, content.split("\n")), block.map[0]):
                start, end = lines[number]
                place = find(line, max(cursor, start), end)
                found.append((place, place + len(line)))
            if min(found)[0] >= 0:
                yield Paragraph(found, is_cell, is_html, references)
                cursor = found[-1][1]
        around = block.type


class _Blocks(list[Span]):
    """The blocks of a page with words, and the starts of cells. The others take much memory."""

    def append(self, block: Span) -> None:
        if block.type in ("inline", "html_block", "th_open", "td_open"):
            super().append(block)

    def from_first(self) -> Iterator[Span]:
        """Yields the blocks, and forgets each one."""
        self.reverse()
        while self:
            yield self.pop()


def spans(source: str, references: EnvType) -> Iterator[Piece]:
    """Yields the spans of a paragraph as pieces. Joined, they equal the source."""
    state = StateInline(source, _PARSER, references, [])
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
    found = rules_inline.autolink(state, silent)
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
    place = (_start_of(state, first), state.eMarks[first])
    if silent and state.sCount[first] < state.blkIndent and _DEFINITION.match(state.src, *place):
        return True  # the definition of a link ends a footnote
    found = _MARKER.match(state.src, *place)
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
    for name in ("newline", "escape", "link", "image", "html_inline", "entity"):
        inline.at(name, _placed(getattr(rules_inline, name)))
    inline.at("backticks", _placed(rules_inline.backtick))
    inline.at("autolink", _placed(_whole_autolink))
    return parser


_PARSER = _new_parser()
