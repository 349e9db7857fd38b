"""Carries protected spans through a translation model as stand-ins: short words that models copy.

A protected span is a part of a text that the model must not change. `service.text.protection` has
put a marker, a private-use character, in its place.

A model copies a stand-in such as `XYZ1` in 97 of 100 cases. `Carrier.restore` finds the other
cases, because each stand-in must occur exactly once in the translation. If a stand-in is missing or
occurs twice, the sentence is translated again with other stand-ins, and finally in parts, without
its spans.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from service.text.protection import MARKER

VARIANTS: tuple[Callable[[int], str], ...] = (
    lambda number: f"XYZ{number}",
    lambda number: f"A{number}B",
    lambda number: f"({number})",
)
"""Functions that spell the stand-in with a given number, in the order in which they are tried."""

OPENING = "([{\"'"
"""Characters after which a stand-in needs no space."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """The stand-in of one span in a sentence.

    Attributes:
        spelling: Word in place of the span.
        marker: Character that `service.text.protection` has put in place of the span.
        before: Character to the left of the span; "" at the start of the sentence.
        after: Character to the right of the span; "" at the end of the sentence.
        start: Position of the marker in the sentence.
        end: Position in the carrier's text just after the stand-in, and after its added space if
            there is one.
    """

    spelling: str
    marker: str
    before: str
    after: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Carrier:
    """A sentence with stand-ins.

    Attributes:
        text: The sentence that the model translates.
        stand_ins: Stand-ins in the order of the source.
    """

    text: str
    stand_ins: tuple[StandIn, ...]

    def place(self, place: int) -> int:
        """Converts a place in the sentence to the same place in the carrier's text."""
        shift = 0
        for each in self.stand_ins:
            if each.start < place:
                shift = each.end - each.start - 1
        return place + shift

    def behind(self, translation: str, place: int) -> int:
        """Moves a place inside a stand-in of a translation to the end of this stand-in.

        Any other place stays the same. A tag at the returned place splits no stand-in.
        """
        for each in self.stand_ins:
            for found in re.finditer(re.escape(each.spelling), translation, re.IGNORECASE):
                if found.start() < place < found.end():
                    return found.end()
        return place

    def restore(self, translation: str) -> str | None:
        """Returns a translation with markers in place of the stand-ins.

        The result is None if the translation does not have each stand-in exactly once.
        """
        for each in self.stand_ins:
            pattern = _pattern(each.spelling)
            found = pattern.findall(translation)
            if len(found) != 1:
                return None
            translation = pattern.sub(partial(_joined, each), translation)
        return translation


def carry(sentence: str, variant: int) -> Carrier | None:
    """Returns a sentence with a stand-in for each marker.

    Args:
        sentence: A sentence with markers.
        variant: Index in VARIANTS.

    Returns:
        The carrier; None if the sentence already contains one of the stand-ins.
    """
    spell = VARIANTS[variant]
    stand_ins: list[StandIn] = []
    parts: list[str] = []
    end = length = 0
    for match in MARKER.finditer(sentence):
        spelling = spell(len(stand_ins) + 1)
        if _pattern(spelling).search(sentence):
            return None
        before = sentence[match.start() - 1 : match.start()]
        after = sentence[match.end() : match.end() + 1]
        gap = " " if before and not before.isspace() and before not in OPENING else ""
        gap_after = " " if after.isalnum() or MARKER.match(after) else ""
        added = sentence[end : match.start()] + gap + spelling + gap_after
        parts.append(added)
        length += len(added)
        end = match.end()
        stand_ins.append(StandIn(spelling, match[0], before, after, match.start(), length))
    return Carrier("".join([*parts, sentence[end:]]), tuple(stand_ins))


def split_at_markers(sentence: str) -> list[str]:
    """Returns the parts of a sentence: markers, and the texts between them."""
    return [part for part in re.split(f"({MARKER.pattern})", sentence) if part]


def _pattern(spelling: str) -> re.Pattern[str]:
    before = r"(?<!\w)" if spelling[0].isalnum() else ""
    after = r"(?!\w)" if spelling[-1].isalnum() else ""
    return re.compile(rf"( ?){before}{re.escape(spelling)}{after}( ?)", re.IGNORECASE)


def _joined(each: StandIn, match: re.Match[str]) -> str:
    """Returns the marker for a match of a stand-in, with the spaces that are kept beside it.

    A space may separate the stand-in from a character of the translation. The space is removed if
    the span touches a similar character on the same side in the source.
    """
    text, (first, last) = match.string, match.span()
    before = "" if _is_alike(each.before, text[first - 1 : first]) else match[1]
    after = "" if _is_alike(each.after, text[last : last + 1]) else match[2]
    return f"{before}{each.marker}{after}"


def _is_alike(source: str, target: str) -> bool:
    """Returns whether a span touches similar characters in source and target.

    Two characters are similar if they are the same, or if each of them is a letter or a digit.
    White space is similar to nothing.
    """
    if not source or source.isspace():
        return False
    return source == target or (source.isalnum() and target.isalnum())
