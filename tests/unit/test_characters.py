"""Cleaned texts: composed accents, and no characters that no reader sees."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.characters import cleaned, origins
from service.text.glossary import Terms

DROPPED = {
    "infor\u00admation": "information",
    "in\u00ad\u00adfor": "infor",
    "\ufeffThe cat": "The cat",
    "The\u200b cat": "The cat",
    "wo\u2060rd": "word",
    "f\u2061(x)": "f(x)",
    "co\u200cop": "coop",
    "co\u200dop": "coop",
    "\0The \x07cat\x1b": "The cat",
    "\x80\x9fThe cat\x7f": "The cat",
    "a\ufff9b": "ab",
    "cafe\u0301": "caf\u00e9",
    "a\u0323\u0302": "\u1ead",
    "informac\u0327a\u0303o": "informa\u00e7\u00e3o",
    "\u1112\u1161\u11ab\u1100\u1173\u11af": "\ud55c\uae00",
    "e\u00ad\u0301": "\u00e9",
}

KEPT = [
    "The cat.",
    "Tabs\tand\nlines\r\n\x0c\x1e\x85\u2028",
    "no-break\u00a0space\u202f!",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family
    "\u2764\ufe0f\u200d\U0001f525",
    "\U0001f3f4\U000e0067\U000e0062\U000e007f",  # a flag
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
    "\u0d28\u0d4d\u200d",  # Malayalam
    "\u1780\u200b\u1781",  # Khmer
    "a \u200eb\u200f \u202ac\u202c \u2066d\u2069",  # bidirectional marks
    "10 m\u00b2, \u2116 12, \ufb01, \u00bd",
]


@pytest.mark.parametrize("text", DROPPED)
def test_what_no_reader_sees_is_dropped(text: str) -> None:
    assert cleaned(text) == DROPPED[text]


@pytest.mark.parametrize("text", KEPT)
def test_what_a_script_or_an_emoji_needs_is_kept(text: str) -> None:
    assert cleaned(text) == text


PARTS = "ae \u00ad\u0301\u0327\u0323\u200b\u200d\0\U0001f468\u1112\u1161\u11ab"
TEXTS = st.text(st.sampled_from(PARTS))


@given(TEXTS)
def test_each_character_has_an_origin(text: str) -> None:
    """The origins are in order, and each has the character itself."""
    found, clean = origins(text), cleaned(text)
    assert len(found) == len(clean)
    assert cleaned(clean) == clean
    assert found == sorted(found)
    for char, (first, last) in zip(clean, found, strict=True):
        assert first < last
        assert unicodedata.normalize("NFD", char)[0] in unicodedata.normalize(
            "NFD", text[first:last]
        )


def test_glossary_finds_a_term_with_separate_accents() -> None:
    terms = Terms({"ac\u0327a\u0303o": "act"})
    (match,) = terms.find("a a\u00e7\u00e3o boa")
    assert match.target == "act"
