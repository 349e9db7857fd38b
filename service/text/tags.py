"""Takes the inline tags out of a text before its translation, and places them in the translation.

A model translates better without tags. Their places are found by the cross-attention between
words: an element surrounds the target words that attend to its source words. Each element stays in
one piece, inside the element that surrounds it in the source. Elements next to each other change
their order if their words do.

A tag inside a word stays inside a word: `un<b>happy</b>` becomes `in<b>feliz</b>`. It has as many
letters beside it as in the source, on the side where the word has fewer. In an ordinal such as
`3<sup>rd</sup>` it stays behind the digits, and is empty if the translation has no ending there.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from service.text.letters import UNSPACED_LETTER, Span, has_words
from service.text.markup import Kind, MarkupText
from service.text.protection import MARKER
from service.text.segmentation import Segments

# Endings of ordinals in the languages of Western Europe.
_ORDINAL_ENDING = re.compile("st|nd|rd|th|[eoaºª]|er|re|[eè]me|[dt]e|ste", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Tag:
    kind: Kind  # OPEN, CLOSE or EMPTY
    marker: str
    place: int  # number of code points in front of the tag, in the text or sentence
    partner: int  # place of the element's other tag; `place` for an element with a single tag


def lift(text: MarkupText) -> tuple[MarkupText, list[Tag]]:
    """Returns a text without its inline tags, and the tags with their places in that text."""
    parts: list[str] = []
    tags: list[Tag] = []
    opened: list[int] = []
    place = end = 0
    for match in MARKER.finditer(text.text):
        if match[0] not in text.tags:
            continue
        parts.append(text.text[end : match.start()])
        place += match.start() - end
        end = match.end()
        kind, partner = text.tags[match[0]], place
        if kind is Kind.OPEN:
            opened.append(len(tags))
        elif kind is Kind.CLOSE:
            start = opened.pop()
            partner = tags[start].place
            tags[start] = replace(tags[start], partner=place)
        tags.append(Tag(kind, match[0], place, partner))
    words = "".join([*parts, text.text[end:]])
    return replace(text, text=words, tags={}), tags


def distribute(segments: Segments, tags: Sequence[Tag]) -> tuple[Segments, dict[int, list[Tag]]]:
    """Gives each tag of a text that `lift` returned to a sentence or to a separator.

    The tags of an element that covers whole sentences go to separators. The model does not
    translate separators, so these tags keep their places between the sentences.

    Returns:
        The segments, with markers in their separators, and the tags of each sentence that has some,
        by its index. Their places count from the start of the sentence. A `partner` outside of the
        sentence is below 0 or above the sentence's length.
    """
    if not tags:
        return segments, {}
    places = [tag.place for tag in tags]
    starts = segments.starts(segments.sentences)
    bounds = [(at, at + len(text)) for at, text in zip(starts, segments.sentences, strict=True)]
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


def _head(held: Sequence[Tag], first: int, last: int) -> int:
    """Returns the index of the first tag that belongs to the sentence.

    Tags at its start do not, except from a start tag on whose element ends inside the sentence.
    """
    for number, tag in enumerate(held):
        if tag.place > first or (tag.kind is Kind.OPEN and first < tag.partner < last):
            return number
    return len(held)


def _tail(held: Sequence[Tag], first: int, last: int) -> int:
    """Returns the index after the last tag that belongs to the sentence, as `_head` does."""
    for number in range(len(held), 0, -1):
        tag = held[number - 1]
        if tag.place < last or (tag.kind is Kind.CLOSE and first < tag.partner < last):
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


@dataclass(frozen=True, slots=True)
class WordAttention:
    """The attention between the words of a sentence and of its translation."""

    source: str
    target: str
    source_words: Sequence[Span]  # in code points, in order
    target_words: Sequence[Span]
    weights: NDArray[np.float32]  # attention of T target words to S source words, (T, S)


@dataclass(slots=True)
class _Element:
    """An element of a sentence, or a tag without content, which has only the first marker."""

    tags: tuple[str, str]  # markers of start and end; "" for a tag outside of the sentence
    start: int  # places in the source sentence
    end: int
    children: list["_Element"] = field(default_factory=list)
    is_open_start: bool = False  # whether the element starts before the sentence
    is_open_end: bool = False  # whether the element ends after the sentence


def place_tags(tags: Sequence[Tag], words: WordAttention) -> list[tuple[int, str]]:
    """Returns the places of the tags of a sentence in its translation, in ascending order.

    Each place comes with a text to insert there: a marker, or a marker and a space.
    """
    placement = _Placement(_cut(words, {tag.place for tag in tags}))
    placed = placement.emit(_tree(tags, len(words.source)), (0, placement.num_words))
    return [*accumulate(placed, lambda last, each: (max(last[0], each[0]), each[1]))]


def _cut(words: WordAttention, places: Set[int]) -> WordAttention:
    """Cuts each source word with a tag inside it, and its translation, into parts.

    A part of a target word attends to the part of the source word at the same place. In a script
    without spaces, a word may be a whole sentence, which stays in one piece.
    """
    cuts = {
        number: [first, *inside, last]
        for number, (first, last) in enumerate(words.source_words)
        if (inside := sorted(place for place in places if first < place < last))
        and not UNSPACED_LETTER.search(words.source, first, last)
    }
    if not cuts:
        return words
    parts = [cuts.get(number, [*word]) for number, word in enumerate(words.source_words)]
    starts = np.cumsum([0, *(len(edges) - 1 for edges in parts)])  # first part of each source word
    columns = np.repeat(np.arange(len(parts)), np.diff(starts))
    weights = (words.weights / np.diff(starts))[:, columns]
    owners = _owners(words, cuts)
    spans: list[Span] = []
    rows: list[NDArray[np.float32]] = []
    translated: set[int] = set()
    for target, (span, owner) in enumerate(zip(words.target_words, owners, strict=True)):
        if owner not in cuts:
            spans.append(span)
            rows.append(weights[target])
            continue
        for part, each in _target_parts(words, target, owners, cuts[owner]):
            spans.append(each)
            column = int(starts[owner]) + (part or 0)
            translated.add(column)
            row = np.eye(1, len(columns), column, dtype=np.float32)[0]
            rows.append(weights[target] if part is None else row)
    cut_weights = np.array(rows, np.float32).reshape(len(rows), len(columns))
    for number, edges in cuts.items():
        ending = int(starts[number]) + 1
        if _is_ordinal(words.source, edges) and ending not in translated:
            cut_weights[:, ending] = 0  # the translation has no such ending
    return replace(
        words,
        source_words=[span for edges in parts for span in pairwise(edges)],
        target_words=spans,
        weights=cut_weights,
    )


def _is_ordinal(source: str, edges: Sequence[int]) -> bool:
    """Returns whether the parts of a source word are the digits and the ending of an ordinal."""
    digits, ending = source[edges[0] : edges[1]], source[edges[1] : edges[-1]]
    return len(edges) == 3 and digits.isdecimal() and _ORDINAL_ENDING.fullmatch(ending) is not None


def _owners(words: WordAttention, cuts: Collection[int]) -> list[int]:
    """Returns the index of the source word of each target word.

    A source word that is cut gets the target word that attends to it most, if it has none.
    """
    anchors = _anchors(words)
    owners = [anchors.get(target, int(row.argmax())) for target, row in enumerate(words.weights)]
    for number in cuts:
        if number not in owners and owners:
            target = int(words.weights[:, number].argmax())
            if owners[target] not in cuts and target not in anchors:
                owners[target] = number
    return owners


def _target_parts(
    words: WordAttention, target: int, owners: Sequence[int], edges: Sequence[int]
) -> Iterator[tuple[int | None, Span]]:
    """Yields the parts of a target word with the number of the source part of each.

    The longest translation of a source word is cut. The words before it belong to the first part,
    and the words after it to the last part. A word with fewer letters than parts is not cut; its
    number is None. Digits are cut off by their spelling.

    Args:
        owners: Index of the source word of each target word.
        edges: Places of the parts of the source word in the source.
    """
    same = [number for number, owner in enumerate(owners) if owner == owners[target]]
    longest = max(same, key=lambda number: np.ptp(words.target_words[number]))
    first, last = words.target_words[target]
    digits = words.source[edges[0] : edges[1]] if len(edges) == 3 else ""
    starts = (words.target_words[each][0] for each in same) if digits.isdecimal() else ()
    number = next((at for at in starts if words.target.startswith(digits, at)), None)
    is_ordinal = _is_ordinal(words.source, edges)
    if number is not None or is_ordinal:
        place = words.target_words[longest][0] if number is None else number
        if first != place:
            yield None if is_ordinal else int(first > place), (first, last)
            return
        end = last if number is None else min(first + len(digits), last)
        yield 0, (first, end)
        if end < last:
            yield 1, (end, last)
        return
    if target != longest:
        yield (0 if target < longest else len(edges) - 2), (first, last)
        return
    if last - first < len(edges) - 1:
        yield None, (first, last)
        return
    inner = [_inner_place(edge - edges[0], edges[-1] - edge, last - first) for edge in edges[1:-1]]
    places = accumulate((first, *(first + place for place in inner), last), max)
    for part, span in enumerate(pairwise(places)):
        if span[0] < span[1]:
            yield part, span


def _inner_place(before: int, after: int, length: int) -> int:
    """Returns the place in a target word of a tag with `before` and `after` letters beside it."""
    found = before if before <= after else length - after
    return max(1, min(found, length - 1))


def _tree(tags: Sequence[Tag], length: int) -> list[_Element]:
    outside = [tag for tag in tags if tag.kind is Kind.CLOSE and tag.partner < 0]
    root = _Element(("", ""), 0, length)
    stack = [root]
    for tag in reversed(outside):  # the last end tag belongs to the outermost element
        element = _Element(("", ""), 0, tag.place, is_open_start=True)
        stack[-1].children.append(element)
        stack.append(element)
    for tag in tags:
        if tag.kind is Kind.CLOSE:
            element = stack.pop()
            element.tags = element.tags[0], tag.marker
            element.end = tag.place
            element.is_open_end = False
            continue
        element = _Element((tag.marker, ""), tag.place, tag.place)
        stack[-1].children.append(element)
        if tag.kind is Kind.OPEN:
            element.end, element.is_open_end = length, True
            stack.append(element)
    return root.children


class _Placement:
    """The places of the elements of one sentence."""

    def __init__(self, words: WordAttention) -> None:
        self.words = words
        self.num_words = len(words.target_words)
        self.anchors = _anchors(words)
        weights = words.weights.astype(np.float64)
        for target, source in self.anchors.items():
            weights[target] = 0.0
            weights[target, source] = 1.0
        # The share of each source word in the attention of each target word, (T, S).
        self.shares = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)

    def emit(self, elements: Sequence[_Element], within: Span) -> Iterator[tuple[int, str]]:
        """Yields the places and markers of sibling elements, and of the elements inside them.

        The elements are placed among the target words `within`.
        """
        chosen: list[tuple[Span, int]] = []
        gaps = [within]
        for number in sorted(range(len(elements)), key=lambda n: self._rank(elements[n])):
            span = self._choose(elements[number], gaps)
            chosen.append((span, number))
            gaps = _without(gaps, span)
        last_at = {element.end: number for number, element in enumerate(elements)}
        for span, number in sorted(chosen):
            element = elements[number]
            start, end = element.tags
            if last_at[element.end] == number and within[0] < within[1]:
                before, after = self._spaces(element, span)
                start, end = (before + start, end + after) if end else (before + start + after, "")
            if start:
                yield self._start(element, span), start
            yield from self.emit(element.children, span)
            if end:
                yield self._end(element, span), end

    def _covered(self, element: _Element) -> list[int]:
        """Returns the indices of the source words of an element."""
        if element.start == element.end:
            return []
        return [
            number
            for number, (first, last) in enumerate(self.words.source_words)
            if first < element.end and last > element.start
        ]

    def _rank(self, element: _Element) -> tuple[bool, int]:
        """Sorts anchored elements first, because their place is certain, then longer ones."""
        covered = self._covered(element)
        return self._anchored_span(covered) is None, -len(covered)

    def _anchored_span(self, covered: Sequence[int]) -> Span | None:
        """Returns the span of the anchors of source words; None if they are not all adjacent."""
        sources = set(covered)
        found = [target for target, source in self.anchors.items() if source in sources]
        if not found or len(found) < len(sources) or max(found) - min(found) >= len(found):
            return None
        return min(found), max(found) + 1

    def _choose(self, element: _Element, gaps: Sequence[Span]) -> Span:
        """Returns the span of the target words of an element, [first, end).

        The span is inside one of the gaps: spans of target words that no placed sibling has taken.
        """
        covered = self._covered(element)
        if not covered:
            return self._boundary(element, gaps)
        if not self.shares[:, covered].any() and covered[0]:
            place = self._translation(covered[0] - 1) + 1
            if any(first <= place <= last for first, last in gaps):
                return place, place
        anchored = self._anchored_span(covered)
        if anchored and not element.is_open_start and not element.is_open_end:
            if any(first <= anchored[0] and anchored[1] <= last for first, last in gaps):
                return anchored
        gains = self.shares[:, covered].sum(axis=1) - 0.5  # (T,)
        if element.is_open_start:
            first = gaps[0][0]
            span = first, first + _best_length(gains[slice(*gaps[0])])
            return first, self._without_marks(span, covered)[1]
        if element.is_open_end:
            last = gaps[-1][1]
            span = last - _best_length(gains[slice(*gaps[-1])][::-1]), last
            return self._without_marks(span, covered)[0], last
        spans = [_best_span(gains, gap) for gap in gaps if gap[0] < gap[1]]
        if not spans:
            return self._boundary(element, gaps)
        best = max(spans, key=lambda span: float(gains[slice(*span)].sum()))
        if all(map(self._is_mark, range(*best))) and not all(map(self._is_source_mark, covered)):
            free = [n for gap in gaps for n in range(*gap) if not self._is_mark(n)]
            word = max(free, key=lambda n: float(gains[n]), default=best[0])
            return word, word + 1
        return self._without_marks(best, covered)

    def _translation(self, source: int) -> int:
        """Returns the index of the target word that is a source word, or attends to it most."""
        column = self.shares[:, source]
        return max(range(len(column)), key=lambda n: (self.anchors.get(n) == source, column[n]))

    def _is_mark(self, target: int) -> bool:
        return not has_words(self.words.target[slice(*self.words.target_words[target])])

    def _is_source_mark(self, source: int) -> bool:
        return not has_words(self.words.source[slice(*self.words.source_words[source])])

    def _without_marks(self, span: Span, covered: Sequence[int]) -> Span:
        """Removes punctuation at each end of a span, unless the source has punctuation there.

        The marks after the mark that ends the element in the source are removed: `<i>(a)</i>.`
        """
        first, last = span
        if not self._is_source_mark(covered[0]):
            while first < last - 1 and self._is_mark(first):
                first += 1
        if not self._is_source_mark(covered[-1]):
            while first < last - 1 and self._is_mark(last - 1):
                last -= 1
            return first, last
        wanted = self.words.source[slice(*self.words.source_words[covered[-1]])]
        for end in range(last, first, -1):
            if not self._is_mark(end - 1):
                break
            if self.words.target[slice(*self.words.target_words[end - 1])] == wanted:
                return first, end
        return first, last

    def _boundary(self, element: _Element, gaps: Sequence[Span]) -> Span:
        """Returns the empty span that is the best place for an element without target words."""
        before = [n for n, (_, last) in enumerate(self.words.source_words) if last <= element.start]
        earlier = self.shares[:, before].sum(axis=1)  # (T,)
        # costs[t] is the cost of the place before target word t. Each target word before the place
        # adds its shares on the source words that do not precede the element. Each target word
        # after the place adds its shares on the source words that precede the element.
        costs = np.concatenate([[0.0], np.cumsum(1 - earlier)]) + np.concatenate(
            [np.cumsum(earlier[::-1])[::-1], [0.0]]
        )
        allowed = [place for first, last in gaps for place in range(first, last + 1)]
        best = min(allowed, key=lambda place: float(costs[place]))
        return best, best

    def _start(self, element: _Element, span: Span) -> int:
        """Returns the place of a start tag in the translation."""
        first, last = span
        if first == last:
            touches_left = bool(self.words.source[: element.start][-1:].strip())
            if touches_left and first:
                return self.words.target_words[first - 1][1]
        if element.is_open_start or not self.num_words:
            return 0
        if first == self.num_words:
            return len(self.words.target)
        return self.words.target_words[first][0]

    def _spaces(self, element: _Element, span: Span) -> tuple[str, str]:
        """Returns the spaces to add around an element without content, as the source has them.

        The second is "" at the end, and before a mark that the source has there.
        """
        source, place = self.words.source, element.start
        if place != element.end or span[0] != span[1] or not source[:place][-1:].isspace():
            return "", ""
        beside = self.words.target[: self._start(element, span)][-1:]
        before, after = " " if beside.strip() else "", source[place : place + 1]
        if span[0] == self.num_words or not after or after.isalnum():
            return before, ""
        return before, " " if after.isspace() or not self._is_mark(span[0]) else ""

    def _end(self, element: _Element, span: Span) -> int:
        first, last = span
        return self._start(element, span) if first == last else self.words.target_words[last - 1][1]


def _without(gaps: Sequence[Span], span: Span) -> list[Span]:
    """Removes a span from the gap that contains it, which may leave two gaps.

    Each gap occurs only once in the result, so many empty spans at one place leave few gaps.
    """
    left: dict[Span, None] = {}
    is_taken = False
    for first, last in gaps:
        if not is_taken and first <= span[0] and span[1] <= last:
            is_taken = True
            left |= {(first, span[0]): None, (span[1], last): None}
        else:
            left[first, last] = None
    return [*left]


def _best_length(gains: NDArray[np.float64]) -> int:
    """Returns the length of the prefix with the largest sum; the shortest one if sums are equal."""
    return int(np.concatenate([[0.0], np.cumsum(gains)]).argmax())


def _best_span(gains: NDArray[np.float64], gap: Span) -> Span:
    """Returns the span with the largest sum inside a gap. Gap and span have at least one word."""
    first, last = gap
    best = (float("-inf"), first, last)
    total, start = 0.0, first
    for place in range(first, last):
        if total <= 0:
            total, start = 0.0, place
        total += float(gains[place])
        if total > best[0]:
            best = (total, start, place + 1)
    return best[1:]


def _anchors(words: WordAttention) -> dict[int, int]:
    """Maps the index of each anchor to the index of its source word.

    An anchor is a target word with a digit or a capital letter that equals a source word. It occurs
    exactly once in each of the two sentences.
    """
    source = [words.source[first:last] for first, last in words.source_words]
    target = [words.target[first:last] for first, last in words.target_words]
    numbers = {word: number for number, word in enumerate(source)}
    counts = Counter(source), Counter(target)
    return {
        number: numbers[word]
        for number, word in enumerate(target)
        if any(char.isdigit() or char.isupper() for char in word)
        and counts[0][word] == counts[1][word] == 1
    }
