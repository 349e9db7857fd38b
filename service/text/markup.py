"""Replaces the tags and the protected spans of a text in HTML or XML by markers.

The reader of a format, such as `service.text.html_text`, cuts a text into tokens. The tags of
blocks, such as paragraphs and list items, end a sentence. The other tags are inline tags, which are
inside a sentence. A marker is one private-use character.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import Self

from service.errors import InvalidRequestError
from service.text.characters import cleaned
from service.text.protection import (
    MARKER,
    MAX_SPANS,
    Marking,
    ProtectedText,
    UnknownSpans,
    all_known,
)

# Line break that is put before and after the tag of a block. HTML and XML do not allow this
# character, so no text contains it already.
BREAK = "\x1e"

_LINE_BREAKS = re.compile(
    r"(?<![ \t])[ \t]*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029][ \t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]*"
)


class Kind(Enum):
    """The kind of a token."""

    TEXT = "text"
    # The tags of an element inside a sentence.
    OPEN = "open"
    CLOSE = "close"
    # A comment, a processing instruction, or an element without content, inside a sentence.
    EMPTY = "empty"
    # A tag that ends a sentence, or a whole element that ends a sentence and stays as it is.
    BLOCK = "block"
    # An element that is inside a sentence and stays as it is.
    OPAQUE = "opaque"


INLINE_TAGS = frozenset({Kind.OPEN, Kind.CLOSE, Kind.EMPTY})


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a text: characters with decoded entities, a tag, or an element left as it is."""

    kind: Kind
    source: str


@dataclass(frozen=True, slots=True)
class MarkupText(ProtectedText):
    """A text with a marker in place of each tag and each protected span."""

    # The kind of the inline tag that each marker stands for. Start and end tags are balanced.
    tags: dict[str, Kind] = field(default_factory=dict)

    def restore(self, text: str) -> str:
        """Returns a text with tags and spans in place of markers, and without BREAK.

        In the rest of the text, `&`, `<` and `>` become entities.
        """
        parts = re.split(f"({MARKER.pattern})", text.replace(BREAK, ""))
        return "".join(
            self.span(part) if MARKER.match(part) else escape(part, quote=False) for part in parts
        )

    def extended(self, spans: Sequence[str]) -> Self:
        """Returns the same text with more spans, which are plain text."""
        return ProtectedText.extended(self, [escape(span, quote=False) for span in spans])

    def may_move(self, marker: str) -> bool:
        return marker in self.tags or ProtectedText.may_move(self, marker)

    def keeps_order(self, text: str) -> bool:
        """Returns whether a translated sentence has its inline tags in the order of the source."""
        found = [marker for marker in MARKER.findall(text) if marker in self.tags]
        return found == sorted(found)


# The text of an exponent, an index or the mark of a footnote, such as `6`, `n+1` and `[2]`.
_INDEX = re.compile(r"[-+\u2212]?[^\W_]{1,4}(?:[-+\u2212][^\W_]{0,2})?|\[\w{1,4}\]")

_BASE = re.compile(r"(?<![^\W_])(?:(?:\d[\d.,]*\s?[×x·⋅*]\s?)?\d[\d.,]*|[^\W\d_]{1,2})$")
_SUBSCRIPT_BASE = re.compile(rf"{_BASE.pattern}|(?<![^\W_])[^\W\d_]{{1,8}}$")
MAX_BASE_CHARS = 64
_AFTER_INDEX = re.compile(r"[^\W_]{1,2}(?![^\W_])")
_SCRIPT_TAG = re.compile(r"<[^\s>]*?(su[bp])", re.IGNORECASE)


def _is_index(before: str, tokens: Sequence[Token]) -> bool:
    """Returns whether three tokens are an exponent, an index or the mark of a footnote.

    Such an element is short, and touches the text `before` it. It may have any name if it has a
    digit, because documents use other names than `sup` and `sub`.
    """
    if [token.kind for token in tokens] != [Kind.OPEN, Kind.TEXT, Kind.CLOSE]:
        return False
    content = tokens[1].source
    if not before[-1:].isalnum() or not _INDEX.fullmatch(content):
        return False
    if content.isalpha() and before[-1].isdigit() and len(content) > 1:
        return False  # an ordinal: `1<sup>st</sup>`
    return not content.isalpha() or _SCRIPT_TAG.match(tokens[0].source) is not None


