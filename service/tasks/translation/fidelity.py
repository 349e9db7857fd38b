"""Translates sentences again if their translations are wrong.

A protected span is a part of a text that a model must not change, such as a URL. In a sentence, a
marker (one private-use character) replaces each span. For the model, a stand-in (a short word such
as `XYZ1`) replaces each marker. A carrier is a sentence with stand-ins.

If a stand-in is missing or repeated in the best translation, the sentence is translated again with
other stand-ins. If this does not help, only the parts between its spans are translated. In the best
translation, every span is therefore present exactly once, unchanged.

A guard is a check for wrong translations, such as loops. If a guard rejects a translation, the
sentence is decoded again with a larger beam. The better translation is kept.
"""

from dataclasses import dataclass, replace

from model.sequence import DecodingOptions, Hypothesis
from service.items.result import Result
from service.items.translation import TranslationItem
from service.tasks.threads import run_sized
from service.tasks.translation.guards import PLACEHOLDER, GuardWarning, Reading, rejecting
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.prepared import Prepared, total_chars
from service.text.carriage import VARIANTS, carried, split_at_markers
from service.text.chunking import ChunkedText, chunk_sentences
from service.text.segmentation import one_sentence


@dataclass(slots=True)
class Place:
    """One sentence that may be translated again.

    Attributes:
        text: The text that contains the sentence.
        index: Index of the sentence in the text.
        position: Index of the sentence's result among the results of all texts.
    """

    text: Prepared
    index: int
    position: int

    @property
    def sentence(self) -> str:
        """The sentence with markers for its spans; `terminology` may have replaced terms in it."""
        return self.text.segments.sentences[self.index]

    @property
    def tagged_sentence(self) -> str:
        """The sentence with the markers of its spans and of its inline tags."""
        return self.text.tagged_sentence(self.index)

    def is_complete(self, result: Result) -> bool:
        """Returns whether the best translation has each stand-in exactly once.

        In markup, the stand-ins of inline tags must also be in the order of the source.
        """
        _, tokenizer = self.text.tokenizers
        decoded = tokenizer.decode(result.value[0].tokens)
        return self.text.carriage.restore(self.index, decoded) is not None

    def load(
        self, variant: int, options: DecodingOptions, pipeline: PivotPipeline
    ) -> TranslationItem | None:
        """Stores a carrier of the sentence, and returns the work item with the carrier's tokens.

        The result is None if the sentence already contains one of the carrier's stand-ins, or if
        the carrier is too long for the model. In these two cases, the stored carrier is None.

        Args:
            variant: Index of the spelling of stand-ins in `service.text.carriage.VARIANTS`.
            options: Options of the search.
            pipeline: Makes the work item.
        """
        tokenizer, _ = self.text.tokenizers
        if self.index in self.text.tags:
            options = replace(options, return_attention=True)
        num_tags = len(self.text.tags.get(self.index, ()))
        carrier, ids = carried(self.sentence, num_tags, variant, tokenizer, self.text.max_tokens)
        self.text.carriage.carriers[self.index] = carrier
        if carrier is None:
            return None
        return pipeline.item([*ids, tokenizer.eos_id], self.text.route, options)

    @property
    def is_local(self) -> bool:
        return all(direction.has_attention for direction in self.text.route)

    def loaded(self, options: DecodingOptions, pipeline: PivotPipeline) -> TranslationItem:
        """Returns the sentence as the model read it most recently, with other options."""
        ids = self.text.sources[self.index]
        if carrier := self.text.carriage.carriers.get(self.index):
            tokenizer, _ = self.text.tokenizers
            ids = [*tokenizer.encode(carrier.text), tokenizer.eos_id]
        return pipeline.item(ids, self.text.route, options)

    def read(self, hypothesis: Hypothesis) -> Reading:
        """Returns the sentence and a translation, as the guards read them."""
        _, tokenizer = self.text.tokenizers
        decoded = tokenizer.decode(hypothesis.tokens)
        ids, source = self.text.sources[self.index], self.text.loaded_sentence(self.index)
        return Reading(ids, source, hypothesis, decoded, tokenizer.eos_id)

    def better(
        self, first: list[Hypothesis], second: list[Hypothesis]
    ) -> tuple[list[Hypothesis], list[str]]:
        """Chooses between a translation and the translations of a second decoding.

        If a span is missing in a translation of the second decoding, this translation is never
        chosen.

        Args:
            first: Hypotheses of the first decoding, best first.
            second: Hypotheses of the second decoding, best first.

        Returns:
            Two lists. The first has the chosen hypothesis, then the other hypotheses of the same
            decoding. The second has the names of the guards that reject the chosen hypothesis.
        """
        read = [self.read(each) for each in (first[0], *second)]
        whole = [
            each for each in read if self.text.carriage.restore(self.index, each.text) is not None
        ]
        found = [(rejecting(each), each) for each in whole or read[:1]]
        names, best = min(found, key=lambda pair: len(pair[0]))
        self.text.decoded[self.index] = best.text
        chosen = best.hypothesis
        others = (
            first[1:] if chosen is first[0] else [each for each in second if each is not chosen]
        )
        return [chosen, *others], names

    def record(self, name: str, is_kept: bool, pipeline: PivotPipeline) -> None:
        """Counts a rejected translation, and adds a warning if `is_kept` is true.

        Args:
            name: Name of the guard that rejected the first translation or the chosen one.
            is_kept: Whether this guard rejects the chosen translation. For the guard PLACEHOLDER:
                whether the sentence was translated in parts.
            pipeline: Counts the rejected translations.
        """
        outcome = "kept" if is_kept else "replaced"
        pipeline.rejected[self.text.route[-1].name, name, outcome] += 1
        if is_kept:
            self.text.warnings.append(GuardWarning(self.index, name))


