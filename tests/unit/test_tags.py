"""Inline tags leave a text before its translation, and get their places in the translation."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from service.text.html_text import read_html
from service.text.markup import MarkupText, protect_markup
from service.text.protection import MARKER
from service.text.segmentation import Segments, one_sentence, split_sentences
from service.text.tags import Tag, WordAttention, distribute, insert, lift, place_tags


def split(text: str) -> tuple[MarkupText, Segments, dict[int, list[Tag]]]:
    words, tags = lift(protect_markup(read_html(text)))
    segments, inside = distribute(split_sentences(words.text, "en"), tags)
    return words, segments, inside


def joined(segments: Segments, inside: dict[int, list[Tag]]) -> str:
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
    "See <img src='a.png'> here.": {0: ["<img src='a.png'>"]},
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
    markup = protect_markup(read_html(text))
    words, segments, inside = split(text)
    assert not any(tag in words.text for tag in markup.tags)
    assert joined(segments, inside) == markup.text
    assert MARKER.findall(joined(segments, inside)) == MARKER.findall(markup.text)


WORD = re.compile(r"\w+|[^\w\s]")


def attention(source: str, target: str, pairs: Sequence[int]) -> WordAttention:
    """Returns the attention of a sentence; `pairs` has the source word of each target word."""
    source_words = [match.span() for match in WORD.finditer(source)]
    target_words = [match.span() for match in WORD.finditer(target)]
    weights = np.full((len(target_words), len(source_words)), 0.1, np.float32)
    weights[np.arange(len(pairs)), list(pairs)] = 5.0
    return WordAttention(source, target, source_words, target_words, weights)


def translated(source: str, *translations: tuple[str, Sequence[int]]) -> str:
    """Returns a translation with the tags of the source.

    Each sentence has its translation without tags, with the `pairs` of `attention`.
    """
    words, tags = lift(protect_markup(read_html(source)))
    segments, inside = distribute(split_sentences(words.text, "en"), tags)
    found = [
        insert(target, place_tags(inside.get(number, []), attention(sentence, target, pairs)))
        for number, (sentence, (target, pairs)) in enumerate(
            zip(segments.sentences, translations, strict=True)
        )
    ]
    return words.restore(segments.join(found))


MOVED = {
    ("It is <b>cold</b> today.", "Está frio hoje.", (1, 2, 3, 4)): "Está <b>frio</b> hoje.",
    # Words change their order, and their elements too.
    ("a <b>red</b> <i>car</i>", "um carro vermelho", (0, 2, 1)): (
        "um <i>carro</i> <b>vermelho</b>"
    ),
    # An element stays whole if its words are apart.
    ("the <b>big dog</b> x", "o grande x dog", (0, 1, 3, 2)): "o <b>grande</b> x dog",
    # Elements stay inside the elements that surround them.
    ("<a>one <b>two</b></a> three", "dois tres um", (1, 2, 0)): "<a><b>dois</b> tres um</a>",
    # Punctuation at the ends stays outside, as in the source.
    ("<b>Hello</b>, world", "Olá, mundo", (0, 0, 2)): "<b>Olá</b>, mundo",
    # An element with words surrounds a word, even if a mark attends more to its words.
    ("the <b>world</b>", "¡mundo", (1, 0)): "¡<b>mundo</b>",
    ("Hello<b>,</b> how", "Olá, como", (0, 1, 2)): "Olá<b>,</b> como",
    # Marks after the last mark of an element are outside of it.
    ("go <b>(in cash)</b>.", "ir (a vista).", (0, 1, 2, 3, 4, 4)): "ir <b>(a vista)</b>.",
    # A tag without content stays between its neighbours, with its spaces.
    ("one <img> two", "um dois", (0, 1)): "um <img> dois",
    ("one<img> two", "um dois", (0, 1)): "um<img> dois",
    ("one <i></i> two", "um dois", (0, 1)): "um <i></i> dois",
    ("one <a><i></i></a> two", "um dois", (0, 1)): "um <a><i></i></a> dois",
    ("one <img><img> two", "um dois", (0, 1)): "um <img><img> dois",
    ("one <img> <i></i> two", "um dois", (0, 1)): "um <img> <i></i> dois",
    ("one <img>, two", "um dois", (0, 2)): "um <img> dois",
    ("one <img>, two", "um, dois", (0, 1, 2)): "um <img>, dois",
    ("one <img>, two", "um", (0,)): "um <img>",
    # An element without words stays an element.
    ("one <b></b>two", "um dois", (0, 1)): "um <b></b>dois",
    # A numeral is found by its spelling, whatever it attends to.
    ("in <b>1994</b> he", "ele em 1994", (2, 0, 2)): "ele em <b>1994</b>",
    # An element does not surround punctuation alone.
    ("one <b>two</b> three", "um, tres", (0, 1, 2)): "<b>um</b>, tres",
    # An element whose words have no translation surrounds the word that attends to them most.
    ("the <b>very</b> old", "velho", (2,)): "<b>velho</b>",
}


# A tag inside a word has as many letters beside it as in the source, on the shorter side.
INNER = {
    ("the un<b>happy</b> dog", "o cão infeliz", (0, 2, 1)): "o cão in<b>feliz</b>",
    ("Ann<b>a</b> sings", "Anna canta", (0, 1)): "Ann<b>a</b> canta",
    ("Ann<b>a</b> sings", "Ana canta", (0, 1)): "An<b>a</b> canta",
    ("<b>b</b>ig house", "casa grande", (1, 0)): "casa <b>g</b>rande",
    ("<b>O</b>nce upon", "Era uma", (0, 1)): "<b>E</b>ra uma",
    ("house<b>s</b> are", "as casas são", (0, 0, 1)): "as casa<b>s</b> são",
    ("the 1<sup>st</sup> place", "o 1º lugar", (0, 1, 2)): "o 1<sup>º</sup> lugar",
    ("the 100<sup>th</sup> man", "o 100o homem", (0, 1, 2)): "o 100<sup>o</sup> homem",
    ("the 21<sup>st</sup> man", "o homem XXI", (0, 2, 1)): "o homem XXI<sup></sup>",
    ("May 3<sup>rd</sup>, we", "no dia 3, maio", (1, 1, 1, 2, 0)): "no dia 3<sup></sup>, maio",
    ("a 5<b>kg</b> bag", "saco de 5 kg", (2, 0, 1, 1)): "saco de 5 <b>kg</b>",
    ("<i><sup>235</sup>U</i> here", "235U aqui", (0, 1)): "<i><sup>235</sup>U</i> aqui",
    # Elements that share a word share its translation.
    ("<b>un</b><i>happy</i> dog", "cão infeliz", (1, 0)): "cão <b>in</b><i>feliz</i>",
    ("un<b>h<i>ap</i>py dog</b>", "cão infeliz", (1, 0)): "cão in<b>f<i>el</i>iz</b>",
    # A word that is too short to be cut is inside the element.
    ("a<b>b</b>c <i>d</i>", "x y", (0, 1)): "<b>x</b> <i>y</i>",
    # Tags without content.
    ("super<wbr>natural it", "isso sobrenatural", (1, 0)): "isso sobre<wbr>natural",
    ("co<!-- c -->op here", "cooperativa aqui", (0, 1)): "co<!-- c -->operativa aqui",
    # Scripts without spaces: a word may be a sentence.
    ("<b>\u6211\u559c</b>\u6b22 it", "I like it", (0, 0, 1)): "<b>I like</b> it",
}


@pytest.mark.parametrize("case", INNER)
def test_tag_inside_a_word_stays_inside_a_word(case: tuple[str, str, tuple[int, ...]]) -> None:
    assert translated(case[0], case[1:]) == INNER[case]


@pytest.mark.parametrize("case", MOVED)
def test_tags_move_with_their_words(case: tuple[str, str, tuple[int, ...]]) -> None:
    assert translated(case[0], case[1:]) == MOVED[case]


def test_tags_that_cross_a_sentence_reach_its_ends() -> None:
    found = translated(
        "x <b>one two. Three four</b> five",
        ("x dois um.", (0, 2, 1, 3)),
        ("tres quatro cinco", (0, 1, 2)),
    )
    assert found == "x <b>dois um. tres quatro</b> cinco"


MIXED = [
    *("a ", "b ", "c, ", "de", "fgh", "D ", "1 "),
    *("<b>", "</b>", "<i>", "</i>", "<img>", "<!--c-->"),
]


@given(
    st.lists(st.sampled_from(MIXED), max_size=20).map("".join),
    st.lists(st.integers(0, 30), max_size=8),
)
def test_any_attention_keeps_every_tag_and_every_word(text: str, pairs: list[int]) -> None:
    words, tags = lift(protect_markup(read_html(text + "end")))
    segments, inside = distribute(one_sentence(words.text), tags)
    count = len(WORD.findall(segments.sentences[0]))
    target = " ".join(f"w{number}" for number in range(len(pairs)))
    found = translated(text + "end", (target, [number % count for number in pairs]))
    root = html.fragment_fromstring(found, create_parent="div")
    before = html.fragment_fromstring(
        words.restore(protect_markup(read_html(text)).text), create_parent="div"
    )
    assert sorted(str(each.tag) for each in root.iter()) == sorted(
        str(each.tag) for each in before.iter()
    )
    assert WORD.findall(root.text_content()) == WORD.findall(target)
