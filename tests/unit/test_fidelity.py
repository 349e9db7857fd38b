"""Sentences whose stand-ins a model drops are translated again, and at last in parts."""

import asyncio
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

from model.sequence import DecodingOptions, Hypothesis
from model.tokenization.tokenizer import Tokenizer
from service.items import Result, TranslationItem
from service.models.catalog import Catalog
from service.tasks.backend import Lease
from service.tasks.translation import fidelity, sentences
from service.tasks.translation.fidelity import complete
from service.tasks.translation.guards import GuardWarning
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.sentences import TranslatedText
from service.tasks.translation.translator import TranslationRequest, prepare
from tests.hf_files import pieces_model

OPTIONS = DecodingOptions()
LIMIT = 61  # EOS included


class FakePipeline(PivotPipeline):
    """Gives each sentence back as a function changes it, and records the sentences."""

    def __init__(self, tokenizer: Tokenizer, change: Callable[[str], str]) -> None:
        super().__init__(cast("Lease", None), OPTIONS, LIMIT, False, math.inf)
        self.tokenizer = tokenizer
        self.change = change
        self.rounds: list[list[str]] = []

    async def run(self, items: Sequence[TranslationItem]) -> list[Result]:
        if not items:
            return []
        texts = [self.tokenizer.decode(item.source) for item in items]
        self.rounds.append(texts)
        ids = [self.tokenizer.encode(self.change(text)) for text in texts]
        return [Result([Hypothesis([*each, 0], [])], 0.0, 0.0) for each in ids]


@pytest.fixture(autouse=True)
def unformatted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The translations keep their capitals and punctuation."""
    monkeypatch.setattr(sentences, "formatted", lambda _, translation, *rest: translation)


def prepared(text: str, catalog: Catalog) -> TranslatedText:
    """Returns a text of one sentence."""
    request = TranslationRequest([text], "en", "pt", OPTIONS, split_sentences=False)
    return prepare(request, 0, None, catalog, LIMIT)


async def completed(texts: Sequence[TranslatedText], pipeline: PivotPipeline) -> None:
    found = [sentence for text in texts for sentence in text.sentences]
    results = await pipeline.run([sentence.item(pipeline) for sentence in found])
    for sentence, result in zip(found, results, strict=True):
        sentence.result = result
    await complete([each for each in found if each.has_spans], pipeline)
    for text in texts:
        text.assemble()


def translated(
    texts: list[str], catalog: Catalog, change: Callable[[str], str]
) -> tuple[list[str], list[list[str]]]:
    pipeline = FakePipeline(catalog.route("en", "pt")[0].vocabularies.source, change)
    whole = [prepared(text, catalog) for text in texts]
    asyncio.run(completed(whole, pipeline))
    return [text.text for text in whole], pipeline.rounds


def test_copied_stand_ins_need_one_round(catalog: Catalog) -> None:
    texts = ["Hello {name}, how are you?", "No spans here.", "Say {a} to {b}."]
    found, rounds = translated(texts, catalog, lambda text: text)
    assert found == texts
    assert len(rounds) == 1


def test_only_sentences_without_a_stand_in_are_translated_again(catalog: Catalog) -> None:
    texts = ["Hello {name}, how are you?", "Say {a} to {b}."]
    found, rounds = translated(texts, catalog, lambda text: text.replace("XYZ2", ""))
    assert found == texts
    assert rounds[1:] == [["Say A1B to A2B."]]


def test_sentence_is_at_last_translated_in_parts(catalog: Catalog) -> None:
    texts = ["Hello {name}, how are you {today}?"]
    drop = re.compile(r"XYZ\d|A\dB|\(\d\)")
    found, rounds = translated(texts, catalog, lambda text: drop.sub("", text))
    assert found == texts
    assert rounds[-1] == ["Hello", ", how are you"]


def test_sentence_in_parts_has_a_warning_and_sentence_with_other_stand_ins_has_none(
    catalog: Catalog,
) -> None:
    pipeline = FakePipeline(catalog.route("en", "pt")[0].vocabularies.source, lambda text: text)
    dropped = {"Hello {name}, how are you?": r"XYZ\d|A\dB|\(\d\)", "Say {a} to {b}.": r"XYZ\d"}
    warnings = []
    for sentence, drop in dropped.items():
        pipeline.change = lambda text, drop=drop: re.sub(drop, "", text)  # type: ignore[misc]
        text = prepared(sentence, catalog)
        asyncio.run(completed([text], pipeline))
        warnings.append(text.warnings)
    assert warnings == [[GuardWarning(0, "placeholder")], []]
    assert pipeline.rejected == {
        ("en-pt", "placeholder", "kept"): 1,
        ("en-pt", "placeholder", "replaced"): 1,
    }


def test_sentence_that_has_the_stand_ins_itself_keeps_them(catalog: Catalog) -> None:
    texts = ["XYZ1 or A1B or (1): {x} is mine."]
    found, _ = translated(texts, catalog, lambda text: text)
    assert found == texts


def test_symbols_at_the_ends_do_not_reach_the_model(catalog: Catalog) -> None:
    found, rounds = translated(["🎉 It is cold today ❄️"], catalog, lambda text: text)
    assert found == ["🎉 It is cold today ❄️"]
    assert rounds == [["It is cold today"]]


def test_long_sentence_with_a_part_of_only_markers_comes_back(catalog: Catalog) -> None:
    text = "The old house " * 20 + "{name} " * 60 + "."
    for change in (lambda text: text, lambda text: text.replace("XYZ", "")):
        found, _ = translated([text], catalog, change)
        assert found == [text]


def test_long_texts_are_carried_and_cut_outside_the_event_loop(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Counter[tuple[str, bool]]()

    def counted(module: ModuleType, name: str) -> None:
        function = getattr(module, name)

        def count(*args: object) -> object:
            threads[name, threading.current_thread() is threading.main_thread()] += 1
            return function(*args)

        monkeypatch.setattr(module, name, count)

    counted(sentences, "carry")
    counted(fidelity, "split_at_markers")
    text = "Give {a} to {b} and {c} now, please."
    found, _ = translated([text] * 300, catalog, lambda _: "nothing")
    assert len(found) == 300
    in_the_request = threads.pop(("carry", True))  # `prepared` runs here
    assert in_the_request == 300
    assert threads == {("carry", False): 600, ("split_at_markers", False): 300}


@pytest.mark.parametrize(
    ("text", "spans"), [("Zayat sees the tree", ()), ("the Zorn sees Zayat", ("Zorn",))]
)
def test_words_of_one_piece_reach_the_model_as_they_are(
    text: str,
    spans: tuple[str, ...],
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The vocabulary has `Zayat`, and not the letters `Z` and `y`."""
    path = tmp_path / "words.spm"
    path.write_bytes(pieces_model(("Zayat sees the tree",), 60, model_type="word"))
    words = Tokenizer(path)
    (direction,) = catalog.route("en", "pt")
    own = replace(direction, vocabularies=replace(direction.vocabularies, source=words))
    monkeypatch.setattr(catalog, "route", lambda *_: (own,))
    whole = prepared(text, catalog)
    assert whole.protected.spans == spans
    if not spans:
        assert [each.ids for each in whole.sentences] == [[*words.encode(text), words.eos_id]]
