from typing import Any

import pytest
import sentencex
from hypothesis import example, given
from hypothesis import strategies as st

from service.text import segmentation
from service.text.letters import BREAK
from service.text.segmentation import (
    Segments,
    in_one_line,
    in_paragraphs,
    split_repeated,
    split_sentences,
    whole_blocks,
)

LANGUAGES = ("en", "pt", "pt-BR", "de", "it", "zh-Hans", "ar", "xx", "")
LINE_BREAKS = ("\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")

# Sentence ends, abbreviations, quotes and white space that meet more often than in arbitrary text.
FRAGMENTS = st.sampled_from(
    [
        *LINE_BREAKS,
        *". ? ! 。 ؟ … \" ' ( ) [ ] “ ” « » 「 」 1 2 B é ß 🎉 مر हि 你好 - Mr e.g _".split(),
    ]
    + [*" \t\xa0\u3000\u202f\u200b\u200f\ufeff\0", "  ", "https://a.b/?c"]
)
TEXTS = st.text() | st.lists(FRAGMENTS, max_size=40).map("".join)


def assert_invariants(text: str, segments: Segments) -> None:
    assert len(segments.separators) == len(segments.sentences) + 1
    assert segments.join(segments.sentences) == text
    for sentence in segments.sentences:
        assert sentence == sentence.strip()
        assert len(sentence.splitlines()) == 1
        assert any(map(str.isalnum, sentence))
    assert not any(map(str.isalpha, "".join(segments.separators)))


@given(text=TEXTS, language=st.sampled_from(LANGUAGES))
@example(text="", language="en")
@example(text=" " * 10_000, language="en")
@example(text="a" * 10_000, language="en")
@example(text="Olá, avó! " * 1_000, language="pt")
@example(text="A.\0 B. \0", language="en")
@example(text="مرحبا بالعالم. كيف حالك؟\u200f شكرا.", language="ar")
@example(text="A.\n\n\nB.\n\n", language="en")
def test_pieces_put_together_are_the_text(text: str, language: str) -> None:
    assert_invariants(text, split_sentences(text, language))


@given(text=st.text(st.characters(categories=["Cs", "Lu", "Zs", "Po"])))
@example(text="One \ud800. Two.\udfff")
def test_lone_surrogates_are_kept(text: str) -> None:
    assert_invariants(text, split_sentences(text, "en"))


def test_lone_surrogate_in_the_language_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        split_sentences("Text.", "\ud800")


@pytest.mark.parametrize(
    ("text", "separators", "sentences"),
    [
        ("", ("",), ()),
        (" \t\n ", (" \t\n ",), ()),
        ("Hello.", ("", ""), ("Hello.",)),
        ("  One.   Two!\t", ("  ", "   ", "\t"), ("One.", "Two!")),
        ("\xa0One.\u3000Two.\u202f", ("\xa0", "\u3000", "\u202f"), ("One.", "Two.")),
        ("Two  spaces\tand a tab.", ("", "\t", ""), ("Two  spaces", "and a tab.")),
        ("Dr. Smith paid $3.50. He left.", ("", " ", ""), ("Dr. Smith paid $3.50.", "He left.")),
        ("Olá é 🎉 avó. São João.", ("", " ", ""), ("Olá é 🎉 avó.", "São João.")),
        ("你好。世界很大！", ("", "", ""), ("你好。", "世界很大！")),
        ("No end\nno end", ("", "\n", ""), ("No end", "no end")),
        ("Home | About us\xa0· 3 more", ("", " | ", "\xa0· ", ""), ("Home", "About us", "3 more")),
        ("cat x | grep y", ("", ""), ("cat x | grep y",)),
        ("Yes|No · or | Not", ("", ""), ("Yes|No · or | Not",)),
        ("One. \n\n \r\n Two.", ("", " \n\n \r\n ", ""), ("One.", "Two.")),
    ],
)
def test_splits(text: str, separators: tuple[str, ...], sentences: tuple[str, ...]) -> None:
    assert split_sentences(text, "en") == Segments(separators, sentences)


