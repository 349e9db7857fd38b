"""Texts as the ids that a model gets."""

from dataclasses import replace
from pathlib import Path

import pytest

from model.checkpoints.families.sentence_transformers import (
    load_tokenizer,
    read_config,
    read_folder,
)
from model.checkpoints.load import load_vocabularies
from model.checkpoints.load import read_folder as read_translation_folder
from model.tokenization.text import TextTokenizer
from service.models.served import ServedEmbedder, ServedModel
from service.models.text_reader import Direction, Input, TextReader
from tests.hf_files import SENTENCE, write_multilingual, write_pieces
from tests.tiny_text import write_model

CLS, SEP = 1, 2
A, B, C = 9, 10, 11


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> TextTokenizer:
    files = read_folder(folder)
    return load_tokenizer(files, read_config(files))


@pytest.fixture(scope="module")
def reader(folder: Path) -> TextReader:
    return ServedEmbedder.load(read_folder(folder)).reader


@pytest.mark.parametrize(
    "text", ["hello world", "  a b ", "unbelievable!", "", " ", "a b c " * 30, "é\n a"]
)
@pytest.mark.parametrize("prompt", ["", "query: "])
def test_ids_are_those_of_the_tokenizer(
    reader: TextReader, tokenizer: TextTokenizer, text: str, prompt: str
) -> None:
    expected = tokenizer.tokenize(prompt + text)
    found = reader.read(text, prompt, "right")
    assert (found.ids, found.num_tokens) == (expected.tokenized.ids, expected.num_tokens)


def test_special_tokens_are_those_around_a_text(reader: TextReader) -> None:
    assert (reader.before, reader.behind) == ([CLS], [SEP])


@pytest.mark.parametrize(
    ("direction", "kept"), [("right", [A, B, C] * 3 + [A]), ("left", [C] + [A, B, C] * 3)]
)
def test_one_end_is_cut(reader: TextReader, direction: Direction, kept: list[int]) -> None:
    for given in ("a b c " * 5, [A, B, C] * 5):
        found = reader.read(given, "", direction)
        assert found.ids == [CLS, *kept, SEP]
        assert found.num_tokens == 17


@pytest.mark.parametrize(
    ("ids", "read"),
    [
        ([A], [CLS, A, SEP]),
        ([CLS, A, SEP], [CLS, A, SEP]),
        ([CLS, SEP], [CLS, SEP]),
        ([CLS], [CLS, CLS, SEP]),
        ([A, SEP], [CLS, A, SEP, SEP]),
    ],
)
def test_ids_are_put_between_special_tokens_that_are_missing(
    reader: TextReader, ids: list[int], read: list[int]
) -> None:
    found = reader.read(ids, "", "right")
    assert (found.ids, found.num_tokens) == (read, len(read))


def test_prompt_goes_before_ids_too(reader: TextReader) -> None:
    text = reader.read("a", "query: ", "right")
    assert reader.read([A], "query: ", "right") == text
    assert reader.read([CLS, A, SEP], "query: ", "right") == text


@pytest.mark.parametrize(
    ("given", "prompt", "direction", "unpooled"),
    [
        ("a", "query: ", "right", 3),  # [CLS] query :
        ([A], "query: ", "right", 3),
        ("a", "", "right", 0),
        ("", "query: ", "right", 3),
        ("a", "a " * 99, "right", 11),  # [SEP] is left
        ("a b c " * 3, "query: ", "left", 2),  # [CLS] :
        ([A] * 99, "query: ", "left", 1),
        ("a b c " * 9999, "query: ", "left", 1),  # only the end is tokenised
    ],
)
def test_tokens_of_a_prompt_are_counted(
    reader: TextReader, given: Input, prompt: str, direction: Direction, unpooled: int
) -> None:
    found = replace(reader, pools_prompt=False).read(given, prompt, direction)
    assert found.unpooled == unpooled
    assert reader.read(given, prompt, direction) == replace(found, unpooled=0)


def test_lone_token_has_an_end_only(folder: Path) -> None:
    """A translation model has EOS behind a text, and nothing before it."""

    def encode(_prompt: str, text: str, _room: int, _end: Direction) -> tuple[list[int], bool]:
        return [ord(x) for x in text], True

    reader = TextReader("en-pt", encode, [], [0], 4, 99, None, False, {}, None)
    assert reader.read("abc", "", "right").ids == [97, 98, 99, 0]
    assert reader.read("abcd", "", "left").ids == [98, 99, 100, 0]
    assert reader.read([97, 0], "", "right").ids == [97, 0]
    assert reader.read([0], "", "right").ids == [0]


def served_translation(folder: Path) -> ServedModel:
    files = read_translation_folder(folder)
    return ServedModel(files, load_vocabularies(files))


@pytest.fixture(scope="module", params=["m2m", "small"])
def multilingual(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ServedModel:
    folder = tmp_path_factory.mktemp("models") / "many"
    write_multilingual(folder, request.param, ["__de__", "__en__", "__pt__"])
    return served_translation(folder)


def test_language_of_a_multilingual_model_has_to_be_named(multilingual: ServedModel) -> None:
    reader = multilingual.reader(16)
    assert [*reader.languages] == ["de", "en", "pt"]
    assert not reader.with_language("pt").languages


@pytest.mark.parametrize("language", ["de", "en", "pt"])
def test_text_of_a_multilingual_model_is_read_as_a_source(
    multilingual: ServedModel, language: str
) -> None:
    """With the token that its sources of that language, or for that target, begin with."""
    reader = multilingual.reader(128).with_language(language)
    is_source = multilingual.files.tokens is not None and multilingual.files.tokens.begins_target
    other = "en" if language != "en" else "de"
    pair = (language, other) if is_source else (other, language)
    tokenizer = multilingual.direction(*pair).vocabularies.source
    ids = [*tokenizer.encode(SENTENCE), tokenizer.eos_id]
    assert ids[0] == tokenizer.id_of(f"__{language}__")
    for given in (SENTENCE, ids, ids[1:-1]):
        assert reader.read(given, "", "right").ids == ids


@pytest.mark.parametrize("direction", ["left", "right"])
def test_token_of_a_language_is_never_cut_off(
    multilingual: ServedModel, direction: Direction
) -> None:
    reader = multilingual.reader(16).with_language("pt")
    found = reader.read(" ".join([SENTENCE] * 9), "", direction)
    assert len(found.ids) == 16
    assert (found.ids[:1], found.ids[-1:]) == (reader.before, reader.behind)
    assert reader.before == [multilingual.vocabularies.source.id_of("__pt__")]


@pytest.mark.parametrize("name", ["en-fr", "deu_eng-fra"])
def test_model_of_one_target_needs_no_language(tmp_path: Path, name: str) -> None:
    """Its token is put before texts unasked."""
    folder = tmp_path / name
    folder.mkdir()
    write_pieces(folder, [">>fra<<", ">>por<<"])
    (folder / "config.json").write_text('{"model_type": "marian"}', encoding="utf-8")
    (folder / "model.safetensors").touch()
    reader = served_translation(folder).reader(16)
    assert not reader.languages
    assert reader.read(SENTENCE, "", "right").ids[0] == 2
    assert len(reader.before) == 1
