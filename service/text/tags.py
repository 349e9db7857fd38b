"""Takes the inline tags out of a text before its translation, and gives each sentence its tags.

A model translates better without tags. `service.text.tag_placement` finds the places of the tags in
the translation.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from service.text.markup import Kind, MarkupText
from service.text.protection import MARKER
from service.text.segmentation import Segments


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag in a text or in a sentence.

    Attributes:
        kind: OPEN, CLOSE or EMPTY.
        marker: Character that stands for the tag.
        place: Number of code points in front of the tag, from the start of the text or sentence.
        partner: Place of the element's other tag; `place` for an element with a single tag.
    """

    kind: Kind
    marker: str
    place: int
    partner: int


def lift(text: MarkupText) -> tuple[MarkupText, list[Tag]]:
    """Takes the inline tags out of a text.

    Returns:
        The text without the tags, and the tags in order, with their places in that text.
    """
    parts: list[str] = []
    found: list[tuple[Kind, str, int]] = []
    length = end = 0
    for match in MARKER.finditer(text.text):
        if match[0] in text.tags:
            parts.append(text.text[end : match.start()])
            length += match.start() - end
            end = match.end()
            found.append((text.tags[match[0]], match[0], length))
    words = "".join([*parts, text.text[end:]])
    return replace(text, text=words, tags={}), _paired(found)


def _paired(found: Sequence[tuple[Kind, str, int]]) -> list[Tag]:
    tags: list[Tag] = []
    opened: list[int] = []
    for kind, marker, place in found:
        tags.append(Tag(kind, marker, place, place))
        if kind is Kind.OPEN:
            opened.append(len(tags) - 1)
        elif kind is Kind.CLOSE:
            start = opened.pop()
            tags[-1] = replace(tags[-1], partner=tags[start].place)
            tags[start] = replace(tags[start], partner=place)
    return tags


def distribute(segments: Segments, tags: Sequence[Tag]) -> tuple[Segments, dict[int, list[Tag]]]:
    """Gives each tag to a sentence or to a separator.

    The tags of an element that covers whole sentences go to separators. The model does not
    translate separators, so these tags keep their places between the sentences.

    Args:
        segments: Sentences of the text that `lift` returned.
        tags: Tags that `lift` returned.

    Returns:
        Two values. The first is the segments; their separators now contain the markers of all tags
        that belong to no sentence. The second maps the index of each sentence that has tags to
        these tags. Their `place` and `partner` count from the start of the sentence. A `partner`
        outside of the sentence is below 0 or above the sentence's length.
    """
    if not tags:
        return segments, {}
    places = [tag.place for tag in tags]
    bounds = list(_bounds(segments))
    separators = list(segments.separators)
    inside: dict[int, list[Tag]] = {}
    for number, (first, last) in enumerate(bounds):
        held = tags[bisect_left(places, first) : bisect_left(places, last + 1)]
        own = held[_head(held, first, last) : _tail(held, first, last)]
        if own:
            inside[number] = [
                replace(tag, place=tag.place - first, partner=tag.partner - first) for tag in own
            ]
    claimed = {tag.marker for own in inside.values() for tag in own}
    edges = [0, *(edge for bound in bounds for edge in bound)]
    for number, start in enumerate(edges[::2]):
        separator = separators[number]
        held = tags[bisect_left(places, start) : bisect_left(places, start + len(separator) + 1)]
        free = [tag for tag in held if tag.marker not in claimed]
        claimed.update(tag.marker for tag in free)
        separators[number] = insert(separator, [(tag.place - start, tag.marker) for tag in free])
    return Segments(tuple(separators), segments.sentences), inside


def _bounds(segments: Segments) -> Iterator[tuple[int, int]]:
    """Yields two places for each sentence of a text: its start, and the place after its end."""
    starts = segments.starts(segments.sentences)
    for start, sentence in zip(starts, segments.sentences, strict=False):
        yield start, start + len(sentence)


def _head(held: Sequence[Tag], first: int, last: int) -> int:
    """Returns the index of the first tag that belongs to the sentence.

    Tags at the start of a sentence do not belong to it. The exceptions are a start tag whose
    element ends inside the sentence, and the tags after this start tag.
    """
    for number, tag in enumerate(held):
        if tag.place > first:
            return number
        if tag.kind is Kind.OPEN and first < tag.partner < last:
            return number
    return len(held)


def _tail(held: Sequence[Tag], first: int, last: int) -> int:
    """Returns the index after the last tag that belongs to the sentence.

    Tags at the end of a sentence do not belong to it. The exceptions are an end tag whose element
    starts inside the sentence, and the tags before this end tag.
    """
    for number in range(len(held), 0, -1):
        tag = held[number - 1]
        if tag.place < last:
            return number
        if tag.kind is Kind.CLOSE and first < tag.partner < last:
            return number
    return 0


def insert(text: str, markers: Sequence[tuple[int, str]]) -> str:
    """Inserts each marker into a text at its place; the places must be in ascending order."""
    parts: list[str] = []
    end = 0
    for place, marker in markers:
        parts += (text[end:place], marker)
        end = place
    return "".join([*parts, text[end:]])
