"""Protected spans: they are found, replaced by markers, and carried by stand-ins."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.carriage import VARIANTS, carry, split_at_markers
from service.text.protection import FIRST_MARKER, MARKER, protect
from tests.text_tokenizers import unknown_characters

RARE = "<>{}#@\\^`~€“”’–\u2011•ñğ🎉→中文"
"""Characters that the built-in vocabulary does not have."""


unknown = unknown_characters(RARE)


SPANS = {
    "If it < them, I <3 you": ["<", "<3"],
    "President Erdoğan paid €50 🎉👍🏽": ["Erdoğan", "€50", "🎉👍🏽"],
    "See https://example.com/a?b=c, please.": ["https://example.com/a?b=c"],
    "A note[1](see below)": ["[1]"],
    "An ordinary sentence, with: punctuation (and more) - it's fine.": [],
}


@pytest.mark.parametrize("text", SPANS)
def test_spans_are_found(text: str) -> None:
    found = protect(text, unknown)
    assert list(found.spans) == SPANS[text]
    assert found.restore(found.text) == text
    assert len(MARKER.findall(found.text)) == len(found.spans)


def test_very_long_value_is_one_span() -> None:
    assert protect(f"The id {'1a' * 2500} is new.").spans == ("1a" * 2500,)


def test_quotes_and_dashes_are_written_plainly() -> None:
    text = "“Don’t,” she said – twice a well\u2011known word."
    assert protect(text, unknown).text == '"Don\'t," she said - twice a well-known word.'


@given(st.text(alphabet=st.sampled_from([*"ab {}<>%$[]`&@_:/.1€ğ🎉\n\U000f0001"]), max_size=60))
def test_text_is_restored(text: str) -> None:
    found = protect(text, unknown)
    assert found.restore(found.text) == text
    assert "".join(split_at_markers(found.text)) == found.text


FRAGMENTS = [
    *"{}<>[]`@_#°%:/\\$&.aZ5ñ (~-;^!?xC",
    *"www. mailto: x.com :// http %s ](a) ][a] my 0xF const".split(),
    *(" :", "pip ", "run b", "npm ", "ORDER BY", "= "),
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join))
def test_quick_search_misses_no_span(text: str) -> None:
    """An arrow, which is a span of its own, makes `protect` search for all forms."""
    *spans, _ = protect(text + "\n→").spans
    assert list(protect(text).spans) == spans


@pytest.mark.parametrize("text", ["%" + "0" * 200_000, "[" + "0" * 200_000, "x_y " + "1" * 200_000])
def test_search_in_long_numbers_is_linear(text: str) -> None:
    start = time.process_time()
    protect(text)
    assert time.process_time() - start < 20


def test_spans_keep_their_typographic_signs() -> None:
    unknown = unknown_characters("“”’−—")
    found = protect("He wrote “print(“hi”)” at −5 °C — for −$1,000.", unknown, keeps_length=True)
    assert found.spans == ("print(“hi”)", "−5 °C", "−$1,000")


def test_typographic_dash_between_spans_is_in_one_span() -> None:
    found = protect("At 10 °C–15 °C, {a}—{b}, {c}-{d}.", unknown_characters("–—"), True)
    assert found.spans == ("10 °C–15 °C", "{a}—{b}", "{c}", "{d}")


def test_marks_of_directions_have_a_text_between_them() -> None:
    found = protect("Open \u2066Settings\u2069 now.")
    first, last = map(chr, (FIRST_MARKER, FIRST_MARKER + 1))
    assert found.pairs == {first: last}
    assert found.keeps_order(f"Abra {first}ajustes{last}.")
    assert not found.keeps_order(f"Abra ajustes {first}{last}.")


def test_adjacent_tags_have_a_text_between_them() -> None:
    found = protect("<0>Read the <1>terms</1></0> now")
    first, second, last = map(chr, range(FIRST_MARKER, FIRST_MARKER + 3))
    assert found.pairs == {second: last}
    assert not found.keeps_order(f"{first}Leia os termos {second}{last} agora")


def test_mark_of_a_key_has_a_letter_after_it() -> None:
    found = protect("Show &line numbers")
    assert found.keeps_order(f"Mostrar {chr(FIRST_MARKER)}números de linha")
    assert not found.keeps_order(f"Mostrar números de linha {chr(FIRST_MARKER)}")


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_stand_ins_are_restored_in_any_order(variant: int) -> None:
    found = protect("Give {a} to {b}, now!", unknown)
    carrier = carry(found.text, variant, 100)
    assert carrier is not None
    before, after, *_ = VARIANTS[variant]
    first, second = (f"{before}{number}{after}" for number in (1, 2))
    restored = carrier.restore(f"Agora, {second.lower()} recebe {first}!")
    assert restored is not None
    assert found.restore(restored) == "Agora, {b} recebe {a}!"
    for wrong in (f"{first} recebe", f"{first} {first} {second}", ""):
        assert carrier.restore(wrong) is None


def test_spaces_around_a_stand_in_are_those_of_the_source() -> None:
    found = protect("file{s} now!{x}", unknown)
    carrier = carry(found.text, 0, 100)
    assert carrier is not None
    assert carrier.text == "file XYZ1 now! XYZ2"
    restored = carrier.restore("arquivo XYZ1 agora! XYZ2")
    assert restored is not None
    assert found.restore(restored) == "arquivo{s} agora!{x}"


def test_sentence_with_the_same_word_has_no_stand_ins() -> None:
    assert carry(protect("XYZ1 is {a}", unknown).text, 0, 100) is None