def join_indices(tokens: Sequence[Token]) -> Sequence[Token]:
    """Returns tokens in which each index, and what it belongs to, is one opaque token.

    A model would read `106` for `10<sup>6</sup>`, and the tag would move. In `theory<sup>1</sup>`
    the element alone becomes opaque, because the word must be translated.
    """
    joined: list[Token] = []
    place = 0
    while place < len(tokens):
        before = joined[-1].source if joined and joined[-1].kind is Kind.TEXT else ""
        if not _is_index(before, tokens[place : place + 3]):
            joined.append(tokens[place])
            place += 1
            continue
        tag, content, _ = tokens[place : place + 3]
        is_footnote = content.source.startswith("[")
        base, end, rest = "" if is_footnote else _base(before, tag.source), place + 3, ""
        if base:
            joined[-1] = Token(Kind.TEXT, before.removesuffix(base))
            end, rest = _end_of_index(tokens, end)
        parts = [Token(Kind.TEXT, base), *tokens[place:end], Token(Kind.TEXT, rest)]
        opaque = "".join(
            escape(each.source, quote=False) if each.kind is Kind.TEXT else each.source
            for each in parts
        )
        joined.append(Token(Kind.OPAQUE, opaque))
        place = end
        if rest:
            joined.append(Token(Kind.TEXT, tokens[end].source.removeprefix(rest)))
            place += 1
    return joined


def _base(before: str, tag: str) -> str:
    """Returns the end of a text to which an index belongs; "" if the index is a footnote's mark."""
    found = _SCRIPT_TAG.match(tag)
    pattern = _SUBSCRIPT_BASE if found and found[1].lower() == "sub" else _BASE
    base = pattern.search(before, max(0, len(before) - MAX_BASE_CHARS))
    return base[0] if base else ""


def _end_of_index(tokens: Sequence[Token], end: int) -> tuple[int, str]:
    """Returns the place after adjacent indices, and the start of the text that belongs to them.

    An example is the `O` in `C<sub>6</sub>H<sub>12</sub>O`.
    """
    while end < len(tokens):
        text = tokens[end].source if tokens[end].kind is Kind.TEXT else ""
        start = end + bool(text)
        if len(text) > 2 or not _is_index(text or "0", tokens[start : start + 3]):
            break
        end = start + 3
    found = _AFTER_INDEX.match(text) if end < len(tokens) and text else None
    return end, found[0] if found else ""


def protect_markup(tokens: Sequence[Token], unknown: UnknownSpans = all_known) -> MarkupText:
    """Puts a marker in place of each tag and each protected span of a text."""
    tokens = join_indices(tokens)
    marking = Marking(unknown)
    parts: list[str] = []
    tags: dict[str, Kind] = {}
    left = sum(token.kind is not Kind.TEXT for token in tokens)
    if left > MAX_SPANS:
        raise InvalidRequestError(
            f"Invalid request: a text has {left} tags; the limit is {MAX_SPANS}. Send it in parts"
        )
    for index, token in enumerate(tokens):
        if token.kind is Kind.TEXT:
            text = cleaned(token.source)
            first = len(marking.spans)
            marking.limit = MAX_SPANS - left  # This leaves a marker for each tag that follows.
            parts.append(marking.protect(_in_one_line(text, tokens, index)))
            marking.spans[first:] = [escape(span, quote=False) for span in marking.spans[first:]]
            continue
        left -= 1
        marker = marking.mark(token.source)
        is_block = token.kind is Kind.BLOCK
        parts.append(f"{BREAK}{marker}{BREAK}" if is_block else marker)
        if token.kind in INLINE_TAGS:
            tags[marker] = token.kind
    typography = marking.typography()
    return MarkupText("".join(parts), tuple(marking.spans), typography, tags=tags)


def _in_one_line(text: str, tokens: Sequence[Token], index: int) -> str:
    """Replaces line breaks by spaces: in HTML and XML, a line break does not end a sentence.

    White space next to the tag of a block, or at an end of the whole text, stays as it is.
    """
    if text.isspace():
        around = tokens[max(0, index - 1) : index + 2]
        is_edge = len(around) < 3 or any(token.kind is Kind.BLOCK for token in around)
        return text if is_edge else _LINE_BREAKS.sub(" ", text)
    stripped = text.strip()
    start = text.index(stripped)
    inner = _LINE_BREAKS.sub(" ", stripped)
    before, after = text[:start], text[start + len(stripped) :]
    if index and tokens[index - 1].kind is not Kind.BLOCK:
        before = _LINE_BREAKS.sub(" ", before)
    if index + 1 < len(tokens) and tokens[index + 1].kind is not Kind.BLOCK:
        after = _LINE_BREAKS.sub(" ", after)
    return before + inner + after