async def complete(
    prepared: list[Prepared],
    results: list[Result],
    options: DecodingOptions,
    pipeline: PivotPipeline,
) -> list[Result]:
    """Translates sentences again until each best translation has every span exactly once.

    Args:
        prepared: The texts. Their carriers may be replaced.
        results: Results of the sentences of all texts, in order; some are replaced.
        options: Options of the search.
        pipeline: Translates sentences.
    """
    places = _places(prepared)
    if not places:
        return results
    num_chars, deadline = sum([len(place.sentence) for place in places]), pipeline.deadline
    left = first = await run_sized(num_chars, deadline, _incomplete, places, results)
    for variant in range(1, len(VARIANTS)):
        if not left:
            break
        again = await run_sized(num_chars, deadline, _loaded, left, variant, options, pipeline)
        replaced = iter(await pipeline.run(again))
        for place in left:
            if place.text.carriage.carriers[place.index] is not None:
                results[place.position] = next(replaced)
        left = await run_sized(num_chars, deadline, _incomplete, left, results)
    if left:
        chunked, sentences = await run_sized(num_chars, deadline, _cut, left, options, pipeline)
        translated = await pipeline.run(sentences)
        await run_sized(num_chars, deadline, _join_parts, left, chunked, translated)
    for place in first:
        place.record(PLACEHOLDER, place.index in place.text.carriage.parts, pipeline)
    return results