def test_markers_stand_for_bars() -> None:
    assert split_sentences("Home \U000f0000 Us", "en").sentences == ("Home \U000f0000 Us",)
    found = split_sentences("Home \U000f0000 Us", "en", bars="\U000f0000")
    assert found == Segments(("", " \U000f0000 ", ""), ("Home", "Us"))


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("en", "See Vol. II and Ch. IV. Go.", ("See Vol. II and Ch. IV.", "Go.")),
        ("pt", "O séc. XIX e a Av. Rio. Fim.", ("O séc. XIX e a Av. Rio.", "Fim.")),
        ("pt", "Vi o Ten. Silva e a Sta. Ana.", ("Vi o Ten. Silva e a Sta. Ana.",)),
        ("pt", "No 3.º Esq. A 1.ª vez.", ("No 3.º Esq.", "A 1.ª vez.")),
        ("pt", "Ver cap. Silva foi. Ver o cap.", ("Ver cap. Silva foi.", "Ver o cap.")),
        ("de", "Er ist im Ch. Es ist gut.", ("Er ist im Ch.", "Es ist gut.")),
    ],
)
def test_abbreviation_before_a_capital_ends_no_sentence(
    language: str, text: str, sentences: tuple[str, ...]
) -> None:
    assert split_sentences(text, language).sentences == sentences


@pytest.mark.parametrize(
    ("text", "separators", "sentences"),
    [
        ("thank you thank you", ("", " ", ""), ("thank you", "thank you")),
        ("Thank you, thank you!", ("", ", ", "!"), ("Thank you", "thank you")),
        ("(yes, sir; YES, SIR)", ("(", "; ", ")"), ("yes, sir", "YES, SIR")),
        ("no no… no no", ("", " ", "… ", " ", ""), ("no", "no", "no", "no")),
        ("let's go let's go let's go", ("", " ", " ", ""), ("let's go",) * 3),
        ("wait a minute wait a minute", ("", " ", ""), ("wait a minute",) * 2),
        ("é bom, é bom.", ("", ", ", "."), ("é bom", "é bom")),
        ("yes yes yes", ("", ""), ("yes yes yes",)),
        ("thank you thank youth", ("", ""), ("thank you thank youth",)),
        ("thank you and thank you", ("", ""), ("thank you and thank you",)),
        ("“thank you, thank you”", ("", ""), ("“thank you, thank you”",)),
        ("I know, I know", ("", ""), ("I know, I know",)),
        ("thank you " * 9, ("", ""), ("thank you " * 9,)),
    ],
)
def test_repeated_phrase_is_a_sentence(
    text: str, separators: tuple[str, ...], sentences: tuple[str, ...]
) -> None:
    segments = split_repeated(Segments(("", ""), (text,)))
    assert segments == Segments(separators, sentences)
    around = split_repeated(Segments(("- ", " ", "\n"), (text, "The end.")))
    assert around.join(around.sentences) == f"- {text} The end.\n"


@pytest.mark.parametrize("line_break", LINE_BREAKS)
def test_every_line_break_ends_a_sentence_and_stays(line_break: str) -> None:
    segments = split_sentences(f"a list{line_break}of things{line_break * 2}here", "en")
    assert segments == Segments(
        ("", line_break, line_break * 2, ""), ("a list", "of things", "here")
    )


@pytest.mark.parametrize(
    "symbols", ["...", "🎉", "---", "_", "。！", "👨‍👩‍👧", "\u200b", "\0", "*\n***\r\n?!"]
)
def test_text_without_letter_or_digit_is_not_translated(symbols: str) -> None:
    assert split_sentences(symbols, "en") == Segments((symbols,), ())
    around = split_sentences(f"{symbols}\nOne.\n{symbols}\nTwo.\n{symbols}", "en")
    assert around.sentences == ("One.", "Two.")
    assert around.join(["Um.", "Dois."]) == f"{symbols}\nUm.\n{symbols}\nDois.\n{symbols}"


@pytest.mark.parametrize("space", ["\xa0", "\u3000", "\u2009"])
def test_wide_space_before_a_full_stop_does_not_panic(space: str) -> None:
    """`sentencex` cut a character in two here, and its panic passes by `except Exception`."""
    segments = split_sentences(f"We need plan B{space}. Now we go.", "en")
    assert "".join(segments.sentences).startswith(f"We need plan B{space}.")


def test_join_takes_translations_of_any_length() -> None:
    segments = split_sentences(" One.\r\n\tTwo. Three.\n", "en")
    assert segments.join(["", "Dois e\nmeio.", "3"]) == " \r\n\tDois e\nmeio. 3\n"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "It is a long\nsentence. And\r\none more.\n",
            ["It is a long\nsentence.", "And\r\none more."],
        ),
        ("One.\nTwo.", ["One.", "Two."]),
        ("no end\nhere", ["no end\nhere"]),
        ("\n...\n", []),
        (f"one\ntwo{BREAK}three", ["one\ntwo", "three"]),
    ],
)
def test_line_break_inside_a_sentence_can_be_white_space(text: str, sentences: list[str]) -> None:
    segments = split_sentences(text, "en", at_line_breaks=False)
    assert [*segments.sentences] == sentences
    assert segments.join(segments.sentences) == text


