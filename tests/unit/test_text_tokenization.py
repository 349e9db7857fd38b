"""Texts as embedding models get them: special tokens, places, cutting."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    Encoding,
    Regex,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from model.errors import CheckpointFormatError
from model.tokenization.stable_prefix import End
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
    assert not tokens.is_truncated


def test_what_is_more_is_cut_off_and_counted(path: Path) -> None:
    found = TextTokenizer(path, 6)
    for words, kept in [(3, 3), (4, 4), (5, 4), (11, 4)]:
        tokens = found.tokenize("hello " * words)
        assert tokens.tokenized.ids == [1, *[HELLO] * kept, 2]
        assert tokens.num_tokens == words + 2
        assert tokens.is_truncated == (words > 4)
    assert found.count("hello " * 11) == 13


def test_prompt_stands_before_the_text(path: Path) -> None:
    tokens = TextTokenizer(path, 12).tokenize("  hello world", prompt=" query: ")
    assert tokens.tokenized.ids == [1, 13, 14, HELLO, WORLD, 2]
    assert tokens.tokenized.offsets == [(0, 0), (0, 0), (0, 0), (2, 7), (8, 13), (13, 13)]


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


def test_lower_case_needs_no_rules_in_the_file(path: Path) -> None:
    made = Tokenizer.from_file(str(path))
    made.normalizer = None
    made.save(str(path))
    assert TextTokenizer(path, 12, is_lowercase=True).tokenize("Hello").tokenized.ids == [1, 7, 2]


def test_vocabulary_goes_up_to_the_largest_id(path: Path) -> None:
    assert TextTokenizer(path, 12).vocab_size == 15


@pytest.mark.parametrize("content", [b"", b"{}", b"[", b"\xff\xfe"])
def test_damaged_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(CheckpointFormatError, match=r"tokenizer\.json is not a tokenizer"):
        TextTokenizer(path, 12)


LONG = 2 * FIRST_CHARS + 1
WORD = st.sampled_from(
    ["hello", "un", "believable", "\u6f22\u5b57", "...", "!?", "x" * 99, "x" * 101, "e\u0301",
     "don't", "12345", "[MASK]", "\u200b", "\U0001f600", " ", "   ", "\n", "\n\n"]
)  # fmt: skip


def train(kind: str, folder: Path) -> Path:
    """A tokenizer of one of the families, of the sentences of this file."""
    lines = Path(__file__).read_text("utf-8").splitlines() * 3
    special = ["<s>", "</s>", "<unk>", "<mask>"]
    if kind == "byte-level BPE":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        made.train_from_iterator(
            lines,
            trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, special_tokens=special),
        )
    elif kind == "Unigram":
        made = Tokenizer(models.Unigram())
        made.normalizer = normalizers.NFKC()
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.train_from_iterator(
            lines,
            trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", special_tokens=special),
        )
    else:
        made = tokenizer()
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


KINDS = ["byte-level BPE", "Unigram", "WordPiece"]


@pytest.fixture(scope="module", params=KINDS)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(request.param, tmp_path_factory.mktemp("family"))


def check_kept(path: Path, text: str, wanted: int) -> None:
    """What is kept of a text is what would be kept had all of it been tokenised."""
    found = TextTokenizer(path, wanted + 2)
    whole, is_whole = found.encode("", text)
    assert is_whole
    ends: tuple[End, ...] = ("right", "left")
    for end in ends:
        ids, is_all = found.encode("", text, wanted, end)
        if is_all:
            assert ids == whole
            continue
        assert wanted < len(ids) <= len(whole)
        assert ids == (whole[: len(ids)] if end == "right" else whole[-len(ids) :])


@given(words=st.lists(WORD, min_size=3, max_size=12), glue=st.sampled_from(["", " "]))
@settings(max_examples=60)
def test_kept_tokens_are_those_of_the_whole_text(family: Path, words: list[str], glue: str) -> None:
    unit = glue.join(words) + glue
    check_kept(family, unit * (LONG // len(unit) + 9), 64)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40)
def test_kept_tokens_do_not_depend_on_a_word_without_end(family: Path, seed: int) -> None:
    """Letters at random without a space: a word of which a part is tokenised."""
    letters = random.Random(seed).choices("abcdehlostu\u6f22\u5b57", k=2 * LONG)
    check_kept(family, "".join(letters), 64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["hello " * LONG, ". " * LONG, "\u6f22" * LONG])
def test_long_text_is_not_tokenised_whole(
    tmp_path: Path, kind: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = TextTokenizer(train(kind, tmp_path), 66)
    lengths: list[int] = []
    encode = found._encode

    def note(text: str, add_special_tokens: bool = True) -> Encoding:
        lengths.append(len(text))
        return encode(text, add_special_tokens)

    monkeypatch.setattr(found, "_encode", note)
    ids, is_all = found.encode("", text, 64)
    if kind == "Unigram" and " " not in text:  # what it does not know is one token, however long
        assert (len(ids), is_all, lengths[-1]) == (2, True, len(text))
    else:
        assert len(ids) > 64
        assert not is_all
        assert len(lengths) == 1
        assert lengths[0] <= FIRST_CHARS


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
    assert tokens.is_truncated
    assert not tokens.is_exact
    assert 12 < tokens.num_tokens < 2 * LONG


def test_digits_by_threes_are_counted_from_the_front(tmp_path: Path) -> None:
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"\p{N}{1,3}|\P{N}+"), "isolated")
    numbers = [f"{number:03}" for number in range(1000)]
    made.train_from_iterator(numbers, trainers.BpeTrainer(vocab_size=2000, min_frequency=0))
    made.save(str(tmp_path / "tokenizer.json"))
    check_kept(tmp_path / "tokenizer.json", "1234567" * LONG, 64)


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
        self.encode_batch = tokenizer.encode_batch
