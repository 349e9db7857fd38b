"""Makes translations use the terms of a glossary.

A sentence is translated as it is first. If target terms are missing, they take the place of the
source terms, and the sentence is translated again: models mostly copy such words. At last stand-ins
replace the terms that are still missing, and then all terms of the sentence. Stand-ins always come
back, but take context from the model.
"""

from collections.abc import Iterator, Sequence

from model.sequence import DecodingOptions
from service.items.result import Result
from service.tasks.fidelity import Place
from service.tasks.pivoting import PivotPipeline
from service.tasks.prepared import Prepared
from service.text.protection import FIRST_MARKER, MAX_SPANS
from service.text.segmentation import has_words
from service.text.terms import Match, Terms, capitalized, lacking


async def use_terms(
    prepared: list[Prepared],
    results: list[Result],
    terms: Terms,
    options: DecodingOptions,
    pipeline: PivotPipeline,
) -> None:
    """Translates sentences again until their translations have the target terms.

    A stand-in that does not come through is left to `fidelity.complete`.

    Args:
        prepared: The texts; they get more protected spans.
        results: Results of the sentences of all texts, in order; some are replaced.
        terms: Terms of the glossary.
        options: Options of the search.
        pipeline: Translates sentences.

    Raises:
        ServiceError: The sentences are refused, too late, or failed.
    """
    left = [(place, place.sentence, found) for place, found in _places(prepared, terms)]
    for put, is_for_all in ((_put_words, False), (_put_markers, False), (_put_markers, True)):
        lacks = [lacking(found, _decoded(place, results)) for place, _, found in left]
        left = [one for one, missing in zip(left, lacks, strict=True) if missing]
        wanted = [found for _, _, found in left] if is_for_all else list(filter(None, lacks))
        loaded = []
        for (place, sentence, _), matches in zip(left, wanted, strict=True):
            place.sentence = put(place, sentence, matches)
            if again := place.load(0, options):
                loaded.append((place, again))
        if not loaded:
            return
        translated = await pipeline.run([again for _, again in loaded])
        for (place, _), result in zip(loaded, translated, strict=True):
            results[place.position] = result


def _places(prepared: list[Prepared], terms: Terms) -> Iterator[tuple[Place, list[Match]]]:
    """Yields the sentences with source terms, and their terms."""
    position = 0
    for text in prepared:
        for index in range(len(text.sources)):
            place = Place(text, index, position + index)
            if found := terms.find(place.sentence):
                yield place, found
        position += len(text.sources)


def _decoded(place: Place, results: Sequence[Result]) -> str:
    """Returns the best translation of a sentence, with spans in place of its stand-ins."""
    tokenizer = place.text.tokenizers[1]
    decoded = tokenizer.decode(results[place.position].value[0].tokens)
    restored = place.text.carriage.restore(place.index, decoded)
    return decoded if restored is None else place.text.carriage.protected.restore(restored)


def _put_words(_: Place, sentence: str, matches: Sequence[Match]) -> str:
    """Returns a sentence with target terms in place of source terms."""
    for match in reversed(matches):
        before, after = sentence[: match.start], sentence[match.end :]
        is_capital = sentence[match.start].isupper() and not has_words(before)
        sentence = before + (capitalized(match.target) if is_capital else match.target) + after
    return sentence


def _put_markers(place: Place, sentence: str, matches: Sequence[Match]) -> str:
    """Returns a sentence with markers for target terms, as far as there are markers."""
    carriage = place.text.carriage
    starts_with_capital = next(filter(str.isalpha, sentence), "").isupper()
    spans: list[str] = []
    first = FIRST_MARKER + len(carriage.protected.spans)
    for match in reversed(matches):
        if first + len(spans) + 2 > FIRST_MARKER + MAX_SPANS:
            break
        marker, capital = chr(first + len(spans)), chr(first + len(spans) + 1)
        spans += (match.target, capitalized(match.target))
        if starts_with_capital:
            carriage.capitals[marker] = capital
        sentence = sentence[: match.start] + marker + sentence[match.end :]
    carriage.protected = carriage.protected.extended(spans)
    return sentence
