"""Short phrases are translated as list items, and the number is removed from the translation."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from model.sequence import DecodingOptions, Hypothesis
from service.items import Result, TranslationItem
from service.models.catalog import Catalog
from service.tasks.backend import Lease
from service.tasks.translation import phrases
from service.tasks.translation.fidelity import guard
from service.tasks.translation.guards import GuardWarning
from service.tasks.translation.phrases import COPY_COST, MIN_LOG_PROB, MISSING
from service.tasks.translation.pivoting import PivotPipeline
from service.tasks.translation.sentences import TranslatedText
from service.tasks.translation.translator import TranslationRequest, prepare

GREEDY = DecodingOptions()
BEAM_SIZE = 3
LIMIT = 40  # EOS included

Found = Mapping[str, Sequence[tuple[str, float]]]
"""Maps each source that the model reads to its translations with their log-probabilities."""


class ScriptedPipeline(PivotPipeline):
    """Returns the scripted translations of each source, and records the work items."""

    def __init__(self, catalog: Catalog, found: Found, options: DecodingOptions) -> None:
        super().__init__(cast("Lease", None), options, LIMIT, False, math.inf)
        self.tokenizers = catalog.route("en", "pt")[0].vocabularies
        self.found = found
        self.items: list[TranslationItem] = []

    async def run(self, items: Sequence[TranslationItem]) -> list[Result]:
        self.items += items
        return [Result(self._hypotheses(item), 0.0, 0.0) for item in items]

    def _hypotheses(self, item: TranslationItem) -> list[Hypothesis]:
        """Returns the scripted translations; the number of a list item has the probability 1."""
        hypotheses, tokenizer = [], self.tokenizers.target
        for text, log_prob in self.found[self.read(item)]:
            number = tokenizer.encode("1.") if text.startswith("1. ") else []
            rest = [*tokenizer.encode(text)[len(number) :], tokenizer.eos_id]
            log_probs = [0.0] * len(number) + [log_prob / len(rest)] * len(rest)
            hypotheses.append(Hypothesis([*number, *rest], log_probs))
        return hypotheses

    def read(self, item: TranslationItem) -> str:
        return self.tokenizers.source.decode(item.source)

    @property
    def sources(self) -> list[str]:
        return [*map(self.read, self.items)]


def translated(
    source: str,
    found: Found,
    catalog: Catalog,
    options: DecodingOptions = GREEDY,
    beam_size: int = BEAM_SIZE,
) -> tuple[TranslatedText, ScriptedPipeline]:
    request = TranslationRequest([source], "en", "pt", options)
    text = prepare(request, 0, None, catalog, LIMIT)
    pipeline = ScriptedPipeline(catalog, found, options)

    async def run() -> None:
        await phrases.translate(text.sentences, pipeline, beam_size)
        await guard(text.sentences, pipeline, 2, 2 * beam_size)

    asyncio.run(run())
    text.assemble()
    return text, pipeline


def test_phrase_is_decoded_as_a_list_item_by_a_beam(catalog: Catalog) -> None:
    found = {"1. Thank you": [("1. Obrigado", -1.0), ("1. Muito obrigado", -2.0)]}
    text, pipeline = translated("Thank you", found, catalog)
    assert (text.text, text.alternatives, text.warnings) == ("Obrigado", [], [])
    (item,) = pipeline.items
    expected = DecodingOptions(BEAM_SIZE, BEAM_SIZE, length_penalty=0.0, return_scores=True)
    assert item.options == expected


@pytest.mark.parametrize(
    "source", ["Please close the door", "5 p.m.", "- Yes", "(Yes)", "word" * 30]
)
def test_other_sentences_are_decoded_as_they_are(source: str, catalog: Catalog) -> None:
    text, pipeline = translated(source, {source: [("Sim.", -1.0)]}, catalog)
    assert set(pipeline.sources) <= {source, f"1. {source}"}
    assert pipeline.items[0].options == GREEDY


def test_phrase_is_decoded_as_it_is_without_a_beam(catalog: Catalog) -> None:
    found = {"Thank you": [("Obrigado", -1.0)]}
    text, pipeline = translated("Thank you", found, catalog, beam_size=0)
    assert (text.text, pipeline.sources) == ("Obrigado", ["Thank you"])


def test_phrase_without_a_candidate_is_decoded_as_it_is(catalog: Catalog) -> None:
    found = {"1. Yes": [("Sim", -0.1), ("1.", -1.0)], "Yes": [("Sim", -1.0)]}
    text, pipeline = translated("Yes", found, catalog)
    assert (text.text, pipeline.sources) == ("Sim", ["1. Yes", "Yes"])


def test_rejected_candidate_comes_after_the_others(catalog: Catalog) -> None:
    found = {"1. Bye": [("1. Adeus (o)", -0.5), ("1. Adeus Adeus", -1.0), ("1. Adeus", -1.5)]}
    options = DecodingOptions(num_hypotheses=BEAM_SIZE, beam_size=BEAM_SIZE)
    text, _ = translated("Bye", found, catalog, options)
    assert text.text == "Adeus"
    assert text.alternatives == ["Adeus Adeus"]  # the reply has `Adeus (o)` without its bracket


@pytest.mark.parametrize(
    ("source", "found", "expected"),
    [
        ("yes yes", "Sim sim sim", "Sim sim"),
        ("No no no", "Não não", "Não não não"),
        ("Bye bye", "Adeus", "Adeus Adeus"),
        ("yes, yes", "Sim, sim, sim", "Sim, sim"),
        ("no, no, no", "Não, não", "Não, não, não"),
        ("bye bye", "Adeusinho adeusinho", "Adeusinho adeusinho"),
        ("very very", "Muito bom", "Muito bom"),
        ("very good", "Muito muito", "Muito muito"),
    ],
)
def test_repeated_word_is_repeated_as_often(
    source: str, found: str, expected: str, catalog: Catalog
) -> None:
    scripted = {f"1. {source}": [(f"1. {found}", -0.5)], source: [(found, -0.5)]}
    assert translated(source, scripted, catalog)[0].text.casefold() == expected.casefold()


def test_copy_costs_as_much_as_a_less_probable_translation(catalog: Catalog) -> None:
    for more, expected in ((0.1, "Tchau"), (-0.1, "Bye")):
        log_prob = -0.5 - COPY_COST + more
        found = {"1. Bye": [("1. Bye", -0.5), ("1. Tchau", log_prob)]}
        assert translated("Bye", found, catalog)[0].text == expected


@pytest.mark.parametrize("name", ["README", "AT&T", "iPhone"])
def test_copied_name_costs_nothing(name: str, catalog: Catalog) -> None:
    read = {"README": "Readme", "AT&T": "At&t"}.get(name, name)
    found = {f"1. {read}": [(f"1. {name}", -0.5), (f"1. O {name}", -0.6)]}
    assert translated(name, found, catalog)[0].text == name


def test_title_is_also_read_in_sentence_case(catalog: Catalog) -> None:
    found = {
        "1. Harry Potter": [("1. Harry Potter", -0.2)],
        "1. Harry potter": [("1. Harry oleiro", -0.8), ("1. Harry potter", -1.8)],
    }
    text, pipeline = translated("Harry Potter", found, catalog)
    assert pipeline.sources == [*found]
    assert text.text == "Harry Potter"


def test_candidate_of_one_search_needs_a_much_larger_probability(catalog: Catalog) -> None:
    first, second = -0.2, -1.8
    for more, expected in ((0.1, "Dois"), (-0.1, "Um Dois")):
        both = (first + MISSING) / 2 - more
        found = {
            "1. Red House": [("1. Dois", first), ("1. Um Dois", both)],
            "1. Red house": [("1. Um dois", both), ("1. Casa", second + MISSING)],
        }
        assert translated("Red House", found, catalog)[0].text == expected


def test_improbable_translation_has_a_warning(catalog: Catalog) -> None:
    for more, warnings in ((0.1, []), (-0.1, [GuardWarning(0, "unsure")])):
        found = {"1. Excuse me": [("1. Desculpe", MIN_LOG_PROB + more)]}
        text, pipeline = translated("Excuse me", found, catalog)
        assert (text.text, text.warnings) == ("Desculpe", warnings)
        assert len(pipeline.rejected) == len(warnings)


def test_scores_are_those_of_the_translation_without_the_number(catalog: Catalog) -> None:
    found = {"1. Thank you": [("1. Obrigado", -1.2)]}
    options = DecodingOptions(return_scores=True)
    text, _ = translated("Thank you", found, catalog, options)
    (score,) = text.scores
    assert [each.token for each in score.tokens] == ["▁Obrigado", "</s>"]
    assert score.score == pytest.approx(score.tokens[0].log_prob)


def test_alternatives_are_the_next_candidates(catalog: Catalog) -> None:
    options = DecodingOptions(2, 2)
    found = {"1. Thanks": [("1. Obrigado", -1.0), ("1. Graças", -2.0), ("1. Obrigada", -3.0)]}
    text, _ = translated("Thanks", found, catalog, options)
    assert (text.text, text.alternatives) == ("Obrigado", ["Graças"])


def test_phrase_keeps_its_span_and_its_final_mark(catalog: Catalog) -> None:
    found = {"1. Open XYZ1!": [("1. Abrir!", -0.1), ("1. Abrir XYZ1!", -1.0)]}
    assert translated("Open {name}!", found, catalog)[0].text == "Abrir {name}!"


@pytest.mark.parametrize("ellipsis", ["...", "…", " ..."])
def test_model_reads_no_ellipsis(ellipsis: str, catalog: Catalog) -> None:
    text, _ = translated(f"Open{ellipsis}", {"1. Open": [("1. Abrir", -1.0)]}, catalog)
    assert text.text == f"Abrir{ellipsis.strip()}"


def test_rejected_longer_sentence_is_also_decoded_as_a_list_item(catalog: Catalog) -> None:
    source = "Delete all of them"
    plain = [("Excluir (todos)", -0.1)]
    found = {source: plain, f"1. {source}": [("1. Excluir todos eles", -1.0)]}
    text, pipeline = translated(source, found, catalog)
    assert (text.text, text.warnings) == ("Excluir todos eles", [])
    assert pipeline.sources == [source, source, f"1. {source}"]
    assert [each.options.beam_size for each in pipeline.items] == [1, 2 * BEAM_SIZE, 2 * BEAM_SIZE]
    assert pipeline.rejected == {("en-pt", "bracket", "replaced"): 1}


def test_remote_and_pivoted_phrases_are_decoded_as_they_are(catalog: Catalog) -> None:
    text = prepare(TranslationRequest(["Yes"], "en", "pt", GREEDY), 0, None, catalog, LIMIT)
    (direction,) = text.route
    pipeline = ScriptedPipeline(catalog, {}, GREEDY)
    for route in ((replace(direction, has_attention=False),), (direction, direction)):
        text.route = route
        assert not phrases.list_items(text.sentences, range(1, 4), pipeline, BEAM_SIZE)
