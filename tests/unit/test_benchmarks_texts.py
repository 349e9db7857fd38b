"""The texts that the benchmarks of protected spans, tags and glossaries make from sentences."""

import json
import random

import httpx

from benchmarks.fidelity import SPANS, Sample, make_sample
from benchmarks.glossary import choose_terms, use, words_of
from benchmarks.markup import make_fragment, plain, tags_of
from benchmarks.translations import TEXTS_AT_ONCE, translate

SENTENCE = "On Monday, 12 of the 30 planes of Lufthansa could not leave Berlin."


def test_sample_has_its_spans_and_its_words() -> None:
    for number in range(200):
        sample = make_sample(SENTENCE, random.Random(number))
        assert 1 <= len(sample.spans) <= 4
        assert [w for w in sample.text.split(" ") if w in SENTENCE.split(" ")] == SENTENCE.split()
        assert not sample.lost(sample.text)
        for span in sample.spans:
            assert span in SPANS
            assert span in sample.lost(sample.text.replace(span, ""))


def test_span_that_is_doubled_is_lost() -> None:
    sample = Sample("Save {name} now", ("{name}",))
    assert sample.lost("Guardar {name} {name}") == ["{name}"]
    assert not sample.lost("Guardar {name}")


def test_fragment_has_the_words_of_its_sentence() -> None:
    for number in range(50):
        fragment = make_fragment(SENTENCE, number)
        assert plain(fragment.source) == SENTENCE
        assert tags_of(fragment.source).total() > 3


def test_terms_are_the_words_that_occur_together() -> None:
    sources = [words_of(text) for text in ("the house is red", "a house", "his house fell", "red")]
    targets = [words_of(text) for text in ("casa roja aqui", "casa", "casa cayó", "roja")]
    terms = choose_terms(sources, targets, 10, 3)
    assert terms == {"house": "casa"}
    assert use(terms, ["The house, a house.", "Red."], ["A casa.", "Casa."]) == (2, 1)


def test_translations_are_requested_in_parts_and_in_order() -> None:
    sizes = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        sizes.append(len(body["q"]))
        return httpx.Response(200, json={"translatedText": [body["target"] + q for q in body["q"]]})

    texts = [str(number) for number in range(TEXTS_AT_ONCE + 1)]
    with httpx.Client(base_url="http://regard", transport=httpx.MockTransport(answer)) as client:
        assert translate(client, texts, target="pt-") == ["pt-" + text for text in texts]
    assert sizes == [TEXTS_AT_ONCE, 1]
