"""Completes translations whose protected spans the model did not copy.

A protected span is a part of a text that a model must not change, such as a URL. In a sentence, a
marker (one private-use character) is in its place. For the model, a stand-in (a short word such as
`XYZ1`) replaces each marker. The sentence with stand-ins is its carrier.

If a stand-in is missing in the best translation, the sentence is translated again with other
stand-ins, and finally in parts, without its spans. In the best translation, every span is therefore
present exactly once, unchanged.
"""

from dataclasses import dataclass, replace

from model.sequence import DecodingOptions
from service.items.result import Result
from service.tasks.translation.pivoting import PivotPipeline, Sentence
from service.tasks.translation.prepared import Prepared
from service.text.chunking import ChunkedText, chunk_sentences
from service.text.segmentation import one_sentence
from service.text.stand_ins import VARIANTS, carry, split_at_markers


@dataclass(slots=True)
class Place:
    """One sentence that may be translated again.

    Attributes:
        text: The text of the sentence.
        index: Index of the sentence in the text.
        position: Index of the sentence's result among the results of all texts.
    """

    text: Prepared
    index: int
    position: int

    @property
    def sentence(self) -> str:
        """The sentence with the markers of its spans, and of the glossary terms found in it."""
        return self.text.segments.sentences[self.index]

    @sentence.setter
    def sentence(self, changed: str) -> None:
        segments = self.text.segments
        sentences = segments.sentences
        segments.sentences = (*sentences[: self.index], changed, *sentences[self.index + 1 :])

    @property
    def tagged_sentence(self) -> str:
        """The sentence with the markers of its spans and of its inline tags."""
        return self.text.tagged_sentence(self.index)

    def is_complete(self, result: Result) -> bool:
        """Returns whether the best translation has each stand-in once, in an accepted order."""
        _, tokenizer = self.text.tokenizers
        decoded = tokenizer.decode(result.value[0].tokens)
        return self.text.carriage.restore(self.index, decoded) is not None

    def load(self, variant: int, options: DecodingOptions) -> Sentence | None:
        """Makes the carrier of the sentence, and returns it for translation.

        The result is None if the sentence already contains such a stand-in, or if the carrier is
        too long for the model.

        Args:
            variant: Index of the spelling of stand-ins in `service.text.stand_ins.VARIANTS`.
            options: Options of the search.
        """
        tokenizer, _ = self.text.tokenizers
        if self.index in self.text.tags:
            options = replace(options, return_attention=True)
        carrier = carry(self.sentence, variant)
        ids = tokenizer.encode(carrier.text) if carrier else []
        if len(ids) > self.text.max_tokens:
            carrier = None
        self.text.carriage.carriers[self.index] = carrier
        return Sentence([*ids, tokenizer.eos_id], self.text.route, options) if carrier else None


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

    Raises:
        ServiceError: The sentences are refused, too late, or failed.
    """
    left = _places(prepared)
    for variant in range(1, len(VARIANTS)):
        left = [place for place in left if not place.is_complete(results[place.position])]
        if not left:
            return results
        again = [sentence for place in left if (sentence := place.load(variant, options))]
        replaced = iter(await pipeline.run(again))
        for place in left:
            if place.text.carriage.carriers[place.index] is not None:
                results[place.position] = next(replaced)
    left = [place for place in left if not place.is_complete(results[place.position])]
    await _translate_parts(left, options, pipeline)
    return results


def _places(prepared: list[Prepared]) -> list[Place]:
    """Returns the sentences with spans."""
    places, position = [], 0
    for text in prepared:
        places += [Place(text, index, position + index) for index in text.carriage.carriers]
        position += len(text.sources)
    return places


async def _translate_parts(
    places: list[Place], options: DecodingOptions, pipeline: PivotPipeline
) -> None:
    """Translates the texts between the markers of sentences, and keeps the markers in place."""
    chunked = [
        [_chunk(part, place.text) for part in split_at_markers(place.tagged_sentence)]
        for place in places
    ]
    sentences = [
        Sentence([*ids, place.text.tokenizers[0].eos_id], place.text.route, options)
        for place, parts in zip(places, chunked, strict=True)
        for part in parts
        for ids in part.sources
    ]
    if not sentences:
        return
    results = iter(await pipeline.run(sentences))
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
