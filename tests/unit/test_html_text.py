"""HTML as a text with markers, and back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from service.text.attributes import values_in
from service.text.entities import unescaped
from service.text.html_text import plain_text, read_html
from service.text.letters import BREAK
from service.text.markup import Kind, protect_markup
from service.text.protection import MARKER
from service.text.segmentation import split_sentences
from tests.markup_kinds import kinds
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
    "\n <!DOCTYPE html>\n\n<html>\n<head>\n</head>\n<body>\n<p>x</p>\n</body>\n</html>\n",
    "<!-- a -->\n<!DOCTYPE html>\n<!-- b -->\n<html><body>x</body></html>\n<!-- c -->\n",
    "\ufeff<?xml version='1.0'?>\n<html><body>x</body></html>\n",
    "30k of <notranslate>Acme <b>Corp</b></notranslate> revenue",
    'Keep <i translate="no">a <b translate="yes">red <u>house</u></b> b</i>',
    '<textarea placeholder="A &lt;b&gt;" rows="3">x</textarea>',
    "The <x>big</x><y>red</y> house",
    "<P CLASS=a>One <BR/>two <IMG SRC='x y'\nid=z></P>",
    "Hello <Name/>, <o:p>see</o:p> <noscript>it</noscript>.",
    '<b a="1" a="2">x</b>',
    "<!doctypehtml><html><head><title>Hi</title></head><body><p>x</p></body></html>",
]


def restored(text: str, unknown: str = "") -> str:
    """Returns a text that a model has not changed."""
    found = protect_markup(read_html(text), unknown_characters(unknown))
    return found.restore(found.text)


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
    "one</b> <I>two": "one <I>two</i>",
    "<tr><td>a<td>b<tr><td>c": "<tr><td>a</td><td>b</td></tr><tr><td>c</td></tr>",
    "<thead><th>a<tbody><td><p>b<td>c": (
        "<thead><th>a</th></thead><tbody><td><p>b</p></td><td>c</td></tbody>"
    ),
    "<li><p>a<li>b": "<li><p>a</p></li><li>b</li>",
    "<option>a<optgroup><option>b": "<option>a</option><optgroup><option>b</option></optgroup>",
    "<p>a<ul><li>b</ul><p>c": "<p>a<ul><li>b</li></ul><p>c</p>",
    "one</br>two": "one</br>two",
    "<b>a <i x='": "<b>a </b><i x='",
    "<b>a <!-- <i>": "<b>a </b><!-- <i>",
}


@pytest.mark.parametrize("text", REPAIRED)
def test_malformed_html_is_repaired(text: str) -> None:
    assert restored(text) == REPAIRED[text]


def test_dash_that_begins_a_block_stays() -> None:
    text = protect_markup(read_html("<p>Is it?</p><p>— <i>Yes</i></p>"))
    assert text.typography is not None
    assert text.typography.applied("- Sim") == "— Sim"


def test_blocks_end_sentences_and_line_breaks_do_not() -> None:
    found = protect_markup(read_html("<p>The big\ncat <b>sat</b>\nhere</p><div>The end</div>"))
    segments = split_sentences(found.text, "en", at_line_breaks=False)
    sentences = [MARKER.sub("", each) for each in segments.sentences]
    assert sentences == ["The big\ncat sat\nhere", "The end"]


PARAGRAPHS = {
    "Good morning\n\nGood night": 2,
    "Good morning\r\n \r\nGood night": 2,
    "To buy:\n- milk\n* eggs\n  1. bread": 4,
    "the big\n-cat and\n12 dogs": 1,
    "the big\r\ncat\r\n  and dogs": 1,
    "the <b>big</b>\n\n<i>cat</i>\n\n": 1,
    "\n\nthe cat\n": 1,
}


@pytest.mark.parametrize("text", PARAGRAPHS)
def test_blank_lines_and_list_items_end_sentences(text: str) -> None:
    found = protect_markup(read_html(text), ends_paragraphs=True)
    segments = split_sentences(found.text, "en", at_line_breaks=False)
    assert len(segments.sentences) == PARAGRAPHS[text]
    assert found.restore(segments.join(segments.sentences)) == text


SPANS = {
    "won <b>88</b>% of it": [],
    "a {<b>x</b>} {y}<i>z</i> %s": ["{y}", "%s"],
    "<b>5</b>%s and <i>a</i>%s": ["%s"],
    "<b>see</b> <i>http://a.com</i>/b": ["http://a.com"],
    "<b>5</b>{x}": ["{x}"],
}


@pytest.mark.parametrize("text", SPANS)
def test_words_with_tags_inside_are_read_whole(text: str) -> None:
    """In `88</b>% of`, the text `% of` was taken for a placeholder of printf."""
    found = protect_markup(read_html(text))
    assert [span for span in found.spans if span[0] != "<"] == SPANS[text]
    assert found.restore(found.text) == text


VALUES = {
    '<img alt="A red house"><input placeholder="Search" title="Find &quot;it&quot;">': (
        ["A red house", "Search", 'Find "it"']
    ),
    '<table summary="Prices"><tr><td></table><option label="One">': ["Prices", "One"],
    '<input type="submit" value="Send"><input type="RESET" value="Clear">': ["Send", "Clear"],
    '<input value="Send"><input type="text" value="Send"><button value="Send">': [],
    '<meta name="Description" content="A page"><meta property="og:title" content="A title">': (
        ["A page", "A title"]
    ),
    '<meta name="viewport" content="width"><meta charset="utf-8"><img alt="1 2"><a title="">': [],
    '<svg aria-label="Close"><path/></svg><code title="A name">x</code>': ["Close", "A name"],
    '<p translate="no" title="Keep"><img alt="Keep"><b translate="yes" title="Not">x</b></p>': (
        ["Not"]
    ),
    '<i class="a notranslate" title="Keep">x</i><notranslate title="Note">x</notranslate>': (
        ["Note"]
    ),
    '<img alt="A house"><img alt="A house">': ["A house"],
}


@pytest.mark.parametrize("text", VALUES)
def test_values_that_people_read_are_texts(text: str) -> None:
    found = protect_markup(read_html(text))
    assert values_in(found.spans) == VALUES[text]
    found.values.update({each: f"<{each}>" for each in VALUES[text]})
    written = found.restore(found.text)
    values = [value for each in html.fragments_fromstring(written) for value in attributes(each)]
    assert [value[1:-1] for value in values if value[:1] == "<"] == (
        VALUES[text] * (2 if text.count("house") == 2 else 1)
    )
    assert all(value in plain_text(text).split("\n") for value in VALUES[text])


def attributes(root: html.HtmlElement) -> list[str]:
    return [value for each in root.iter() for value in each.attrib.values()]


TRANSLATED = {
    'a <i translate="no">b <b translate="yes">c</b> d</i> e': ["a ", "c", " e"],
    '<p class="notranslate">a <u>b</u><b translate="yes">c <i>d</i></b></p>e': ["c ", "d", "e"],
    '<p translate="no">a<b translate="yes">c<i translate="no">d</i></b></p>': ["c"],
    '<code translate="no">a <b translate="yes">b</b></code> c': [" c"],
    '<p translate="no"><code><b translate="yes">b</b></code></p>c': ["c"],
    '<p translate="no"><b>a</b><!-- b -->c</p>d': ["d"],
    "<notranslate>a <b>b</b></notranslate> c": [" c"],
}


@pytest.mark.parametrize("text", TRANSLATED)
def test_translate_yes_inside_no(text: str) -> None:
    tokens = read_html(text)
    assert [token.source for token in tokens if token.kind is Kind.TEXT] == TRANSLATED[text]
    assert restored(text) == text


UNKNOWN = {
    "48 m<superScript>3</superScript>": "totc",
    "The <x>big</x><y>red</y><z>x</z> house": "totcotcotct",
    "<my-card>One</my-card><my-card>Two</my-card>": "BtBBtB",
    "<my-card><p>One</p></my-card>": "BBtBB",
    "Press <my-key><b>X</b></my-key>": "tootcc",
    "<p><b>One</b> two.<o:p></o:p></p>": "BotctocB",
    "<x:body><x:p>One <x:b>two</x:b></x:p></x:body>": "BBtotcBB",
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_unknown_elements_beside_words_are_inside_sentences(text: str) -> None:
    assert kinds(read_html(text)) == UNKNOWN[text]


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


@pytest.mark.parametrize("reference", ["&#1;", "&#30;", "&#xFFFF;", "&#x1E"])
def test_references_to_control_characters_are_left_out(reference: str) -> None:
    assert restored(f"a{reference}<b>x</b> &#65;") == "a<b>x</b> A"


def test_words_beside_a_form_feed_stay_apart() -> None:
    assert restored("a\fb\v<b\fid=c>d\0e</b>") == "a b <b id=c>de</b>"


def test_reference_of_any_length_is_read() -> None:
    assert unescaped(f"&#{'1' * 5000};a") == "\ufffda"
    assert unescaped("&#0000000065;&#x000000041;&amp;") == "AA&"
    assert "world" in restored(f"Hello &#{'1' * 5000}; world")


@pytest.mark.parametrize(
    "attributes", [" a{}", " a{}=1", " a{}='>'", '/a{}="<b>"', ' a{}="1"b{}= ">"', " < a{} '"]
)
@pytest.mark.parametrize(
    "tag", ["<b{}>x</b>", "<script{}>a</script>", "<!-- --><i{}", "<!-- {}-->"]
)
def test_tag_with_very_many_attributes_is_restored(tag: str, attributes: str) -> None:
    text = tag.replace("{}", "".join(attributes.replace("{}", str(n)) for n in range(2000)))
    assert restored(text) == text
