"""Wrong translations are found, decoded again, and reported if no better translation is found."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from unittest.mock import patch

import pytest

from model.sequence import DecodingOptions, Hypothesis
from service.items import Result, TranslationItem
from service.metrics.figures import GUARDS as GUARD_LABELS
from service.models.catalog import Catalog
from service.models.served import Direction
from service.tasks.backend import Lease
from service.tasks.translation import guards
from service.tasks.translation.fidelity import guard
from service.tasks.translation.guards import (
    GUARDS,
    PLACEHOLDER,
    SHORT_GUARDS,
    UNSURE,
    GuardWarning,
    Reading,
    changes_numbers,
    has_loop,
    rejecting,
)
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.sentences import TranslatedText
from tests.unit.test_fidelity import prepared

GREEDY = DecodingOptions()
SOURCE = "The committee met on 12 May 2020 to discuss the budget of the city."
GOOD = "A comissão reuniu-se em 12 de maio de 2020 para discutir o orçamento da cidade."
LOOP = "A comissão" + " do orçamento de 12 e 2020" * 4
NO_NUMBER = "A comissão reuniu-se em 12 de maio para discutir o orçamento da cidade."


@pytest.fixture(scope="module")
def route(catalog: Catalog) -> tuple[Direction, ...]:
    return catalog.route("en", "pt")


def hypothesis(text: str, route: tuple[Direction, ...]) -> Hypothesis:
    tokenizer = route[0].vocabularies.target
    return Hypothesis([*tokenizer.encode(text), tokenizer.eos_id])


def rejections(source: str, text: str, route: tuple[Direction, ...]) -> list[str]:
    tokenizer = route[0].vocabularies.source
    ids = [*tokenizer.encode(source), tokenizer.eos_id]
    return rejecting(Reading(ids, source, hypothesis(text, route), text, tokenizer.eos_id))


def test_metrics_name_the_guards() -> None:
    assert GUARD_LABELS == (*GUARDS, *SHORT_GUARDS, PLACEHOLDER, UNSURE)


@pytest.mark.parametrize(
    ("source", "text", "guards"),
    [
        (SOURCE, GOOD, []),
        (SOURCE, LOOP, ["loop"]),
        (SOURCE, NO_NUMBER, ["digits"]),
        (SOURCE, SOURCE, ["copy"]),
        (SOURCE, SOURCE.upper(), ["copy"]),
        (SOURCE, " ".join([GOOD] * 4), ["length"]),
        ("New York Times", "New York Times", []),
        ("No, no, no, no, no, no, no, no!", "Não, não, não, não, não, não, não, não!", []),
        ("It costs 1,500 dollars.", "Custa 1.500 dólares.", []),
        ("It costs 24,000 dollars at 11:00.", "Custa 24 mil dólares às 11h.", []),
        ("It costs 1,500 dollars.", "Custa 15 dólares.", ["digits"]),
        ("It is of the 19th century.", "É do século XIX.", []),
        ("It is of the 19th century.", "É do século XXIX.", ["digits"]),
        ("It costs 54 dollars.", "Custa XXXXIV dólares.", ["digits"]),
        ("It costs ١٢ dollars.", "Custa 12 dólares.", []),
        ("It costs ٠١٢ dollars.", "Custa XII dólares.", []),
        ("It costs ٠٠ dollars.", "Custa zero dólares.", []),
        ("It costs 5 dollars.", "Custa 15 dólares.", ["digits"]),
        ("It costs 15 dollars.", "Custa 1 ou 5 dólares.", ["digits"]),
        ("Rooms 17 and 17.", "Quartos 17.", ["digits"]),
        ("It is 291,773 miles.", "São 29.773 milhas.", ["digits"]),
        ("It weighs 1,234.5 kg.", "Pesa 1,234,5 kg.", ["digits"]),
        ("It weighs 1,234.5 kg.", "Pesa 1.234,5 kg.", []),
        ("On 1.234.5 we met.", "Em 1.234.5 nos vimos.", []),
        ("It has 12 rooms.", "Tem 12 quartos e 4.731 portas.", ["digits"]),
        ("It has 12 rooms and a hundred doors.", "Tem 12 quartos e 100 portas.", []),
        ("About 9 thousand of 24 thousand", "Cerca de 9.000 de 24.000", []),
        ("It made 1.5 million.", "Fez 1.500.000.", []),
        ("It made 1,500,000 in 3 days.", "Fez 1,5 milhão em 3 dias.", []),
        ("In the 1990s, 10 of them left.", "Nos anos 90, 10 deles saíram.", []),
        ("Come at 5 p.m. or 6:30 p.m.", "Venha às 17:00 ou 18:30.", []),
        ("Come at 5.", "Venha às 17.", ["digits"]),
        ("1 of 345 came.", "1 de 12.345 vieram.", ["digits"]),
        ("5 p.m.", "17:00", []),
        ("Bye", "Bye (", ["bracket"]),
        ("changelog", "changelog (de mudança)", ["bracket"]),
        ("changelog", "changelog [de mudança]", ["bracket"]),
        ("Bye", "再见（", ["bracket"]),
        ("%n file(s) copied", "Arquivo %n) copiado", ["bracket"]),
        ("%n file(s) copied", "%n arquivo copiado", []),
        ("Page (one) [two]", "Página (um) dois]", ["bracket"]),
        ("Open file (read-only)", "Abrir arquivo (só leitura)", []),
        ("Bye :-)", "Tchau :-)", []),
        (SOURCE, GOOD.replace(" para", " (para)"), []),
        ("sim sim", "yes yes yes", ["repeat"]),
        ("sim sim", "yes yes", []),
        ("no, no, no", "não, não, não, não", ["repeat"]),
        ("Olá", "Hello, the hello", ["repeat"]),
        ("Hard disk temperature", "Temperatura de disco de metal", []),
        ("S. Paulo", "S. S. Paul Paul", ["repeat"]),
        ("Thanks", "谢谢", []),
        ("Obrigada!", "Thank you for sharing!", ["words"]),
        ("mountable", "pode ser montado", []),
        ("Unnamed playlist", "Lista de reprodução sem nome", []),
        ("Donaudampfschifffahrt", "Passeio de barco a vapor", []),
        ("open the file now", "open the file now", ["copy"]),
        ("Arquivo não encontrado", "404 - Page not found", ["digits"]),
        ("Página cento e um", "Page 101", []),
        ("Cem gatos bonitos", "100 beautiful cats", []),
        ("Rio Grande do Sul", "Rio Grande do Sul", []),
        ("README", "README", []),
        ("Open directory", "Open directory", []),
    ],
)
def test_guards_reject_wrong_translations(
    source: str, text: str, guards: list[str], route: tuple[Direction, ...]
) -> None:
    assert rejections(source, text, route) == guards


@pytest.mark.parametrize("number", ["9" * 5_000, "٩" * 5_000, "0" * 5_000 + "9" * 5_000])
def test_very_long_number_is_checked(number: str) -> None:
    """Python refuses to convert more than 4,300 digits to an int."""
    texts = {number: False, "9" * 5_000: False, "9" * 4_999: True, "Muito.": True}
    for text, is_changed in texts.items():
        assert changes_numbers(Reading([1], number, Hypothesis([1]), text, 0)) == is_changed


def test_many_changed_numbers_are_not_compared_one_by_one() -> None:
    source, text = (" ".join(map(str, range(first, 100_000, 2))) for first in (1_000, 1_001))
    with patch.object(guards, "_is_same", side_effect=AssertionError):
        assert changes_numbers(Reading([1], source, Hypothesis([1]), text, 0))


def test_translation_without_an_end_is_too_long(route: tuple[Direction, ...]) -> None:
    ids = route[0].vocabularies.source.encode(SOURCE)
    for end, names in (([0], []), ([], ["length"])):
        reading = Reading(ids, SOURCE, Hypothesis([*range(5, 15), *end]), GOOD, 0)
        assert rejecting(reading) == names


@pytest.mark.parametrize("period", [1, 2, 3, 5, 16])
def test_loop_of_each_period_is_found(period: int) -> None:
    phrase = list(range(100, 100 + period))
    times = max(3, 6 // period + 1)
    assert has_loop([*range(20), *phrase * times, *range(20)])
    assert not has_loop([*range(20), *phrase * 2, *range(20)])


class Redecoding(PivotPipeline):
    """Gives each sentence the same translations, and records the sentences.

    Args:
        hypotheses: Translations of a sentence, best first.
    """

    def __init__(self, hypotheses: Sequence[Hypothesis], options: DecodingOptions) -> None:
        self.hypotheses = [*hypotheses]
        super().__init__(cast("Lease", None), options, 100, False, math.inf)
        self.sentences: list[TranslationItem] = []

    async def run(self, items: Sequence[TranslationItem]) -> list[Result]:
        self.sentences += items
        return [Result(self.hypotheses, 0.0, 0.0) for _ in items]


def guarded(
    first: list[str],
    second: list[str],
    catalog: Catalog,
    options: DecodingOptions = GREEDY,
    source: str = SOURCE,
    is_remote: bool = False,
) -> tuple[TranslatedText, list[str], Redecoding]:
    """Returns a text, its translations, and what the second decoding received."""
    route = catalog.route("en", "pt")
    text = prepared(source, catalog)
    text.route = (replace(route[0], has_attention=not is_remote),)
    pipeline = Redecoding([hypothesis(each, route) for each in second], options)
    (sentence,) = text.sentences
    sentence.result = Result([hypothesis(each, route) for each in first], 0.0, 0.0)
    asyncio.run(guard(text.sentences, pipeline, 4))
    found = [sentence.decode(rank) for rank in range(len(sentence.result.value))]
    return text, found, pipeline


def test_good_translation_is_decoded_once(catalog: Catalog) -> None:
    text, found, pipeline = guarded([GOOD], [], catalog)
    assert (found, text.warnings, pipeline.sentences, pipeline.rejected) == ([GOOD], [], [], {})


def test_loop_is_decoded_again_with_a_beam(catalog: Catalog) -> None:
    text, found, pipeline = guarded([LOOP], [NO_NUMBER, GOOD], catalog)
    (sentence,) = pipeline.sentences
    assert sentence.source == text.sentences[0].ids
    assert sentence.options == replace(GREEDY, beam_size=4, num_hypotheses=4)
    assert found == [GOOD]
    assert not text.warnings
    assert pipeline.rejected == {("en-pt", "loop", "replaced"): 1}


def test_first_translation_is_kept_if_no_other_is_better(catalog: Catalog) -> None:
    text, found, pipeline = guarded([NO_NUMBER], [LOOP, LOOP + " 5"], catalog)
    assert found == [NO_NUMBER]
    assert text.warnings == [GuardWarning(0, "digits")]
    assert pipeline.rejected == {("en-pt", "digits", "kept"): 1}


def test_number_of_alternatives_stays(catalog: Catalog) -> None:
    options = DecodingOptions(beam_size=2, num_hypotheses=2)
    _, found, _ = guarded([LOOP, LOOP + " a"], [NO_NUMBER, GOOD, LOOP], catalog, options)
    assert found == [GOOD, NO_NUMBER]


@pytest.mark.parametrize(
    ("beam_size", "is_remote"), [(4, False), (1, True)], ids=["large beam", "remote model"]
)
def test_rejected_translation_only_gets_a_warning(
    beam_size: int, is_remote: bool, catalog: Catalog
) -> None:
    options = DecodingOptions(beam_size=beam_size)
    text, found, pipeline = guarded([LOOP], [GOOD], catalog, options, is_remote=is_remote)
    assert (found, pipeline.sentences) == ([LOOP], [])
    assert text.warnings == [GuardWarning(0, "loop")]


def test_candidate_without_a_placeholder_is_not_chosen(catalog: Catalog) -> None:
    whole = "Olá XYZ1" + ", como" * 9
    dropped = "Olá, como vai hoje?"
    source = "Hello {name}, how are you on this day?"
    text, found, _ = guarded([whole], [dropped], catalog, source=source)
    assert found == [whole]
    assert [each.guard for each in text.warnings] == ["loop"]
