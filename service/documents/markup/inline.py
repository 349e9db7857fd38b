"""Texts of XML: blocks such as paragraphs, and spans of one formatting inside a block."""

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
    """Neighbouring strings with one formatting; the first of them gets the translation.

    Args:
        places: Strings of the span, in order.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = places
        self.before, self.text, self.after = split_margins("".join(p.get() for p in places))

    def set(self, translation: str) -> None:
        """Writes the translation; an unchanged text keeps its strings."""
        if translation == self.text:
            return
        first, *others = self.places
        first.set(self.before + translation + self.after)
        for place in others:
            place.set("")


Block = Sequence[Span]
"""The spans of a paragraph, a heading or a cell, in order."""


def texts_of(block: Block) -> list[str]:
    """Returns the texts of a block: one for each span with words.

    `texts_of` and `fill` alone decide that a span is one text. Formatting is then kept exactly, but
    a sentence with a formatted word is translated in parts.
    """
    return [span.text for span in block if has_words(span.text)]


def fill(block: Block, translations: Iterator[str]) -> None:
    """Writes the translations of the texts of a block, in the order of `texts_of`."""
    for span in block:
        if has_words(span.text):
            span.set(next(translations))
