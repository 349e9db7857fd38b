from typing import SupportsIndex, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.tokenization.tokenizer import Encoding, Tokenizer
from service.settings import Settings
from service.text.chunking import AHEAD, WINDOW_CHARS, ChunkedText, chunk_sentences, cut_sentence
from service.text.segmentation import Segments, one_sentence, split_sentences

WORDS = st.sampled_from(["word", "a", "Ελλάδα", "世界", "é", "e\u0301", "🎉", "x" * 50, "ﷺ", "1,5"])
SPACES = st.sampled_from([" ", "  ", "\u00a0", "\u3000 ", "", "-"])
SENTENCES = st.lists(st.tuples(WORDS, SPACES), min_size=1, max_size=150).map(
    lambda parts: "".join(part for pair in parts for part in pair).strip()
)
LIMITS = st.integers(15, 127)  # the least that the settings allow, and the default


def joined(pieces: list[tuple[str, str, list[int]]]) -> str:
    return "".join(text + gap for text, gap, _ in pieces)


def test_limits_are_those_of_the_settings() -> None:
    assert Settings.model_fields["max_source_tokens"].default == 127 + 1
    assert "Ge(ge=16)" in str(Settings.model_fields["max_source_tokens"].metadata)


@given(SENTENCES | st.text(max_size=300).map(str.strip), LIMITS)
def test_pieces_are_the_sentence_and_each_fits(
    tokenizer: Tokenizer, sentence: str, limit: int
) -> None:
    pieces = cut_sentence(sentence, tokenizer, limit)
    assert joined(pieces) == sentence
    for text, gap, ids in pieces:
        assert ids == tokenizer.encode(text)
        assert len(ids) <= limit
        assert not gap.strip()
    assert all(text for text, _, _ in pieces[1:])


@given(st.text(max_size=400) | SENTENCES, LIMITS, st.booleans())
def test_text_is_whole_after_fitting(
    tokenizer: Tokenizer, text: str, limit: int, is_split: bool
) -> None:
    segments = split_sentences(text, "en") if is_split else one_sentence(text)
    fitted = chunk_sentences(segments, tokenizer, limit)
    assert fitted.segments.join(fitted.segments.sentences) == text
    assert fitted.sources == [tokenizer.encode(sentence) for sentence in fitted.segments.sentences]
    assert all(0 < len(ids) <= limit for ids in fitted.sources)


@pytest.mark.parametrize("unit", ["1.", "%0", "1, 2; ", "&#"])
def test_pieces_without_letters_are_not_translated(tokenizer: Tokenizer, unit: str) -> None:
    """They took most of the time of a text of marks, and came back with other digits."""
    text = f"The cat {unit * 1000} sat."
    fitted = chunk_sentences(one_sentence(text), tokenizer, 127)
    assert fitted.segments.join(fitted.segments.sentences) == text
    first, last = fitted.segments.sentences
    assert first.startswith("The cat")
    assert last.endswith("sat.")


def test_cutting_reads_each_part_of_a_sentence_a_few_times_at_most(tokenizer: Tokenizer) -> None:
    """The rest was copied for every piece: half a megabyte of one word took seconds."""
    word = CountedText("abcde" * 40_000)
    pieces = cut_sentence(word, tokenizer, 127)
    assert joined(pieces) == word
    assert word.num_read < 4 * WINDOW_CHARS * 127 * len(pieces)


class CountedText(str):
    """Counts the characters that are copied out of it."""

    __slots__ = ("num_read",)
    num_read: int

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        part = super().__getitem__(key)
        self.num_read = getattr(self, "num_read", 0) + len(part)
        return part


def test_sentence_that_fits_is_left_alone(tokenizer: Tokenizer) -> None:
    segments = split_sentences(" One two. Three\n", "en")
    ids = [tokenizer.encode("One two."), tokenizer.encode("Three")]
    assert chunk_sentences(segments, tokenizer, 127) == ChunkedText(segments, ids, 0)


def test_cut_stands_between_words(tokenizer: Tokenizer) -> None:
    sentence = " ".join(f"number{count}" for count in range(100))
    pieces = cut_sentence(sentence, tokenizer, 31)
    assert [word for text, _, _ in pieces for word in text.split()] == sentence.split()
    assert {gap for _, gap, _ in pieces[:-1]} == {" "}
    assert all(len(ids) > 31 // 2 for _, _, ids in pieces[:-1])
    fitted = chunk_sentences(Segments(("", ""), (sentence,)), tokenizer, 31)
    assert fitted.num_cut == 1
    assert len(fitted.sources) == len(pieces)


@pytest.mark.parametrize("sentence", ["x" * 10_000, "0" * 3000, "ab" * 4000 + " end", "ß" * 5000])
def test_word_without_end_is_cut_at_the_limit(tokenizer: Tokenizer, sentence: str) -> None:
    pieces = cut_sentence(sentence, tokenizer, 31)
    assert joined(pieces) == sentence
    assert max(len(ids) for _, _, ids in pieces) <= 31
    assert len(pieces) < len(sentence) / 4


@pytest.mark.parametrize("start", ["", "word " * 200])
def test_run_of_unknown_characters_is_not_cut_into_single_ones(
    tokenizer: Tokenizer, start: str
) -> None:
    """All of them are one token, and pieces once ended before the last token of a window."""
    sentence = start + "世" * 10 * WINDOW_CHARS * 31
    pieces = cut_sentence(sentence, tokenizer, 31)
    assert joined(pieces) == sentence
    assert len(pieces) <= len(start) / 31 + 12


def test_characters_of_many_tokens_are_not_tokenised_again_and_again(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is 18 characters to the model: 130,000 of them took 80 seconds."""
    counts = []
    encode = tokenizer.encode_with_offsets

    def count(text: str) -> Encoding:
        counts.append(len(text))
        return encode(text)

    monkeypatch.setattr(tokenizer, "encode_with_offsets", count)
    sentence = "ﷺ" * 2000 + "word " * 500
    pieces = cut_sentence(sentence, tokenizer, 127)
    assert joined(pieces) == sentence
    assert sum(counts) < 4 * AHEAD * len(sentence)
    words = [ids for text, _, ids in pieces if "ﷺ" not in text]
    assert all(len(ids) > 127 // 2 for ids in words[:-1])


def test_sentence_without_tokens_is_kept_as_a_separator(tokenizer: Tokenizer) -> None:
    nothing = "\u200b"
    assert not tokenizer.encode(nothing)
    segments = Segments(("<", "|", ">"), (nothing, "Hello."))
    fitted = chunk_sentences(segments, tokenizer, 31)
    assert fitted.segments == Segments((f"<{nothing}|", ">"), ("Hello.",))
    assert fitted.num_cut == 0


class Contrary:
    """A tokenizer for which a text alone has twice the tokens that it has inside another."""

    def encode(self, text: str) -> list[int]:
        return [*range(len(text))]

    def encode_with_offsets(self, text: str) -> Encoding:
        offsets = [(at, min(at + 2, len(text))) for at in range(0, len(text), 2)]
        pieces = [text[start:end] for start, end in offsets]
        return Encoding([*range(len(offsets))], pieces, offsets)


def test_piece_that_has_more_tokens_alone_is_cut_again() -> None:
    pieces = cut_sentence("x" * 100, cast("Tokenizer", Contrary()), 15)
    assert joined(pieces) == "x" * 100
    assert max(len(ids) for _, _, ids in pieces) == 15
