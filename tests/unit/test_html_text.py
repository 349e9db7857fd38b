"""HTML as a text with markers, and back."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from service.errors import InvalidRequestError
from service.text.html_text import MAX_ATTRIBUTES, plain_text, read_html, unescaped
from service.text.markup import BREAK, protect_markup
from service.text.protection import MARKER
from service.text.segmentation import split_sentences
from tests.text_tokenizers import unknown_characters

SAME = [
    "",
    "plain",
    "<p>Hello <b>big</b> world.</p><p>Second &amp; last &lt;x&gt;</p>",
    "<ul>\n<li>One</li>\n<li>Two <code>a &lt; b</code></li></ul>",
    '<a href="x?a=1&amp;b=2" title="&quot;q&quot;">here</a>',
    "<!-- c -->text<br>more",
    "<script>if(a<b){}</script>ok",
    '<p translate="no">Keep <b>this</b></p>',
    'Press <span class="ui notranslate">Save <b>now</b></span>.',
    " <b>Hello</b> world ",
    "\n\n<p>Hello</p>\n",
    "\u00a0<b>Hello</b>",
    "\u00a0",
    " \n",
    "{name} has 5 &lt; 6 {{ x }}",
    "<!DOCTYPE html>\n<html><head><title>Hi</title></head><body><p>x</p></body></html>",
    "<html><body>x</body></html>",
]


def restored(text: str, unknown: str = "") -> str:
    """Returns a text that a model has not changed."""
    found = protect_markup(read_html(text), unknown_characters(unknown))
    return found.restore(found.text)


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
    "the theory<sup>1</sup> says so<sup>[2]</sup>": ["<sup>1</sup>", "<sup>[2]</sup>"],
    "the 1<sup>st</sup> <b>b</b>ig house, un<b>happy</b>, Ann<b>a</b> 10 <b>6</b>": [],
}


@pytest.mark.parametrize("text", INDICES)
def test_index_and_its_base_are_one_span(text: str) -> None:
    found = protect_markup(read_html(text))
    assert found.restore(found.text) == text
    spans = [found.span(marker) for marker in MARKER.findall(found.text)]
    assert [each for each in spans if each[-1:] != ">" or "</" in each[1:]] == INDICES[text]


@pytest.mark.parametrize("text", SAME)
def test_well_formed_html_is_restored(text: str) -> None:
    assert restored(text, "<>&{}") == text


REPAIRED = {
    "Hello <b>open <i>cross</b> world</i>": "Hello <b>open <i>cross</i></b> world",
    "a < b & c": "a &lt; b &amp; c",
    "<<<": "&lt;&lt;&lt;",
    "<p>one<p>two": "<p>one</p><p>two</p>",
    "Caf&eacute;&nbsp;x": "Caf\u00e9\u00a0x",
    "&nbsp;<b>Hello</b>": "\u00a0<b>Hello</b>",
}


@pytest.mark.parametrize("text", REPAIRED)
def test_malformed_html_is_repaired(text: str) -> None:
    assert restored(text) == REPAIRED[text]


def test_doctype_without_a_space_begins_a_document() -> None:
    """Some minifiers write such a doctype."""
    text = "<!doctypehtml><html><head><title>Hi</title></head><body><p>x</p></body></html>"
    assert restored(text).endswith(text.removeprefix("<!doctypehtml>"))


def test_blocks_end_sentences_and_line_breaks_do_not() -> None:
    found = protect_markup(read_html("<p>The big\ncat <b>sat</b>\nhere</p><div>The end</div>"))
    sentences = [MARKER.sub("", each) for each in split_sentences(found.text, "en").sentences]
    assert sentences == ["The big cat sat here", "The end"]


def test_words_of_html_have_no_tags() -> None:
    assert plain_text("<p>Caf&eacute; <b>and</b></p>").split() == ["Caf\u00e9", "and"]


PIECES = [*"ab <>/&;!-='\n\x1e", "<b>", "</b>", "<p>", "</p>", "<!--", "<i x='"]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_no_text_fails_and_the_result_parses(text: str) -> None:
    found = restored(text, "<>")
    assert BREAK not in found
    html.fragment_fromstring(found, create_parent="div")
    assert restored(found, "<>") == found


@pytest.mark.parametrize(
    "text",
    [
        "<html><body>hi</body></html>text after",
        "<p>abc</p></body></html><p>def</p>",
        "foo</body><!-- c -->bar",
        "</html>abc",
        "<html><body>hi</body><!-- a --></html><!-- b -->",
        "<!-- a --><html><body>x</body></html>",
        "<script>'</body>'</script>one</body>two",
    ],
)
def test_text_after_the_last_tag_is_kept(text: str) -> None:
    assert re.sub("<[^!>]*>", "", restored(text)) == re.sub("<[^!>]*>", "", text)


@pytest.mark.parametrize("start", ["\ufeff", "<!-- a -->", '<?xml version="1.0"?>'])
def test_document_may_begin_with_something_else(start: str) -> None:
    text = '<!DOCTYPE html>\n<html lang="en"><head></head><body><p>x</p></body></html>'
    found = restored(start + text)
    assert '<html lang="en">' in found
    assert "<!DOCTYPE html>" in found


@pytest.mark.parametrize("reference", ["&#1;", "&#30;", "&#xFFFF;", "&#x1E"])
def test_references_to_control_characters_are_left_out(reference: str) -> None:
    assert restored(f"a{reference}<b>x</b> &#65;") == "a<b>x</b> A"


def test_reference_of_any_length_is_read() -> None:
    assert unescaped(f"&#{'1' * 5000};a") == "\ufffda"
    assert unescaped("&#0000000065;&#x000000041;&amp;") == "AA&"
    assert "world" in restored(f"Hello &#{'1' * 5000}; world")


@pytest.mark.parametrize("text", ["a" + " " * 200_000 + "b", "<!--" * 100_000, "</body>" * 50_000])
def test_long_runs_take_little_time(text: str) -> None:
    """Each of these texts took minutes, or would with time that grows with the square."""
    begin = time.process_time()
    protect_markup(read_html(text))
    assert time.process_time() - begin < 20


@pytest.mark.parametrize(
    "attributes", [" a{}", " a{}=1", " a{}='>'", '/a{}="<b>"', ' a{}="1"b{}= ">"', " < a{} '"]
)
@pytest.mark.parametrize("tag", ["<b{}>x</b>", "<script{}>a</script>", "<!-- --><i{}"])
def test_tag_with_very_many_attributes_is_refused(tag: str, attributes: str) -> None:
    """The parser compares each attribute with all others: 277 kB once took 3.6 s."""
    given = "".join(attributes.replace("{}", str(number)) for number in range(MAX_ATTRIBUTES + 1))
    with pytest.raises(InvalidRequestError, match="attributes; the limit is 1000"):
        read_html(tag.replace("{}", given))


@pytest.mark.parametrize(
    "text", ["<script>if (a<b) {}</script>", '<b c="{}">x</b>', "<!-- <b {}-->"]
)
def test_long_scripts_values_and_comments_are_no_attributes(text: str) -> None:
    assert read_html(text.replace("{}", "word = x " * 2 * MAX_ATTRIBUTES))