@given(text=TEXTS)
def test_sentences_in_one_line_keep_their_places(text: str) -> None:
    for segments in (split_sentences(text, "en", at_line_breaks=False), whole_blocks(text)):
        found = in_one_line(segments)
        assert segments.join(segments.sentences) == text
        assert found.separators == segments.separators
        assert [*map(len, found.sentences)] == [*map(len, segments.sentences)]
        assert all(len(sentence.splitlines()) == 1 for sentence in found.sentences)


@given(text=TEXTS, max_chars=st.integers(0, 40))
def test_paragraphs_are_sentences_put_together(text: str, max_chars: int) -> None:
    segments = split_sentences(text, "en")
    paragraphs = in_paragraphs(segments, max_chars)
    assert_invariants(text, paragraphs)
    assert max(map(len, {*paragraphs.sentences} - {*segments.sentences}), default=0) <= max_chars


def test_paragraph_ends_where_more_than_spaces_follow() -> None:
    text = "One. Two.\nThree.  Four.\nFive.\tSix. 12. Seven."
    found = in_paragraphs(split_sentences(text, "en"), 100).sentences
    assert found == ("One. Two.", "Three.  Four.", "Five.", "Six.", "Seven.")


def test_blocks_end_at_their_breaks_alone() -> None:
    found = whole_blocks(f"One. Two\nthree{BREAK} {BREAK}Four.")
    assert [*found.sentences] == ["One. Two\nthree", "Four."]


@pytest.mark.parametrize("translations", [[], ["a"], ["a", "b", "c"]])
def test_join_refuses_another_number_of_translations(translations: list[str]) -> None:
    segments = split_sentences("One. Two.", "en")
    with pytest.raises(ValueError, match="zip"):
        segments.join(translations)


def test_region_does_not_change_the_rules_of_the_language() -> None:
    text = "Am 3. Mai kam Dr. Huber bzw. Frau Maier. Ende."
    assert split_sentences(text, "de-AT") == split_sentences(text, "de")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    original = sentencex.get_sentence_boundaries

    def recording(language: str, text: str) -> Any:
        seen.append(text)
        return original(language, text)

    monkeypatch.setattr(segmentation, "get_sentence_boundaries", recording)
    return seen


@pytest.mark.parametrize("size", [60, 61, 67, 75, 100])
def test_long_line_is_split_the_same_through_windows(
    size: int, windows: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = [f"Sentence number {i} is by Mr. Smith." for i in range(50)]
    text = " ".join(sentences)
    monkeypatch.setattr(segmentation, "WINDOW_CHARS", size)
    assert split_sentences(text, "en").sentences == tuple(sentences)
    assert max(map(len, windows)) == size


@pytest.mark.parametrize("word", ["word ", "word", "e.g. "])
def test_sentence_longer_than_a_window_stays_whole(word: str, windows: list[str]) -> None:
    sentence = word * (3 * segmentation.WINDOW_CHARS // len(word)) + "end."
    assert split_sentences(f"First. {sentence} Last.", "en").sentences == (
        "First.",
        sentence,
        "Last.",
    )
    # Every character is read at most twice, so that time grows with the length only.
    assert sum(map(len, windows)) <= 2 * len(sentence) + segmentation.WINDOW_CHARS


@pytest.mark.parametrize("size", range(31, 41))
def test_window_does_not_cut_an_abbreviation(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of "Mr.", read as "r.", looks like the end of a sentence."""
    monkeypatch.setattr(segmentation, "WINDOW_CHARS", size)
    sentence = "They met " + "Mr. Smith and " * 30 + "left."
    assert split_sentences(sentence, "en").sentences == (sentence,)


@given(text=st.text(), filler=st.text(max_size=5))
def test_sentences_start_where_they_say(text: str, filler: str) -> None:
    segments = split_sentences(text, "en")
    for sentences in (list(segments.sentences), [filler] * len(segments.sentences)):
        joined, starts = segments.join(sentences), segments.starts(sentences)
        assert len(starts) == len(sentences)
        for start, sentence in zip(starts, sentences, strict=True):
            assert joined[start : start + len(sentence)] == sentence
    assert segments.starts([]) == []
