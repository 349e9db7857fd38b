"""Replaces the tags and the protected spans of a text in HTML or XML by markers.

The reader of a format, such as `service.text.html_text`, cuts a text into tokens. The tags of
blocks, such as paragraphs and list items, end a sentence. The other tags are inline tags, which are
inside a sentence. A marker is one private-use character.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import NamedTuple, Self

from service.errors import InvalidRequestError
from service.text.attributes import VALUE, filled
from service.text.characters import cleaned
from service.text.letters import BREAK
from service.text.protection import (
    MARKER,
    MAX_SPANS,
    Marking,
    ProtectedText,
    UnknownSpans,
    all_known,
)

# Line breaks between two paragraphs of a text: a blank line, or a line break before an item of a
# list. In HTML, one line break between two words is a space.
_PARAGRAPH_END = re.compile(
    r"(?<=\S)[ \t]*+(?>\r\n|[\r\n])"
    r"(?:[ \t]*+(?>\r\n|[\r\n])\s*+|\s*+(?=(?:[-*+\u2022]|\d{1,3}[.)])\s))(?=\S)"
)

MAX_WORD_CHARS = 32


class Kind(Enum):
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


NO_ENTITIES: Mapping[int, str] = {}

INLINE_TAGS = frozenset({Kind.OPEN, Kind.CLOSE, Kind.EMPTY})


class Token(NamedTuple):
    """A part of a text: characters with decoded entities, a tag, or an element left as it is."""

    kind: Kind
    source: str


@dataclass(frozen=True, slots=True)
class MarkupText(ProtectedText):
    """A text with a marker in place of each tag and each protected span."""

    # The kind of the inline tag that each marker stands for. Start and end tags are balanced.
    tags: dict[str, Kind] = field(default_factory=dict)

    # Maps a character to the entity that stands for it outside of tags and spans.
    entities: Mapping[int, str] = field(default_factory=dict)

    # Translations of the attributes that people read, by value.
    values: dict[str, str] = field(default_factory=dict)

    def restore(self, text: str) -> str:
        """Returns a text with tags and spans in place of markers, and without BREAK.

        In the rest of the text, `&`, `<` and `>` become entities.
        """
        parts = re.split(f"({MARKER.pattern})", text.replace(BREAK, ""))
        written = []
        for part in parts:
            text = self.span(part) if MARKER.match(part) else escape(part, quote=False)
            written.append(text if "<" in text else text.translate(self.entities))
        restored = "".join(written)
        return filled(restored, self.values) if VALUE in restored else restored

    def extended(self, spans: Sequence[str]) -> Self:
        """Returns the same text with more spans, which are plain text."""
        return ProtectedText.extended(self, [escape(span, quote=False) for span in spans])

    def may_move(self, marker: str) -> bool:
        return marker in self.tags or ProtectedText.may_move(self, marker)

    def keeps_order(self, text: str) -> bool:
        """Returns whether a translated sentence has its inline tags in the order of the source."""
        found = [marker for marker in MARKER.findall(text) if marker in self.tags]
        return found == sorted(found)


def protect_markup(
    tokens: Sequence[Token],
    unknown: UnknownSpans = all_known,
    *,
    ends_paragraphs: bool = False,
    entities: Mapping[int, str] = NO_ENTITIES,
) -> MarkupText:
    """Puts a marker in place of each tag and each protected span of a text.

    Args:
        ends_paragraphs: Whether a blank line, or a line break before an item of a list, ends a
            sentence in each mode.
        entities: Entity that the text writes for a character.
    """
    marking = Marking(unknown)
    parts: list[str] = []
    tags: dict[str, Kind] = {}
    left = sum(token.kind is not Kind.TEXT for token in tokens)
    if left > MAX_SPANS:
        raise InvalidRequestError(
            f"Invalid request: a text has {left} tags; the limit is {MAX_SPANS}. Send it in parts"
        )
    word = ""  # the start of the word that the next text continues
    for token in tokens:
        if token.kind is Kind.TEXT:
            text = cleaned(token.source)
            first = len(marking.spans)
            marking.limit = MAX_SPANS - left  # This leaves a marker for each tag that follows.
            text = _PARAGRAPH_END.sub(rf"\g<0>{BREAK}", text) if ends_paragraphs else text
            parts.append(_protect_rest(marking, word, text))
            tail = (word + text)[-MAX_WORD_CHARS:]
            word = "" if tail[-1:].isspace() else "".join(tail.split()[-1:])
            marking.spans[first:] = [escape(span, quote=False) for span in marking.spans[first:]]
            continue
        left -= 1
        marker = marking.mark(token.source)
        is_block = token.kind is Kind.BLOCK
        parts.append(f"{BREAK}{marker}{BREAK}" if is_block else marker)
        if token.kind in INLINE_TAGS:
            tags[marker] = token.kind
        else:
            word = ""
        if is_block:
            marking.given.append("\n")
    spans, typography = tuple(marking.spans), marking.typography()
    return MarkupText("".join(parts), spans, typography, tags=tags, entities=entities)


def _protect_rest(marking: Marking, word: str, text: str) -> str:
    """Protects a text that continues a word: in `<b>88</b>% of`, the text `% of` is no placeholder.

    The whole word is read, unless one of its spans has begun before the text.
    """
    first = len(marking.spans)
    if word:
        protected = marking.protect(word + text)
        if protected.startswith(word):
            marking.given[-1] = text
            return protected.removeprefix(word)
        del marking.spans[first:], marking.given[-1]
    return marking.protect(text)
