"""The texts of an XML file: blocks, such as paragraphs, which consist of spans.

All strings of a span have the same formatting.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from service.documents.base import has_words, split_margins

Element = Any
"""An element of lxml, which has no type hints."""


@dataclass(frozen=True, slots=True)
class Place:
    """One string of an XML tree: the text of an element, or its tail."""

    element: Element
    part: Literal["text", "tail"] = "text"

    def get(self) -> str:
        """Returns the string."""
        return getattr(self.element, self.part) or ""

    def set(self, text: str) -> None:
        """Changes the string."""
        setattr(self.element, self.part, text)


class Span:
    """Neighbouring strings with the same formatting. The first string gets the translation.

    Args:
        places: Strings of the span, in order.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = places
        self.before, self.text, self.after = split_margins("".join(p.get() for p in places))

    def set(self, translation: str) -> None:
        """Writes the translation. If it equals the text, all strings stay as they are."""
        if translation == self.text:
            return
        first, *others = self.places
        first.set(self.before + translation + self.after)
        for place in others:
            place.set("")


Block = Sequence[Span]
"""The spans of a paragraph, a heading or a cell, in order."""


def texts_of(block: Block) -> list[str]:
    """Returns the texts of a block: one text for each span with words.

    Formatting is therefore kept exactly, but a sentence with a formatted word is translated in
    parts. Only `texts_of` and `fill` depend on this rule.
    """
    return [span.text for span in block if has_words(span.text)]


def fill(block: Block, translations: Iterator[str]) -> None:
    """Writes translations into a block, in the order of `texts_of`."""
    for span in block:
        if has_words(span.text):
            span.set(next(translations))
