"""Of a long text only one end is tokenised; its tokens must be those of the whole text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Encoding

from model.tokenization.text import FIRST_CHARS, End, TextTokenizer
from tests.text_tokenizers import KINDS, UNITS, shuffled, write_tokenizer

LONG = 2 * FIRST_CHARS + 1
ENDS: tuple[End, ...] = ("right", "left")
WANTED = 64
UNSPLIT = "Unigram without words"


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def found(kind: str, tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    return TextTokenizer(write_tokenizer(kind, tmp_path_factory.mktemp("family")), WANTED + 2)


def check_kept(found: TextTokenizer, text: str, is_unsplit: bool) -> None:
    """What is kept of a text is what would be kept had all of it been tokenised."""
    whole, is_whole = found.encode("", text)
    assert is_whole
    for end in ENDS:
        ids, is_all = found.encode("", text, WANTED, end)
        if is_all:
            assert ids == whole
            continue
        assert WANTED < len(ids) <= len(whole)
        expected = whole[: len(ids)] if end == "right" else whole[-len(ids) :]
        if end == "left" and is_unsplit:  # pieces of equal score come in either order
            ids, expected = sorted(ids), sorted(expected)
        assert ids == expected


@given(
    units=st.lists(st.sampled_from(UNITS), min_size=1, max_size=4),
    size=st.sampled_from([LONG, LONG + 1, LONG + 2, 2 * LONG]),
)
def test_kept_tokens_are_those_of_the_whole_text(
    found: TextTokenizer, kind: str, units: list[str], size: int
) -> None:
    check_kept(found, shuffled([*units, "the", " "], size), kind == UNSPLIT)


@pytest.mark.parametrize("text", [" " * LONG + "a", "\u6f22" * LONG])
def test_kept_tokens_of_a_run_are_those_of_the_whole_text(
    found: TextTokenizer, kind: str, text: str
) -> None:
    check_kept(found, text, kind == UNSPLIT)


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
    encode = found._encode

    def note(text: str) -> Encoding:
        lengths.append(len(text))
        return encode(text)

    monkeypatch.setattr(found, "_encode", note)
    return lengths


def test_unknown_run_of_unigram_is_one_token_however_long(tmp_path: Path) -> None:
    found = TextTokenizer(write_tokenizer("Unigram", tmp_path), WANTED + 2)
    ids, is_all = found.encode("", "\u0416" * LONG, WANTED)
    assert (len(ids), is_all) == (2, True)
