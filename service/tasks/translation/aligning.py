"""Aligns the words of texts with the words of their translations."""

from collections.abc import Iterator, Sequence

from service.items.result import Result
from service.tasks.alignment.aligner import CrossAttention, PairAligner, TranslatedPair
from service.tasks.alignment.alignment import Alignment, align, in_text, moved
from service.tasks.context import RequestContext
from service.tasks.threads import run_sized
from service.tasks.translation.prepared import Prepared, total_chars


async def align_words(
    prepared: Sequence[Prepared],
    results: Sequence[Result],
    aligner: PairAligner,
    context: RequestContext,
    deadline: float,
) -> None:
    """Aligns the words of sentences and their best translations; stores alignments in `prepared`.

    Args:
        prepared: The texts. They have no tags and no protected spans, because a request for an
            alignment accepts no markup and protects nothing.
        results: Results of the sentences of all texts, in order.
        aligner: Finds the attention between the tokens of sentences and translations.
        context: Context of the request.
        deadline: Time by time.perf_counter at which the request fails.
    """
    size = total_chars(prepared)
    pairs = await run_sized(size, deadline, _pairs, prepared, results)
    found = await aligner.attention([pair for of_text in pairs for pair in of_text], context)

    def align_all() -> None:
        remaining = iter(found)
        for text, of_text in zip(prepared, pairs, strict=True):
            text.alignments = _align(text, of_text, remaining)

    await run_sized(size, deadline, align_all)


def _pairs(prepared: Sequence[Prepared], results: Sequence[Result]) -> list[list[TranslatedPair]]:
    """Returns the sentences of each text with their best translations."""
    remaining = iter(results)
    return [
        [text.pair(index, next(remaining).value[0]) for index in range(len(text.sources))]
        for text in prepared
    ]


def _align(
    text: Prepared, pairs: Sequence[TranslatedPair], found: Iterator[CrossAttention]
) -> list[Alignment]:
    """Returns the alignment of each sentence of a text.

    The span of a source word counts code points from the start of the whole text. The span of a
    target word counts code points from the start of the text's whole translation.

    Args:
        text: A text.
        pairs: The sentences of the text with their translations.
        found: Yields the attention of the pairs first, then the attention of later texts. This
            function takes only the attention of the pairs.
    """
    segments = text.segments
    source_starts = segments.starts(segments.sentences)
    target_starts = segments.starts([each.pair.target.text for each in pairs])
    alignments = []
    for each, starts in zip(pairs, zip(source_starts, target_starts, strict=True), strict=True):
        cross, pair = next(found), each.pair
        tokens = align(cross.weights, pair.source, pair.target, cross.shift)
        alignments.append(moved(in_text(tokens, pair.source, pair.target), starts))
    return alignments