async def guard(
    prepared: list[Prepared],
    results: list[Result],
    options: DecodingOptions,
    pipeline: PivotPipeline,
    beam_size: int,
) -> None:
    """Decodes sentences again if a guard rejects their translations.

    The translation that the fewest guards reject is kept. If several translations are rejected by
    equally few guards, the first one is kept. Sentences that were translated in parts are left out.

    Args:
        prepared: The texts. They receive the decoded translations and the warnings.
        results: Results of the sentences of all texts, in order; some are replaced.
        options: Options of the first decoding.
        pipeline: Translates sentences.
        beam_size: Beam size of the second decoding. If it is not larger than the first beam, or if
            a remote model translates, rejected translations only get a warning.
    """
    num_chars, deadline = total_chars(prepared), pipeline.deadline
    rejected = await run_sized(num_chars, deadline, _rejected, prepared, results)
    if not rejected:
        return
    safer = replace(options, beam_size=beam_size, num_hypotheses=beam_size)
    again = [place for place, _ in rejected if beam_size > options.beam_size and place.is_local]

    def load() -> list[TranslationItem]:
        return [each.loaded(safer, pipeline) for each in again]

    loaded = await run_sized(num_chars, deadline, load)
    found = await pipeline.run(loaded)

    def choose() -> None:
        second = {place.position: result for place, result in zip(again, found, strict=True)}
        for place, before in rejected:
            after, result = before, results[place.position]
            if place.position in second:
                value, after = place.better(result.value, second[place.position].value)
                results[place.position] = replace(result, value=value[: options.num_hypotheses])
            for name in dict.fromkeys([*before, *after]):
                place.record(name, name in after, pipeline)

    await run_sized(num_chars, deadline, choose)


def _rejected(prepared: list[Prepared], results: list[Result]) -> list[tuple[Place, list[str]]]:
    """Converts the best translations to text; returns rejected sentences with the guards' names."""
    rejected = []
    remaining = enumerate(results)
    for text in prepared:
        for index in range(len(text.sources)):
            position, result = next(remaining)
            if index in text.carriage.parts:
                continue
            place = Place(text, index, position)
            reading = place.read(result.value[0])
            text.decoded[index] = reading.text
            if names := rejecting(reading):
                rejected.append((place, names))
    return rejected


def _incomplete(places: list[Place], results: list[Result]) -> list[Place]:
    """Returns the sentences whose best translations are not complete (`Place.is_complete`)."""
    return [place for place in places if not place.is_complete(results[place.position])]


def _places(prepared: list[Prepared]) -> list[Place]:
    """Returns the sentences with spans."""
    places, position = [], 0
    for text in prepared:
        places += [Place(text, index, position + index) for index in text.carriage.carriers]
        position += len(text.sources)
    return places


def _loaded(
    places: list[Place], variant: int, options: DecodingOptions, pipeline: PivotPipeline
) -> list[TranslationItem]:
    found = [place.load(variant, options, pipeline) for place in places]
    return [item for item in found if item]


def _cut(
    places: list[Place], options: DecodingOptions, pipeline: PivotPipeline
) -> tuple[list[list[ChunkedText]], list[TranslationItem]]:
    """Returns the markers of each sentence with the texts between them, and these texts' tokens."""
    chunked = [
        [_chunk(part, place.text) for part in split_at_markers(place.tagged_sentence)]
        for place in places
    ]
    sentences = [
        pipeline.item([*ids, place.text.tokenizers[0].eos_id], place.text.route, options)
        for place, parts in zip(places, chunked, strict=True)
        for part in parts
        for ids in part.sources
    ]
    return chunked, sentences


def _join_parts(
    places: list[Place], chunked: list[list[ChunkedText]], translated: list[Result]
) -> None:
    """Stores the translations of sentences in `Carriage.parts`, with the markers in their places.

    The results of the sentences are not changed.
    """
    results = iter(translated)
    for place, parts in zip(places, chunked, strict=True):
        _, tokenizer = place.text.tokenizers
        texts = [
            part.segments.join(
                [tokenizer.decode(next(results).value[0].tokens) for _ in part.sources]
            )
            for part in parts
        ]
        place.text.carriage.parts[place.index] = "".join(texts)


def _chunk(part: str, text: Prepared) -> ChunkedText:
    """Cuts a part of a sentence into pieces that do not exceed the token limit."""
    return chunk_sentences(one_sentence(part), text.tokenizers[0], text.max_tokens)
