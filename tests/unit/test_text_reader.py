"""Texts as the ids that a model gets."""

from pathlib import Path

import pytest

from model.checkpoints.sentence_transformers import load_tokenizer, read_config, read_folder
from model.text_tokenization import TextTokenizer
from service.catalog import load_embedder
from service.embed_schemas import Direction
from service.text_reader import TextReader
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
    return load_embedder(read_folder(folder)).reader


@pytest.mark.parametrize(
    "text", ["hello world", "  a b ", "unbelievable!", "", " ", "a b c " * 30, "é\n a"]
)
@pytest.mark.parametrize("prompt", ["", "query: "])
def test_ids_are_those_of_the_tokenizer(
    reader: TextReader, tokenizer: TextTokenizer, text: str, prompt: str
) -> None:
    expected = tokenizer.tokenize(text, prompt)
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


def test_lone_token_has_an_end_only(folder: Path) -> None:
    """A translation model has EOS behind a text, and nothing before it."""
    reader = TextReader("en-pt", lambda _, text: [ord(x) for x in text], [], [0], 4, 99, None,
                        False, {}, None)  # fmt: skip
    assert reader.read("abc", "", "right").ids == [97, 98, 99, 0]
    assert reader.read("abcd", "", "left").ids == [98, 99, 100, 0]
    assert reader.read([97, 0], "", "right").ids == [97, 0]
    assert reader.read([0], "", "right").ids == [0]
