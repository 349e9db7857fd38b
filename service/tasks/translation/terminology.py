"""Makes translations use the terms of a glossary.

A sentence is first translated unchanged. If target terms are missing in the translation, they
replace their source terms in the sentence, and the sentence is translated again. This works because
models mostly copy words of the target language.

A stand-in is a short word, such as `XYZ1`, in place of a source term. The model copies it, and the
target term then replaces it in the translation. Models copy stand-ins more reliably than target
terms, but a stand-in hides the meaning of the term. If target terms are still missing in the second
translation, stand-ins replace their source terms. In the fourth, all source terms are replaced.

This module puts markers in place of source terms; `Sentence.load` replaces them by stand-ins.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from service.items import TranslationItem
from service.tasks.threads import run_sized
from service.tasks.translation.fidelity import load
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.sentences import Sentence, TranslatedText, num_chars
from service.text.glossary import Match, Terms, capitalized, missing_terms
from service.text.letters import has_words
from service.text.protection import FIRST_MARKER, MARKER, MAX_SPANS
from service.text.tags import Tag


async def give_terms(sentences: Sequence[Sentence], terms: Terms, pipeline: PivotPipeline) -> None:
    """Gives remote models the terms of each sentence, for their prompts."""
    remote = [each for each in sentences if [d.has_attention for d in each.text.route] == [False]]

    def find() -> None:
        for sentence in remote:
            source = sentence.source
            found = [
                (source[match.start : match.end], match.target) for match in terms.find(source)
            ]
            sentence.hints = replace(sentence.hints, terms=found)

    await run_sized(num_chars(remote), pipeline.deadline, find)


async def use_terms(sentences: Sequence[Sentence], terms: Terms, pipeline: PivotPipeline) -> None:
    """Translates sentences again while target terms are missing, up to three times.

    A stand-in may be missing in a new translation, which `fidelity.complete` must then complete.
    """
    size, deadline = num_chars(sentences), pipeline.deadline
    left = await run_sized(size, deadline, _termed, sentences, terms)
    for put, is_for_all in ((_as_words, False), (_as_markers, False), (_as_markers, True)):
        left, loaded, items = await run_sized(
            size, deadline, _rewritten, left, pipeline, put, is_for_all
        )
        if not loaded:
            return
        for sentence, result in zip(loaded, await pipeline.run(items), strict=True):
            sentence.result = result


@dataclass(frozen=True, slots=True)
class _Termed:
    """A sentence with source terms; `source` and `tags` are those before any term is replaced."""

    sentence: Sentence
    source: str
    tags: Sequence[Tag]
    matches: Sequence[Match]

    def rewrite(self, matches: Sequence[Match], words: Sequence[str]) -> None:
        """Puts a target term, or its marker, in place of each match; moves the tags behind it."""
        parts: list[str] = []
        changes: list[tuple[int, int]] = []
        end = 0
        for match, word in zip(matches, words, strict=True):
            parts += (self.source[end : match.start], word)
            end = match.end
            changes.append((end, len(word) - end + match.start))

        def moved(place: int) -> int:
            return place + sum(added for end, added in changes if end <= place)

        self.sentence.source = "".join([*parts, self.source[end:]])
        self.sentence.tags = [
            replace(tag, place=moved(tag.place), partner=moved(tag.partner)) for tag in self.tags
        ]


Put = Callable[[_Termed, Sequence[Match], list[str]], list[str]]
"""Returns the words that replace matches, and adds the spans of these words to the list."""


def _rewritten(
    left: Sequence[_Termed], pipeline: PivotPipeline, put: Put, is_for_all: bool
) -> tuple[list[_Termed], list[Sentence], list[TranslationItem]]:
    """Rewrites each sentence whose translation does not have all target terms.

    With `is_for_all`, all its terms are replaced, else only those whose target terms are missing.
    Returns the sentences whose target terms are missing, and those to translate again.
    """
    incomplete: list[_Termed] = []
    spans: dict[TranslatedText, list[str]] = defaultdict(list)
    for one in left:
        missing = missing_terms(one.matches, _decoded(one.sentence))
        if missing:
            incomplete.append(one)
            matches = one.matches if is_for_all else missing
            one.rewrite(matches, put(one, matches, spans[one.sentence.text]))
    for text, added in spans.items():
        text.protected = text.protected.extended(added)
    return incomplete, *load([one.sentence for one in incomplete], 0, pipeline)


def _termed(sentences: Sequence[Sentence], terms: Terms) -> list[_Termed]:
    """Returns the sentences with source terms. A term with a tag inside it is left out."""
    termed = []
    for sentence in sentences:
        tags = sentence.tags
        found = [
            match
            for match in _find(sentence, terms)
            if not any(match.start < tag.place < match.end for tag in tags)
        ]
        if found:
            sentence.terms = {match.target.split()[0] for match in found if match.is_exact}
            termed.append(_Termed(sentence, sentence.source, tags, found))
    return termed


def _find(sentence: Sentence, terms: Terms) -> list[Match]:
    """Returns the terms of a sentence, with their places in `source`.

    A term may contain protected spans, such as words that the vocabulary does not have, but only
    whole ones.
    """
    source, protected = sentence.source, sentence.text.protected
    if not MARKER.search(source):
        return terms.find(source)
    parts: list[str] = []
    places: dict[int, int] = {}  # from places in the restored source to those in the source
    length = 0
    for place, char in enumerate(source):
        places[length] = place
        parts.append(protected.span(char) if MARKER.match(char) else char)
        length += len(parts[-1])
    places[length] = len(source)
    return [
        replace(match, start=places[match.start], end=places[match.end])
        for match in terms.find("".join(parts))
        if match.start in places and match.end in places
    ]


def _decoded(sentence: Sentence) -> str:
    decoded = sentence.decode(0)
    restored = sentence.restored(decoded)
    return decoded if restored is None else sentence.text.protected.restore(restored)


def _as_words(one: _Termed, matches: Sequence[Match], _: list[str]) -> list[str]:
    """Returns the target terms, with a capital letter if the sentence begins with one."""
    return [
        capitalized(match.target)
        if one.sentence.text.protected.restore(one.source[match.start])[0].isupper()
        and not has_words(one.sentence.text.protected.restore(one.source[: match.start]))
        else match.target
        for match in matches
    ]


def _as_markers(one: _Termed, matches: Sequence[Match], spans: list[str]) -> list[str]:
    """Returns a marker for each target term, and adds the target terms to the new spans.

    Each term has two spans with consecutive markers: the term itself, and the term with a capital
    letter at its start. If no marker is left for a target term, the result has the target term in
    place of its marker.
    """
    text = one.sentence.text
    restored = text.protected.restore(one.source)
    starts_with_capital = next(filter(str.isalpha, restored), "").isupper()
    first = FIRST_MARKER + len(text.protected.spans) + len(spans)
    words = []
    for number, match in enumerate(matches):
        marker = first + 2 * number
        if marker + 1 >= FIRST_MARKER + MAX_SPANS:
            words.append(match.target)
            continue
        words.append(chr(marker))
        if starts_with_capital:
            text.capitals[chr(marker)] = chr(marker + 1)
    spans += [form for match in matches for form in (match.target, capitalized(match.target))]
    return words
