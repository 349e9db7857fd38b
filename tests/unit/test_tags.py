"""Inline tags leave a text before its translation, and each sentence gets its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.html_text import protect_html
from service.text.markup import MarkupText
from service.text.protection import MARKER
from service.text.segmentation import Segments, split_sentences
from service.text.tags import Tag, distribute, insert, lift


def split(text: str) -> tuple[MarkupText, Segments, dict[int, list[Tag]]]:
    words, tags = lift(protect_html(text, set()))
    segments, inside = distribute(split_sentences(words.text, "en"), tags)
    return words, segments, inside


def joined(segments: Segments, inside: dict[int, list[Tag]]) -> str:
    """Returns the text with each tag in its place."""
    return segments.join(
        [
            insert(sentence, [(tag.place, tag.marker) for tag in inside.get(number, [])])
            for number, sentence in enumerate(segments.sentences)
        ]
    )


SPLIT = {
    "<b>All of it.</b>": {},
    "<p><i><b>All of it.</b></i></p>": {},
    "<b>One. Two.</b> Three.": {},
    "<b></b>Empty elements at the end.<i></i>": {},
    "<!-- c -->Here it is.": {},
    "It is <b>cold</b> today.": {0: ["<b>", "</b>"]},
    "<b>It is</b> cold.": {0: ["<b>", "</b>"]},
    "It is <b>cold.</b>": {0: ["<b>", "</b>"]},
    "It is <b>cold. Very</b> cold.": {0: ["<b>"], 1: ["</b>"]},
    "<i><b>It</b> is.</i>": {0: ["<b>", "</b>"]},
    "<b><i></i>It</b> is.": {0: ["<b>", "<i>", "</i>", "</b>"]},
    "See <img src='a.png'> here.": {0: ['<img src="a.png">']},
}


@pytest.mark.parametrize("text", SPLIT)
def test_only_tags_around_a_part_of_a_sentence_are_inside(text: str) -> None:
    words, segments, inside = split(text)
    found = {number: [words.span(tag.marker) for tag in tags] for number, tags in inside.items()}
    assert found == SPLIT[text]


def test_sentences_have_no_tags() -> None:
    _, segments, _ = split("<p>The <b>big <i>cat</i></b> sat.</p>")
    assert segments.sentences == ("The big cat sat.",)


def test_tags_outside_of_their_sentence_have_no_place_in_it() -> None:
    _, segments, inside = split("It is <b>cold. Very</b> cold.")
    (start,), (end,) = inside[0], inside[1]
    assert start.partner > len(segments.sentences[0])
    assert end.partner < 0


PIECES = [*"ab. \n", "<b>", "</b>", "<i>", "</i>", "<p>", "</p>", "<img>", "<!--c-->", "A b. "]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_every_tag_keeps_its_place_in_the_source(text: str) -> None:
    markup = protect_html(text, set())
    words, segments, inside = split(text)
    assert not any(tag in words.text for tag in markup.tags)
    assert joined(segments, inside) == markup.text
    assert MARKER.findall(joined(segments, inside)) == MARKER.findall(markup.text)
