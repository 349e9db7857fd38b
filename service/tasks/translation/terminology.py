"""Makes translations use the terms of a glossary.

A sentence is first translated unchanged. If target terms are missing in the translation, they
replace their source terms in the sentence, and the sentence is translated again. This works because
models mostly copy words of the target language.

A stand-in is a short word, such as `XYZ1`, that replaces a source term in the sentence. The model
copies it, and the target term then replaces it in the translation. Models copy stand-ins more
reliably than target terms, but a stand-in hides the meaning of the term from the model. If target
terms are still missing in the second translation, stand-ins replace the source terms of these
target terms. If target terms are missing even in the third translation, stand-ins replace all
source terms.

This module first puts a marker in place of a source term; `fidelity.Place.load` then replaces the
markers by stand-ins. A protected span is a text that the model must not change. A marker is one
private-use character that stands for such a span. Here target terms become protected spans.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from model.sequence import DecodingOptions
from service.items.result import Result
from service.items.translation import TranslationItem
from service.tasks.threads import run_sized
from service.tasks.translation.fidelity import Place
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.prepared import Prepared, total_chars
from service.text.glossary import Match, Terms, capitalized, lacking
from service.text.letters import has_words
from service.text.protection import FIRST_MARKER, MAX_SPANS
from service.text.tags import Tag


async def use_terms(
    prepared: list[Prepared],
    results: list[Result],
    terms: Terms,
    options: DecodingOptions,
    pipeline: PivotPipeline,
) -> None:
    """Translates sentences again while target terms are missing, up to three times.

    A stand-in may be missing in a new translation. The caller must therefore call
    `fidelity.complete` afterwards, which completes such translations.

    Args:
        prepared: The texts. Their sentences are changed, and they get more protected spans.
        results: Results of the sentences of all texts, in order; some are replaced.
        terms: Terms of the glossary.
        options: Options of the search.
        pipeline: Translates sentences.
    """
    num_chars = total_chars(prepared)
    deadline = pipeline.deadline
    left = await run_sized(num_chars, deadline, lambda: [*_termed(prepared, terms)])
    for put, is_for_all in ((_as_words, False), (_as_markers, False), (_as_markers, True)):
        left, loaded = await run_sized(
            num_chars, deadline, _rewritten, left, results, options, pipeline, put, is_for_all
        )
        if not loaded:
            return
        translated = await pipeline.run([again for _, again in loaded])
        for (position, _), result in zip(loaded, translated, strict=True):
            results[position] = result


@dataclass(frozen=True, slots=True)
class _Termed:
    """A sentence with source terms.

    Attributes:
        place: The sentence and its text, for a new translation (`fidelity.Place`).
        sentence: The sentence before any term is replaced.
        tags: Inline tags of the sentence before any term is replaced.
        matches: Source terms in the sentence.
    """

    place: Place
    sentence: str
    tags: Sequence[Tag]
    matches: Sequence[Match]

    def rewritten(self, matches: Sequence[Match], words: Sequence[str]) -> str:
        """Returns the sentence with `words` for source terms, and adapts the places of the tags.

        A word is a target term, or the marker of a target term.
        """
        parts: list[str] = []
        end = 0
        for match, word in zip(matches, words, strict=True):
            parts += (self.sentence[end : match.start], word)
            end = match.end
        changes = [
            (match.end, len(word) - match.end + match.start)
            for match, word in zip(matches, words, strict=True)
        ]
        if self.tags:
            self.place.text.tags[self.place.index] = [
                replace(tag, place=_moved(tag.place, changes), partner=_moved(tag.partner, changes))
                for tag in self.tags
            ]
        return "".join([*parts, self.sentence[end:]])


Put = Callable[[_Termed, Sequence[Match], list[str]], list[str]]
"""Returns the words that replace matches, and adds the spans of these words to the list."""


def _rewritten(
    left: Sequence[_Termed],
    results: Sequence[Result],
    options: DecodingOptions,
    pipeline: PivotPipeline,
    put: Put,
    is_for_all: bool,
) -> tuple[list[_Termed], list[tuple[int, TranslationItem]]]:
    """Rewrites each sentence whose translation does not have all target terms.

    Args:
        left: Sentences with source terms.
        results: Results of the sentences of all texts.
        options: Options of the search.
        pipeline: Makes the work items.
        put: Chooses the words in place of source terms.
        is_for_all: Whether all terms of such a sentence are replaced, or only the terms whose
            target terms are missing.

    Returns:
        The sentences whose target terms are missing, and the position and the tokens of each
        sentence to translate again.
    """
    incomplete: list[_Termed] = []
    texts: dict[int, Prepared] = {}
    sentences: dict[int, dict[int, str]] = defaultdict(dict)
    spans: dict[int, list[str]] = defaultdict(list)
    for one in left:
        missing = lacking(one.matches, _decoded(one.place, results))
        if not missing:
            continue
        incomplete.append(one)
        text, matches = one.place.text, one.matches if is_for_all else missing
        texts[id(text)] = text
        words = put(one, matches, spans[id(text)])
        sentences[id(text)][one.place.index] = one.rewritten(matches, words)
    for key, text in texts.items():
        text.change(sentences[key], spans[key])
    again = [(one.place.position, one.place.load(0, options, pipeline)) for one in incomplete]
    return incomplete, [(position, sentence) for position, sentence in again if sentence]


def _moved(place: int, changes: Sequence[tuple[int, int]]) -> int:
    """Returns a place in a text as an index into the changed text.

    Args:
        place: The place as an index into the text before the changes.
        changes: The end of each replaced term, and the number of characters that the replacement
            added. The number is negative if the text became shorter.
    """
    return place + sum(added for end, added in changes if end <= place)


def _termed(prepared: list[Prepared], terms: Terms) -> Iterator[_Termed]:
    """Yields the sentences with source terms. A term with a tag inside it is left out."""
    position = 0
    for text in prepared:
        for index in range(len(text.sources)):
            place = Place(text, index, position + index)
            tags = text.tags.get(index, [])
            found = [
                match
                for match in terms.find(place.sentence)
                if not any(match.start < tag.place < match.end for tag in tags)
            ]
            if found:
                yield _Termed(place, place.sentence, tags, found)
        position += len(text.sources)


def _decoded(place: Place, results: Sequence[Result]) -> str:
    """Returns the best translation of a sentence, with spans in place of stand-ins."""
    tokenizer = place.text.tokenizers[1]
    decoded = tokenizer.decode(results[place.position].value[0].tokens)
    restored = place.text.carriage.restore(place.index, decoded)
    return decoded if restored is None else place.text.carriage.protected.restore(restored)


def _as_words(one: _Termed, matches: Sequence[Match], spans: list[str]) -> list[str]:
    """Returns the target terms of matches, which need no spans.

    If a source term at the start of the sentence begins with a capital letter, so does the target
    term.
    """
    return [
        capitalized(match.target)
        if one.sentence[match.start].isupper() and not has_words(one.sentence[: match.start])
        else match.target
        for match in matches
    ]


def _as_markers(one: _Termed, matches: Sequence[Match], spans: list[str]) -> list[str]:
    """Returns a marker for each target term, and adds the target terms to the new spans.

    Each term has two spans with consecutive markers: the term itself, and the term with a capital
    letter at its start. If no marker is left for a target term, the result has the target term in
    place of its marker.
    """
    carriage = one.place.text.carriage
    starts_with_capital = next(filter(str.isalpha, one.sentence), "").isupper()
    first = FIRST_MARKER + len(carriage.protected.spans) + len(spans)
    words = []
    for number, match in enumerate(matches):
        marker = first + 2 * number
        if marker + 1 >= FIRST_MARKER + MAX_SPANS:
            words.append(match.target)
            continue
        words.append(chr(marker))
        if starts_with_capital:
            carriage.capitals[chr(marker)] = chr(marker + 1)
    spans += [form for match in matches for form in (match.target, capitalized(match.target))]
    return words
