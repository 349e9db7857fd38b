"""Replaces the tags and the protected spans of a text in HTML or XML by markers.

The reader of a format, such as `service.text.html.html_text`, cuts a text into tokens. The tags of
blocks, such as paragraphs and list items, end a sentence. The other tags are inline tags, which are
inside a sentence. A marker is one private-use character.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import Self

from service.errors import InvalidRequestError
from service.text.protection import MARKER, MAX_SPANS, Marking, ProtectedText

BREAK = "\x1e"
"""Line break that is put before and after the tag of a block.

HTML and XML do not allow this character, so no text contains it already.
"""

_LINE_BREAKS = re.compile(
    r"(?<![ \t])[ \t]*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029][ \t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]*"
)


class Kind(Enum):
    """The kind of a token."""

    TEXT = "text"
    OPEN = "open"
    """Start tag of an element inside a sentence."""
    CLOSE = "close"
    """End tag of an element inside a sentence."""
    EMPTY = "empty"
    """A comment, a processing instruction, or an element without content, inside a sentence."""
    BLOCK = "block"
    """A tag that ends a sentence, or a whole element that ends a sentence and stays as it is."""
    OPAQUE = "opaque"
    """An element that is inside a sentence and stays as it is."""


INLINE_TAGS = frozenset({Kind.OPEN, Kind.CLOSE, Kind.EMPTY})


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a text: characters with decoded entities, a tag, or an element left as it is."""

    kind: Kind
    source: str


@dataclass(frozen=True, slots=True)
class MarkupText(ProtectedText):
    """A text with a marker in place of each tag and each protected span.

    Attributes:
        tags: Maps the marker of each inline tag to the kind of the tag. Start tags and end tags are
            balanced.
    """

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
        """Returns the same text with more spans.

        The spans are plain text. In them, `&`, `<` and `>` become entities.
        """
        return ProtectedText.extended(self, [escape(span, quote=False) for span in spans])

    def may_move(self, marker: str) -> bool:
        """Returns whether a marker may move out of a sentence, into the separator beside it."""
        return marker in self.tags or ProtectedText.may_move(self, marker)

    def keeps_order(self, text: str) -> bool:
        """Returns whether a translated sentence has its inline tags in the order of the source."""
        found = [marker for marker in MARKER.findall(text) if marker in self.tags]
        return found == sorted(found)


def protect_markup(tokens: Sequence[Token], unknown: Collection[str]) -> MarkupText:
    """Puts a marker in place of each tag and each protected span of a text.

    Args:
        tokens: Tokens of the text.
        unknown: The characters of the text that the model's vocabulary does not have.

    Raises:
        InvalidRequestError: The text has too many tags.
    """
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
            first = len(marking.spans)
            marking.limit = MAX_SPANS - left  # This leaves a marker for each tag that follows.
            parts.append(marking.protect(_in_one_line(token.source, tokens, index)))
            marking.spans[first:] = [escape(span, quote=False) for span in marking.spans[first:]]
            continue
        left -= 1
        marker = marking.mark(token.source)
        is_block = token.kind is Kind.BLOCK
        parts.append(f"{BREAK}{marker}{BREAK}" if is_block else marker)
        if token.kind in INLINE_TAGS:
            tags[marker] = token.kind
    return MarkupText("".join(parts), tuple(marking.spans), tags)


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
