"""Translates sentences again if their translations are wrong.

A protected span is a part of a text that a model must not change, such as a URL. In a sentence, a
marker (one private-use character) replaces each span. For the model, a stand-in (a short word such
as `XYZ1`) replaces each marker. A carrier is a sentence with stand-ins.

If a stand-in is missing or repeated in the best translation, the sentence is translated again with
other stand-ins. At last, only the parts between its spans are translated. Every span is then
present exactly once.

A guard is a check for wrong translations. If one rejects a translation, the sentence is decoded
again with a larger beam, and a short one also as a list item (`phrases`). The better one is kept.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from model.sequence import Hypothesis
from service.items import Result, TranslationItem
from service.tasks.threads import run_sized
from service.tasks.translation.guards import PLACEHOLDER, is_short, rejecting
from service.tasks.translation.phrases import LONGER_WORDS, Listed, list_items, ranked
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.sentences import Sentence, num_chars
from service.text.carriage import VARIANTS, split_at_markers
from service.text.chunking import ChunkedText, chunk_sentences
from service.text.segmentation import one_sentence
from service.text.tags import insert


async def complete(sentences: Sequence[Sentence], pipeline: PivotPipeline) -> None:
    """Translates sentences with spans again until each best translation has every span once."""
    size, deadline = num_chars(sentences), pipeline.deadline
    left = first = await run_sized(size, deadline, _incomplete, sentences)
    for variant in range(1, len(VARIANTS)):
        if not left:
            break
        loaded, items = await run_sized(size, deadline, load, left, variant, pipeline)
        for sentence, result in zip(loaded, await pipeline.run(items), strict=True):
            sentence.result = result
        left = await run_sized(size, deadline, _incomplete, left)
    if left:
        chunked, items = await run_sized(size, deadline, _cut, left, pipeline)
        translated = await pipeline.run(items)
        await run_sized(size, deadline, _join_parts, left, chunked, translated)
    for sentence in first:
        sentence.record(PLACEHOLDER, sentence.in_parts is not None, pipeline)


async def guard(
    sentences: Sequence[Sentence], pipeline: PivotPipeline, beam_size: int, short_beam_size: int = 0
) -> None:
    """Decodes sentences again if a guard rejects their translations.

    The first translation that the fewest guards reject is kept. If `beam_size` is not larger than
    the first beam, or if a remote model translates, rejected translations only get a warning.
    Unless `short_beam_size` is 0, short sentences are decoded with it, also as list items.
    Sentences that were translated in parts are left out.
    """
    size, deadline = num_chars(sentences), pipeline.deadline
    rejected = await run_sized(size, deadline, _rejected, sentences)
    if not rejected:
        return
    options = pipeline.options
    safer = replace(options, beam_size=beam_size, num_hypotheses=beam_size)
    most = max(beam_size, short_beam_size)
    wider = replace(options, beam_size=most, num_hypotheses=most)
    again = [
        sentence
        for sentence, _ in rejected
        if beam_size > options.beam_size and all(each.has_attention for each in sentence.text.route)
    ]

    def make_items() -> tuple[Listed, list[TranslationItem]]:
        listed = list_items(again, LONGER_WORDS, pipeline, short_beam_size)
        plain = [each.item(pipeline, wider if is_short(each.source) else safer) for each in again]
        return listed, [*plain, *chain.from_iterable(listed.values())]

    listed, items = await run_sized(size, deadline, make_items)
    results = iter(await pipeline.run(items))

    def choose() -> None:
        second = {sentence: next(results).value for sentence in again}
        for sentence, of_list in listed.items():
            found = ranked(sentence, [next(results) for _ in of_list])
            second[sentence] = [*(each.hypothesis for each in found), *second[sentence]]
        for sentence, before in rejected:
            after = before
            if sentence in second:
                value, after = _better(sentence, second[sentence])
                sentence.result = replace(sentence.result, value=value[: options.num_hypotheses])
            for name in dict.fromkeys([*before, *after]):
                sentence.record(name, name in after, pipeline)

    await run_sized(size, deadline, choose)


def load(
    sentences: Sequence[Sentence], variant: int, pipeline: PivotPipeline
) -> tuple[list[Sentence], list[TranslationItem]]:
    """Gives sentences new carriers; returns the sentences that can have one, and their items."""
    loaded = [each for each in sentences if each.load(variant)]
    return loaded, [each.item(pipeline) for each in loaded]


def _rejected(sentences: Sequence[Sentence]) -> list[tuple[Sentence, list[str]]]:
    """Decodes the best translations; returns rejected sentences with the guards' names."""
    rejected = []
    for sentence in sentences:
        if sentence.in_parts is None:
            reading = sentence.reading(sentence.result.value[0])
            sentence.decoded[0] = reading.text
            if names := rejecting(reading):
                rejected.append((sentence, names))
    return rejected


def _better(sentence: Sentence, second: Sequence[Hypothesis]) -> tuple[list[Hypothesis], list[str]]:
    """Chooses between a translation and the translations of a second decoding, best first.

    A translation of the second decoding in which a span is missing is never chosen.

    Returns the chosen hypothesis with the others of the same decoding, and the names of the guards
    that reject it.
    """
    first = sentence.result.value
    read = [sentence.reading(each) for each in (first[0], *second)]
    whole = [each for each in read if sentence.restored(each.text) is not None]
    found = [(rejecting(each), each) for each in whole or read[:1]]
    names, best = min(found, key=lambda pair: len(pair[0]))
    sentence.decoded[0] = best.text
    chosen = best.hypothesis
    others = first[1:] if chosen is first[0] else [each for each in second if each is not chosen]
    return [chosen, *others], names


def _incomplete(sentences: Sequence[Sentence]) -> list[Sentence]:
    return [each for each in sentences if each.restored(each.decode(0)) is None]


def _cut(
    sentences: Sequence[Sentence], pipeline: PivotPipeline
) -> tuple[list[list[ChunkedText]], list[TranslationItem]]:
    """Returns the markers of each sentence with the texts between them, and their items."""
    chunked: list[list[ChunkedText]] = []
    items: list[TranslationItem] = []
    for sentence in sentences:
        text, tokenizer = sentence.text, sentence.text.tokenizers[0]
        tagged = insert(sentence.source, [(tag.place, tag.marker) for tag in sentence.tags])
        parts = [
            chunk_sentences(one_sentence(part), tokenizer, text.max_tokens)
            for part in split_at_markers(tagged)
        ]
        chunked.append(parts)
        for ids in (ids for part in parts for ids in part.sources):
            items.append(pipeline.item([*ids, *tokenizer.source_end], text.route, pipeline.options))
    return chunked, items


def _join_parts(
    sentences: Sequence[Sentence],
    chunked: Sequence[Sequence[ChunkedText]],
    translated: Sequence[Result],
) -> None:
    """Stores the translations of sentences in parts, with the markers in their places."""
    results = iter(translated)
    for sentence, parts in zip(sentences, chunked, strict=True):
        decode = sentence.text.tokenizers[1].decode
        sentence.in_parts = "".join(
            part.segments.join([decode(next(results).value[0].tokens) for _ in part.sources])
            for part in parts
        )
