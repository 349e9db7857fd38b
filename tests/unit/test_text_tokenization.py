"""Texts as embedding models get them: special tokens, places, cutting."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, processors

from model.errors import CheckpointFormatError
from model.tokenization.text import FIRST_CHARS, TextTokenizer
from tests.tiny_text import tokenizer

HELLO, WORLD, UNKNOWN = 7, 8, 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """With padding and cutting of its own, which are not ours to follow."""
    made = tokenizer()
    made.enable_padding(length=20)
    made.enable_truncation(3)
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_tokens_have_places_in_code_points(path: Path) -> None:
    text = " \n hello  \U0001f600 unbelievable "
    tokens = TextTokenizer(path, 12).tokenize(text)
    assert tokens.tokenized.ids == [1, HELLO, UNKNOWN, 4, 5, 6, 2]
    places = [text[first:last] for first, last in tokens.tokenized.offsets]
    assert places == ["", "hello", "\U0001f600", "un", "believ", "able", ""]
    assert tokens.tokenized.offsets[-1] == (24, 24)
    assert tokens.tokenized.special == [True] + [False] * 5 + [True]
    assert tokens.num_tokens == len(tokens.tokenized.ids)


def test_what_is_more_is_cut_off_and_counted(path: Path) -> None:
    found = TextTokenizer(path, 6)
    for words, kept in [(3, 3), (4, 4), (5, 4), (11, 4)]:
        tokens = found.tokenize("hello " * words)
        assert tokens.tokenized.ids == [1, *[HELLO] * kept, 2]
        assert tokens.num_tokens == words + 2
        assert (tokens.num_tokens > len(tokens.tokenized.ids)) == (words > 4)
    assert found.tokenize("hello " * 11).num_tokens == 13


def test_prompt_stands_before_the_text(path: Path) -> None:
    ids, is_all = TextTokenizer(path, 12).encode(" query: ", "  hello world")
    assert (ids, is_all) == ([13, 14, HELLO, WORLD], True)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_text_of_nothing_has_special_tokens_alone(path: Path, text: str) -> None:
    tokens = TextTokenizer(path, 12).tokenize(text)
    assert tokens.tokenized.ids == [1, 2]
    assert tokens.tokenized.offsets == [(0, 0), (0, 0)]


def test_lower_case_comes_before_the_files_own_rules(path: Path) -> None:
    assert TextTokenizer(path, 12).tokenize("Hello").tokenized.ids == [1, UNKNOWN, 2]
    lower = TextTokenizer(path, 12, is_lowercase=True)
    assert lower.tokenize("HÉLLO").tokenized.ids == [1, HELLO, 2]  # accents still go
    assert lower.tokenize("İ Hello").tokenized.offsets[-2] == (2, 7)
    made = Tokenizer.from_file(str(path))
    made.normalizer = None
    made.save(str(path))
    assert TextTokenizer(path, 12, is_lowercase=True).tokenize("Hello").tokenized.ids == [1, 7, 2]


BERT = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
SPECIAL = [("[CLS]", 1), ("[SEP]", 2)]
PROCESSORS: list[tuple[Any, tuple[list[int], list[int]]]] = [
    (BERT, ([1], [2])),
    (processors.RobertaProcessing(("[SEP]", 2), ("[CLS]", 1)), ([1], [2])),
    (processors.TemplateProcessing("[CLS] $A [SEP] [SEP]", None, SPECIAL), ([1], [2, 2])),
    (processors.TemplateProcessing("$A [SEP]", None, SPECIAL), ([], [2])),
    (processors.ByteLevel(), ([], [])),
    (processors.Sequence([processors.ByteLevel(), BERT]), ([1], [2])),
    (None, ([], [])),
]


@pytest.mark.parametrize("text", ["a b", "", "hello"])
@pytest.mark.parametrize(("processor", "special"), PROCESSORS)
def test_special_ids_are_those_of_the_post_processor(
    path: Path, processor: Any, special: tuple[list[int], list[int]], text: str
) -> None:
    bare = tokenizer().encode(text, add_special_tokens=False).ids
    change_processor(path, processor)
    found = TextTokenizer(path, 12)
    assert found.special_ids == special
    assert found.tokenize(text).tokenized.ids == [*special[0], *bare, *special[1]]


def change_processor(path: Path, processor: Any) -> None:
    """Also takes the one of the file away, for which the package has no call."""
    content = json.loads(path.read_text("utf-8"))
    content["post_processor"] = None if processor is None else json.loads(processor.__getstate__())
    content["truncation"] = content["padding"] = None
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    "processor",
    [
        processors.TemplateProcessing("[CLS] $A $A", None, SPECIAL),
        processors.Sequence([BERT, BERT]),
    ],
)
def test_strange_post_processor_is_refused(path: Path, processor: Any) -> None:
    change_processor(path, processor)
    reason = "unsupported post-processor: it does not put special tokens around each text, once"
    with pytest.raises(CheckpointFormatError, match=rf"tokenizer\.json: {reason}"):
        TextTokenizer(path, 12)


@pytest.mark.parametrize("content", [b"", b"{}", b"[", b"\xff\xfe"])
def test_damaged_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(CheckpointFormatError, match=r"tokenizer\.json is not a tokenizer"):
        TextTokenizer(path, 12)


LONG = 2 * FIRST_CHARS + 1


def test_word_of_any_length_is_unknown_to_wordpiece(path: Path) -> None:
    """And what follows it is not lost, however far that is."""
    found = TextTokenizer(path, 12)
    assert found.encode("", "x" * 9 * LONG + " hello", 10) == ([UNKNOWN, HELLO], True)


def test_tokens_of_a_long_text_have_their_places(path: Path) -> None:
    found = TextTokenizer(path, 12)
    text = " hello world" * LONG
    tokens = found.tokenize(text)
    assert tokens.tokenized.ids == [1, *[HELLO, WORLD] * 5, 2]
    assert tokens.tokenized.offsets[1:3] == [(1, 6), (7, 12)]
    assert tokens.num_tokens > len(tokens.tokenized.ids)
    assert not tokens.is_exact
    assert 12 < tokens.num_tokens < 2 * LONG


def test_other_threads_run_while_a_text_is_tokenised(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Tokenizer.encode` keeps the interpreter to itself for as long as it takes."""
    found = TextTokenizer(path, 12)
    monkeypatch.setattr(found, "tokenizer", OnlyInBatches(found.tokenizer))
    assert found.encode("", "hello") == ([HELLO], True)
    assert found.tokenize("hello").tokenized.ids == [1, HELLO, 2]


class OnlyInBatches:
    """A tokenizer with no other calls than those that let go."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.encode_batch, self.encode_batch_fast = (
            tokenizer.encode_batch,
            tokenizer.encode_batch_fast,
        )
        self.id_to_token = tokenizer.id_to_token
