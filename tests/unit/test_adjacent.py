"""Indices stay with their bases, and words that only tags separate stay apart."""

import pytest

from service.text.adjacent import join_indices, separated
from service.text.html_text import read_html
from service.text.markup import Kind
from service.text.xml_text import XmlRules, read_xml

INDICES = {
    "There are 10<sup>6</sup> cells": ["10<sup>6</sup>"],
    "6 × 10<sup>−34</sup> J": ["6 × 10<sup>−34</sup>"],
    "H<sub>2</sub>O and C<sub>6</sub>H<sub>12</sub>O<sub>6</sub>.": [
        "H<sub>2</sub>O",
        "C<sub>6</sub>H<sub>12</sub>O<sub>6</sub>",
    ],
    "SO<sub>4</sub><sup>2−</sup> &amp; 10 m<sup>3</sup>": [
        "SO<sub>4</sub><sup>2−</sup>",
        "m<sup>3</sup>",
    ],
    "log<sub>10</sub>(x), x<sub>i</sub>, a<sub>n+1</sub>": [
        "log<sub>10</sub>",
        "x<sub>i</sub>",
        "a<sub>n+1</sub>",
    ],
    'm<b id="7">2</b>': ['m<b id="7">2</b>'],
    "48 m<superscript>3</superscript> of gas": ["m<superscript>3</superscript>"],
    "the theory<sup>1</sup> says so<sup>[2]</sup>": ["<sup>1</sup>", "<sup>[2]</sup>"],
    # A footnote after a full stop, in a link, or with a sign.
    "It is so.<sup>1</sup> And so<sup><a>[2]</a></sup>, or not<sup>*</sup>.": [
        "<sup>1</sup>",
        "<sup><a>[2]</a></sup>",
        "<sup>*</sup>",
    ],
    # The base is an element, or ends with a bracket.
    "<i>E</i> = <i>mc</i><sup>2</sup>, (x + 1)<sup>2</sup>": [
        "<i>mc</i><sup>2</sup>",
        "<sup>2</sup>",
    ],
    "the <i>theory</i><sup>3</sup>": ["<sup>3</sup>"],
    "P<sub>total</sub>, T<sub>max</sub>": ["P<sub>total</sub>", "T<sub>max</sub>"],
    "x<sub>i,j</sub> and 2<sup>1/2</sup>, k<sup>1.5</sup>": [
        "x<sub>i,j</sub>",
        "2<sup>1/2</sup>",
        "k<sup>1.5</sup>",
    ],
    "the word<sub>below</sub>, the year<b>ly</b> 5 <b>6</b>": [],
    "o 1<sup>o</sup>, le 2<sup>e</sup>, a 3<sup>ª</sup>, not 2<sup>n</sup>": ["2<sup>n</sup>"],
    "the 1<sup>st</sup> <b>b</b>ig house, un<b>happy</b>, Ann<b>a</b> 10 <b>6</b>": [],
}


@pytest.mark.parametrize("text", INDICES)
def test_index_and_its_base_are_one_token(text: str) -> None:
    found = join_indices(read_html(text))
    assert [token.source for token in found if token.kind is Kind.OPAQUE] == INDICES[text]
    assert "".join(token.source for token in found) == text.replace("&amp;", "&")


def test_index_in_xml_may_have_any_name() -> None:
    found = join_indices(
        read_xml("48 m<superScript>3</superScript>, log<x:n>10</x:n>(x)", XmlRules())
    )
    indices = [token.source for token in found if token.kind is Kind.OPAQUE]
    assert indices == ["m<superScript>3</superScript>", "<x:n>10</x:n>"]


KNOWN = {"unhappy", "Hello", "transport", "cannot"}

SEPARATED = {
    "The <x>big</x><y>red</y> house": "The <x>big</x> <y>red</y> house",
    "<b>One.</b><i>Two</i> <b>3</b><i>kg</i>": "<b>One.</b> <i>Two</i> <b>3</b> <i>kg</i>",
    "<a>One <b>two</b></a><i><b>three</b></i>": "<a>One <b>two</b></a> <i><b>three</b></i>",
    'line one<img src="a">line two': 'line one <img src="a">line two',
    "<i>red</i><b></b><i>car</i>": "<i>red</i> <b></b><i>car</i>",
    "<b>Home</b><b>About</b><b>Help</b>": "<b>Home</b> <b>About</b> <b>Help</b>",
}

TOUCHING = [
    "un<b>happy</b>, <b>un</b>happy, <b>un</b><i>happy</i>",
    "<b>H</b><i>ello</i>, <u>trans</u><b>port</b>, <i>can</i><u>not</u>",
    "<b>big</b> <i>red</i>, <b>big</b>, <i>red</i>, <b>(</b><i>red</i>",
    "auto<!-- c -->mobile, auto<wbr>mobile",
    "<b>x</b><code>y</code><b>z</b>",
    "<b>\u732b</b><i>\u72ac</i>",
    "<p>One</p><p>Two</p>One<br>Two",
    "<b>3.</b><i>5</i>",
]


def written(text: str) -> str:
    tokens = separated(read_html(text), lambda word: 1 if word in KNOWN else len(word))
    return "".join(token.source for token in tokens)


@pytest.mark.parametrize("text", SEPARATED)
def test_words_that_only_tags_separate_stay_apart(text: str) -> None:
    assert written(text) == SEPARATED[text]


@pytest.mark.parametrize("text", TOUCHING)
def test_parts_of_a_word_stay_together(text: str) -> None:
    assert written(text) == text


def test_empty_elements_of_xml_separate_words() -> None:
    text = "First line<x/>second<x id='1'></x>third"
    found = separated(read_xml(text, XmlRules()))
    assert "".join(token.source for token in found) == ("First line <x/>second <x id='1'></x>third")
