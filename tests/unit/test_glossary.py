"""Entries of glossaries, and their terms in sentences."""

import time

import pytest

from service.errors import InvalidRequestError
from service.text.glossary import EntriesFormat, Terms, lacking, read_entries, write_tsv


@pytest.mark.parametrize(
    ("text", "entries_format", "expected"),
    [
        ("a\tb", "tsv", {"a": "b"}),
        ("a\tb\r\n\n c d \te, f \n", "tsv", {"a": "b", "c d": "e, f"}),
        ("a,b\nc,d\n", "csv", {"a": "b", "c": "d"}),
        ('"a, ""b""",c\n', "csv", {'a, "b"': "c"}),
        ("a,b,en,pt\n\n", "csv", {"a": "b"}),
        ("猫\tcat", "tsv", {"猫": "cat"}),
    ],
)
def test_entries_are_read(
    text: str, entries_format: EntriesFormat, expected: dict[str, str]
) -> None:
    entries = read_entries(text, entries_format)
    assert entries == expected
    assert read_entries(write_tsv(entries), "tsv") == expected


@pytest.mark.parametrize(
    ("text", "entries_format", "reason"),
    [
        ("", "tsv", "there is no entry"),
        ("\n \n", "tsv", "there is no entry"),
        ("a", "tsv", "line 1: it has 1 columns"),
        ("a\tb\nc,d", "tsv", "line 2: it has 1 columns"),
        ("a\tb\tc", "tsv", "line 1: it has 3 columns"),
        ("a,b,c", "csv", "line 1: it has 3 columns"),
        ("a\tb\na\tc", "tsv", "line 2: the source term a is there twice"),
        ("a\t ", "tsv", "line 1: a term is empty"),
        (" \tb", "tsv", "line 1: a term is empty"),
        ("a\tb\x07", "tsv", r"line 1: 'b\x07' has a control"),
        ("a\u2028c\tb", "tsv", r"line 1: 'a\u2028c' has a control"),
        ("a\t\U000f0000", "tsv", "has a control or private-use"),
        ("a\t" + "é" * 513, "tsv", "line 1: a term has 1026 bytes in UTF-8; the limit is 1024"),
        ("...\tb", "tsv", "line 1: ... has neither a letter nor a digit"),
        ('"a,b', "csv", "line 1: unexpected end of data"),
    ],
)
def test_invalid_entry_is_named(text: str, entries_format: EntriesFormat, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match="^Invalid glossary entries provided$") as caught:
        read_entries(text, entries_format)
    assert reason in caught.value.details


TERMS = Terms(
    {
        "house": "mansão",
        "house boat": "casa flutuante",
        "cat": "felino",
        "US": "EUA",
        "iPhone": "telemóvel",
        "C++": "C mais mais",
        "→": "seta",
        "猫": "cat",
        "ice cream van": "carrinha",
        "मन": "mind",
        "cafe": "bar",
        "can": "lata",
    }
)


def found_in(sentence: str) -> list[tuple[str, str]]:
    """The source terms of a sentence as it has them, and their target terms."""
    return [(sentence[each.start : each.end], each.target) for each in TERMS.find(sentence)]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The house of the cat.", [("house", "mansão"), ("cat", "felino")]),
        ("the cat's house", [("cat", "felino"), ("house", "mansão")]),
        ("cat, cat", [("cat", "felino"), ("cat", "felino")]),
        ("houses, housecat, concat, e-house, house-like, my_cat, cat_1", []),
        ("a house - a cat", [("house", "mansão"), ("cat", "felino")]),
        ("-cat-", [("cat", "felino")]),
        ("A house boat", [("house boat", "casa flutuante")]),
        ("A house\n  boat and house", [("house\n  boat", "casa flutuante"), ("house", "mansão")]),
        ("A house, boat", [("house", "mansão")]),
        ("an ice cream cat", [("cat", "felino")]),
        ("House prices", [("House", "mansão")]),
        ("The White House", [("House", "Mansão")]),
        ("A House Boat", [("House Boat", "Casa flutuante")]),
        ("HOUSE BOAT", [("HOUSE BOAT", "CASA FLUTUANTE")]),
        ("hOUSE", []),
        ("the US told us", [("US", "EUA")]),
        ("Us and Iphone", []),
        ("an iPhone, an IPHONE", [("iPhone", "telemóvel"), ("IPHONE", "TELEMÓVEL")]),
        ("C++ and C+", [("C++", "C mais mais")]),
        ("a → b", [("→", "seta")]),
        ("黒猫が", [("猫", "cat")]),
        ("मन और कामना", [("मन", "mind")]),
        ("cafe and cafe\u0301", [("cafe", "bar")]),
        ("I can, I can't, I can\u2019t, in a can", [("can", "lata"), ("can", "lata")]),
        ('"House boat', [("House boat", "casa flutuante")]),
        ("", []),
    ],
)
def test_whole_words_are_found_the_longest_first(
    sentence: str, expected: list[tuple[str, str]]
) -> None:
    assert found_in(sentence) == expected


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("A mansão do felino.", []),
        ("A Mansão, FELINO", []),
        ("A casa do felino.", ["mansão"]),
        ("A mansãozinha do felino.", ["mansão"]),
        ("O gato.", ["mansão", "felino"]),
    ],
)
def test_missing_target_terms(translation: str, expected: list[str]) -> None:
    matches = TERMS.find("the house of the cat")
    assert [each.target for each in lacking(matches, translation)] == expected


def test_term_is_missing_as_often_as_it_is_too_rare() -> None:
    matches = TERMS.find("a cat, a cat, a house boat")
    missing = lacking(matches, "um felino numa casa flutuante")
    assert [each.target for each in missing] == ["felino"]


def test_word_of_a_translation_counts_for_one_term() -> None:
    terms = Terms({"letter": "carta", "green card": "carta verde"})
    matches = terms.find("a letter and a green card")
    assert [each.target for each in lacking(matches, "uma carta verde")] == ["carta"]
    assert lacking(matches, "uma carta e uma carta verde") == []


def test_large_glossary_is_fast() -> None:
    terms = Terms({f"word{number} of the glossary": "x" for number in range(50_000)})
    assert len(terms.find("word49999 of the glossary " * 1_000)) == 1_000


def test_terms_with_the_same_first_word_are_found_fast() -> None:
    """The products of one brand have such names."""
    terms = Terms({f"Acme {number}": "x" for number in range(50_000)})
    start = time.process_time()
    assert len(terms.find("Acme X and Acme 49999 " * 2_000)) == 2_000
    assert time.process_time() - start < 20


@pytest.mark.parametrize("order", [("turkey", "Turkey"), ("Turkey", "turkey")])
def test_term_with_capitals_goes_before_the_same_word_without(order: tuple[str, str]) -> None:
    targets = {"turkey": "peru", "Turkey": "Turquia"}
    terms = Terms({source: targets[source] for source in order})
    found = [each.target for each in terms.find("I eat turkey in Turkey.")]
    assert found == ["peru", "Turquia"]
