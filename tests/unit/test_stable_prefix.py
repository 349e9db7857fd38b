"""Of a long text only one end is tokenised; its tokens must be those of the whole text."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Encoding, Regex, Tokenizer, models, pre_tokenizers, trainers

from model.tokenization.cut_words import MARGIN_CHARS, CutWords, End
from model.tokenization.text import FIRST_CHARS, TextTokenizer
from tests.text_tokenizers import KINDS, texts, trained, write_tokenizer

LONG = 2 * FIRST_CHARS + 1
ENDS: tuple[End, ...] = ("right", "left")
WANTED = 64

search = settings(derandomize=True, database=None, max_examples=30)
"""The same texts in every run: a text that fails must not fail on some runs only."""


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def found(kind: str, tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    return TextTokenizer(write_tokenizer(kind, tmp_path_factory.mktemp("family")), WANTED + 2)


def check_kept(found: TextTokenizer, text: str) -> None:
    """What is kept of a text is what would be kept had all of it been tokenised."""
    whole, is_whole = found.encode("", text)
    assert is_whole
    for end in ENDS:
        ids, is_all = found.encode("", text, WANTED, end)
        if is_all:
            assert ids == whole
            continue
        assert WANTED < len(ids) <= len(whole)
        assert ids == (whole[: len(ids)] if end == "right" else whole[-len(ids) :])


@given(text=texts(st.sampled_from([LONG, LONG + 1, LONG + 2, 2 * LONG])))
@example("." * (LONG + 25))  # runs: an even and an odd number of them are tokenised differently
@example("." * LONG)
@example("\U0001f600" * LONG)
@example("e\u0301" * LONG)
@example(" " * LONG + "a")
@example("1234567" * LONG)
@example("a" + "\u0301\u0323" * LONG + "\u0327")  # marks are sorted by class before they are read
@search
def test_kept_tokens_are_those_of_the_whole_text(found: TextTokenizer, text: str) -> None:
    check_kept(found, text)


def test_digits_by_threes_are_counted_from_the_front(tmp_path: Path) -> None:
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"\p{N}{1,3}|\P{N}+"), "isolated")
    numbers = [f"{number:03}" for number in range(1000)]
    made.train_from_iterator(numbers, trainers.BpeTrainer(vocab_size=2000, min_frequency=0))
    made.save(str(tmp_path / "tokenizer.json"))
    check_kept(TextTokenizer(tmp_path / "tokenizer.json", WANTED + 2), "1234567" * LONG)


@given(word=texts(st.integers(1000, 3000)), place=st.floats(0.3, 0.9))
@search
def test_stable_tokens_of_a_cut_word_are_those_of_the_whole_word(
    kind: str, word: str, place: float
) -> None:
    """Without a limit on what may be tokenised to find them."""
    tokenizer = Tokenizer.from_str(trained(kind))
    words = CutWords(tokenizer, max(map(len, tokenizer.get_vocab())))
    if kind.startswith("byte-level"):
        alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        ((word, _),) = alphabet.pre_tokenize_str(word)
    whole: list[int] = words.bare.encode(word).ids
    cut = int(len(word) * place)
    for end, part in zip(ENDS, (word[:cut], word[cut:]), strict=True):
        known = words.bare.encode(part)
        number = words.num_stable(known.tokens, known.ids, end, 10**9, 10**9)
        if end == "right":
            assert known.ids[:number] == whole[:number]
        else:
            assert known.ids[len(known.ids) - number :] == whole[len(whole) - number :]


@pytest.mark.parametrize("kind", ["WordPiece", "byte-level BPE", "Unigram"], indirect=True)
@pytest.mark.parametrize("text", ["hello " * LONG, ". " * LONG, "\u6f22" * LONG])
def test_long_text_is_not_tokenised_whole(
    kind: str, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = TextTokenizer(write_tokenizer(kind, tmp_path), WANTED + 2)
    lengths = note_lengths(found, monkeypatch)
    ids, is_all = found.encode("", text, WANTED)
    assert len(ids) > WANTED
    assert not is_all
    assert len(lengths) == 1
    assert lengths[0] <= FIRST_CHARS


@pytest.mark.parametrize("kind", ["byte-level BPE", "Unigram"])
@pytest.mark.parametrize("unit", ["the cat", "abcdehlostu", "believable"])
def test_long_word_is_not_tokenised_whole(
    kind: str, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it never ends: languages without spaces have such words."""
    found = TextTokenizer(write_tokenizer(kind, tmp_path), WANTED + 2)
    lengths = note_lengths(found, monkeypatch)
    ids, is_all = found.encode("", unit.replace(" ", "") * LONG, WANTED)
    assert len(ids) > WANTED
    assert not is_all
    assert lengths == [FIRST_CHARS]


def note_lengths(found: TextTokenizer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of each text that is tokenised from now on."""
    lengths: list[int] = []
    encode: Callable[[str, bool], Encoding] = found._encode

    def note(text: str, add_special_tokens: bool = True) -> Encoding:
        lengths.append(len(text))
        return encode(text, add_special_tokens)

    monkeypatch.setattr(found, "_encode", note)
    return lengths


def test_unknown_run_of_unigram_is_one_token_however_long(tmp_path: Path) -> None:
    found = TextTokenizer(write_tokenizer("Unigram", tmp_path), WANTED + 2)
    ids, is_all = found.encode("", "\u0416" * LONG, WANTED)
    assert (len(ids), is_all) == (2, True)


def test_tokens_that_do_not_spell_their_word_are_not_stable() -> None:
    """Byte fallback: three tokens stand for one character, and none of them is in the text."""
    vocabulary = {"a": 0, "<unk>": 1, **{f"<0x{byte:02X}>": byte + 2 for byte in range(256)}}
    model = models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True)
    words = CutWords(Tokenizer(model), 6)
    for text, number in [("a" * 1000, 1000 - MARGIN_CHARS - 6), ("\u6f22" * 1000, 0)]:
        known = words.bare.encode(text)
        assert words.num_stable(known.tokens, known.ids, "right", 10**9, 10**9) == number
