"""Carries protected spans through a translation model as stand-ins: short words that models copy.

A model copies a stand-in such as `XYZ1` in 97 of 100 cases. `Carrier.restore` finds the other
cases, because each stand-in must occur exactly once in the translation. Such a sentence is
translated again with other stand-ins, and finally in parts, without its spans.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

from service.text.letters import Span
from service.text.protection import MARKER, ProtectedText
from service.text.segmentation import Segments

# Characters after which a stand-in needs no space.
OPENING = "([{\"'"


class Variant(NamedTuple):
    """One way to spell stand-ins: a text, a number, a text. The patterns' group is the number."""

    before: str
    after: str
    anywhere: re.Pattern[str]  # also inside a word
    apart: re.Pattern[str]


def _variant(before: str, after: str) -> Variant:
    core = rf"{re.escape(before)}([1-9][0-9]{{0,8}}+){re.escape(after)}"
    first = "" if before == "(" else r"(?<!\w)"
    last = "" if after == ")" else r"(?!\w)"
    patterns = (core, f"{first}{core}{last}")
    return Variant(before, after, *(re.compile(each, re.IGNORECASE) for each in patterns))


_TAGS_AT_END = re.compile(rf"(?<!{MARKER.pattern})(?:{MARKER.pattern})++$")
_TAGS_AT_START = re.compile(f"^(?:{MARKER.pattern})++")

# Spellings of stand-ins, in the order in which they are tried.
VARIANTS = (_variant("XYZ", ""), _variant("A", "B"), _variant("(", ")"))


@dataclass(frozen=True, slots=True)
class StandIn:
    marker: str  # that `service.text.protection` has put in place of the span
    before: str  # character to the left of the span; "" at the start of the sentence
    after: str
    start: int  # position of the marker in the sentence
    end: int  # position in the carrier's text after the stand-in and its added space


@dataclass(frozen=True, slots=True)
class Carrier:
    """A sentence with stand-ins, in the order of the source. The model translates `text`."""

    text: str
    stand_ins: tuple[StandIn, ...]
    variant: Variant

    def place(self, place: int) -> int:
        """Converts a place in the sentence to the same place in the carrier's text."""
        number = bisect_left(self.stand_ins, place, key=lambda each: each.start)
        if not number:
            return place
        last = self.stand_ins[number - 1]
        return place + last.end - last.start - 1

    def stand_ins_in(self, text: str) -> list[Span]:
        """Returns the places of the stand-ins in a text that has each of them once."""
        return [(first, last) for _, first, last in _find(self.variant, len(self.stand_ins), text)]

    def behind(self, translation: str, places: Sequence[int]) -> list[int]:
        """Moves each place inside a stand-in of a translation to the end of this stand-in."""
        spans = [
            found.span()
            for found in self.variant.anywhere.finditer(translation)
            if int(found[1]) <= len(self.stand_ins)
        ]
        ends = [end for _, end in spans]
        moved = []
        for place in places:
            number = bisect_left(ends, place)
            is_inside = number < len(spans) and spans[number][0] < place
            moved.append(ends[number] if is_inside else place)
        return moved

    def restore(self, translation: str) -> str | None:
        """Returns a translation with its markers; None unless it has each stand-in just once."""
        found = _find(self.variant, len(self.stand_ins), translation)
        if sorted(number for number, _, _ in found) != [*range(1, len(self.stand_ins) + 1)]:
            return None
        edges = [0, *(edge for _, *span in found for edge in span), len(translation)]
        # parts[2 * i] is the text before the stand-in parts[2 * i + 1], and after the one before.
        parts = [translation[first:last] for first, last in pairwise(edges)]
        places = {number: 2 * index + 1 for index, (number, _, _) in enumerate(found)}
        for number, each in enumerate(self.stand_ins, 1):
            _put(each, parts, places[number])
        return "".join(parts)


def carry(sentence: str, variant: int, limit: int) -> Carrier | None:
    """Returns a sentence with a stand-in, spelled as VARIANTS[variant], for each marker.

    The result is None if the sentence has more than `limit` markers, or already contains one of the
    stand-ins. `limit` is a number of tokens, and a stand-in has at least one.
    """
    spelled = VARIANTS[variant]
    markers = [*islice(MARKER.finditer(sentence), limit + 1)]
    if len(markers) > limit or _find(spelled, len(markers), sentence):
        return None
    stand_ins: list[StandIn] = []
    parts: list[str] = []
    end = length = 0
    for number, match in enumerate(markers, 1):
        before = sentence[match.start() - 1 : match.start()]
        after = sentence[match.end() : match.end() + 1]
        gap = " " if before and not before.isspace() and before not in OPENING else ""
        gap_after = " " if after.isalnum() or MARKER.match(after) else ""
        spelling = f"{spelled.before}{number}{spelled.after}"
        added = sentence[end : match.start()] + gap + spelling + gap_after
        parts.append(added)
        length += len(added)
        end = match.end()
        stand_ins.append(StandIn(match[0], before, after, match.start(), length))
    return Carrier("".join([*parts, sentence[end:]]), tuple(stand_ins), spelled)


def split_at_markers(sentence: str) -> list[str]:
    return [part for part in re.split(f"({MARKER.pattern})", sentence) if part]


def _find(variant: Variant, number: int, text: str) -> list[tuple[int, int, int]]:
    found = ((int(each[1]), *each.span()) for each in variant.apart.finditer(text))
    return [each for each in found if each[0] <= number]


def _put(each: StandIn, parts: list[str], place: int) -> None:
    """Puts the marker in place of a stand-in, which is `parts[place]` of a translation.

    A space beside it goes if the next character is like the one beside the span in the source.
    """
    parts[place] = each.marker
    before, after = parts[place - 1], parts[place + 1]
    if before.endswith(" "):
        beside = before[-2:-1] or "".join(parts[place - 2 : place - 1])[-1:]
        behind_tags = _TAGS_AT_END.sub("", before[:-1])[-1:]
        if _is_alike(each.before, beside) or _is_alike(each.before, behind_tags):
            parts[place - 1] = before[:-1]
    if after.startswith(" "):
        beside = after[1:2] or "".join(parts[place + 2 : place + 3])[:1]
        behind_tags = _TAGS_AT_START.sub("", after[1:])[:1]
        if _is_alike(each.after, beside) or _is_alike(each.after, behind_tags):
            parts[place + 1] = after[1:]


def _is_alike(source: str, target: str) -> bool:
    """Returns whether two characters are the same, or a letter or a digit each; no white space."""
    if not source or source.isspace():
        return False
    return source == target or (source.isalnum() and target.isalnum())


def trim(segments: Segments, protected: ProtectedText) -> Segments:
    """Moves markers at the start and at the end of a sentence into the separator beside them.

    Only the markers of symbols may move, and in markup also those of inline tags. The model does
    not read separators. A sentence of only such markers becomes empty.
    """
    if not protected.spans:
        return segments

    def is_left_out(char: str) -> bool:
        return char.isspace() or (MARKER.match(char) is not None and protected.may_move(char))

    def trimmed(sentence: str) -> Sequence[str]:
        first, last = 0, len(sentence)
        while first < last and is_left_out(sentence[first]):
            first += 1
        while first < last and is_left_out(sentence[last - 1]):
            last -= 1
        return sentence[:first], sentence[first:last], sentence[last:]

    return segments.divided(trimmed)
