"""Reads Markdown (.md). Paragraphs, headings, list items, quotes and cells of tables are texts.

HTML between the paragraphs is read as HTML.

All other characters are kept: those between the paragraphs, and the marks inside a paragraph.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from service.documents.base import Passage, PassageDocument, skipped_in
from service.documents.commonmark import Paragraph, paragraphs, spans
from service.documents.encodings import decode
from service.documents.html import Markup, attributes_of
from service.text.attributes import VALUE
from service.text.entities import unescaped
from service.text.html_text import pieces, tokens_of
from service.text.letters import split_margins
from service.text.markup import Kind, Token

_FRONT_MATTER = re.compile(
    r"(?:---[ \t]*(\r\n?|\n)(?:.*?\1)??(?:---|\.\.\.)|\+\+\+[ \t]*(\r\n?|\n)(?:.*?\2)??\+\+\+)"
    r"[ \t]*(?=[\r\n]|\Z)",
    re.DOTALL,
)

# Mark at the start of a paragraph: a task, or an alert with a title.
_TASK = re.compile(r"\[(?:[ xX]|!\w+)\][+-]?[ \t]+")

_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])|&(?:#\w{1,8}|\w{1,32});")
_SPECIAL = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|$)|`|(?<![\s*])\*|\*(?![\s*])|(?<![^\W_])_|_(?![^\W_])"
    r"|\](?=[(\[:])|<(?=[A-Za-z/!?])|&(?=#?\w{1,32};)|~(?=~)"
)
_URL = re.compile(r"(https?://[^\s<]+)")  # a link without marks, in which an escape is a character
# An escape that only an extension needs, such as `\$` for a page with formulas.
_OF_EXTENSIONS = re.compile(r"(?<!\\)(?:\\\\)*+\\([$^=@{}:#|])")
# Start of a block. The match ends where a backslash makes it a text.
_BLOCK = re.compile(r"^(?:\d{1,9}(?=[.)](?:\s|$))|(?=(?:[-+*]|#{1,6})(?:\s|$)|[>:]|[-=]+$))")


class Markdown(Markup):
    """The marks of Markdown. Some characters are escaped too, such as `|` in a cell of a table."""

    tied = ("]", "][]")  # links that are named by their words

    def __init__(self, escaped: Iterable[str]) -> None:
        self.escaped = escaped

    def read(self, source: str) -> str:
        return _ESCAPED.sub(lambda found: found[1] or unescaped(found[0]), source)

    def escape(self, words: str) -> str:
        parts = _URL.split(words)
        parts[::2] = [_SPECIAL.sub(r"\\\g<0>", part) for part in parts[::2]]
        written = "".join(parts)
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
    skipped = skipped_in(data)
    for token in tokens:
        skipped["equations"] += token.kind is Kind.OPAQUE
        skipped["images"] += token.source.startswith("![")
    return PassageDocument([*parts, *attributes], (), finish, True, encoding, +skipped)


def _parts(text: str, tokens: list[Token]) -> Iterator[str | Passage]:
    """Yields the parts of a text. Adds formulas, images and tags with attributes to `tokens`."""
    cursor = 0
    for paragraph in paragraphs(text):
        yield text[cursor : paragraph.lines[0][0]]
        yield from _paragraph(text, paragraph, tokens)
        cursor = paragraph.lines[-1][1]
    yield text[cursor:]


def _paragraph(text: str, paragraph: Paragraph, tokens: list[Token]) -> Iterator[str | Passage]:
    lines, is_cell, is_html, references = paragraph
    source = "\n".join(text[start:end] for start, end in lines)
    task = None if is_html else _TASK.match(source)
    place = task.end() if task else 0
    found = pieces(source) if is_html else spans(source[place:], references)
    own = tokens_of(found, marks_values=VALUE not in source)
    for token in own:
        is_formula = token.kind is Kind.OPAQUE and token.source.startswith(("$", "\\"))
        if is_formula or VALUE in token.source or token.source.startswith("!["):
            tokens.append(token)
    yield source[:place]
    between = [text[before[1] : after[0]] for before, after in pairwise(lines)]
    marks = "|" * is_cell + "[" * ("references" in references)
    escaped = "".join({*marks, *_OF_EXTENSIONS.findall(source)})
    markup = Markup() if is_html else Markdown(escaped)
    yield from markup.in_lines(own, between)
