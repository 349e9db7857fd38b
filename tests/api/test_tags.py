"""Tags come back where they were, as the built-in models translate the words around them."""

import re
from typing import Any

import pytest

from tests.api.servers import Server
from tests.api.test_deepl import translations
from tests.api.test_document_formatting import shown, translated
from tests.archives import docx, members, odt, run

pytestmark = pytest.mark.checkpoint


def html(server: Server, text: str, **fields: Any) -> str:
    response = server.translate(text, format="html", **fields)
    assert response.status_code == 200, response.text
    found: str = response.json()["translatedText"]
    return found


def xml(server: Server, text: str, **fields: Any) -> str:
    found: str = translations(server, text, tag_handling="xml", **fields)[0]["text"]
    return found


def plain(server: Server, text: str) -> str:
    found: str = server.translate(text).json()["translatedText"]
    return found


INDICES = {
    "A room of 48 m<sup>3</sup> is enough.": "48 m<sup>3</sup>",
    "Water has a mass of 2 × 10<sup>−26</sup> kg.": "10<sup>−26</sup>",
    "The energy is <i>E</i> = <i>mc</i><sup>2</sup> here.": "<i>mc</i><sup>2</sup>",
    "The element <sup>235</sup>U is rare.": "<sup>235</sup>U",
    "The value of T<sub>max</sub> is high.": "T<sub>max</sub>",
}


@pytest.mark.parametrize("text", INDICES)
def test_index_keeps_its_base(real_server: Server, text: str) -> None:
    kept = INDICES[text]
    assert kept in html(real_server, text)
    names = {"sup": "superScript", "sub": "x:down"}
    if not re.search("<i>|max", text):  # an index of letters has to be in `sup` or `sub`
        text, kept = (re.sub("su[pb]", lambda m: names[m[0]], each) for each in (text, kept))
        assert kept in xml(real_server, f'<p xmlns:x="x">{text}</p>')


def test_footnote_stays_behind_its_sentence(real_server: Server) -> None:
    text = 'The city grew fast.<sup><a href="#1">[1]</a></sup> It has two rivers.<sup>2</sup>'
    found = html(real_server, text)
    assert re.fullmatch(r'[^<]+\.<sup><a href="#1">\[1\]</a></sup> [^<]+\.<sup>2</sup>', found), (
        found
    )


def test_vertical_alignment_keeps_its_base(real_server: Server) -> None:
    up, down = (f'<w:vertAlign w:val="{name}script"/>' for name in ("super", "sub"))
    runs = [run("A room of 48 m"), run("3", up), run(" has CO"), run("2", down), run(" in it.")]
    document = members(translated(real_server, "a.docx", docx(f"<w:p>{''.join(runs)}</w:p>")))
    found = shown(document["word/document.xml"])
    assert [text[-2:] for text in found[:4:2]] == [" m", "CO"]
    assert found[1:4:2] == ["3", "2"]
    style = (
        '<style:style style:name="T1" style:family="text"><style:text-properties '
        'style:text-position="super 58%"/></style:style>'
    )
    body = '<text:p>There are 10<text:span text:style-name="T1">6</text:span> cells.</text:p>'
    content = members(translated(real_server, "a.odt", odt(body, style)))["content.xml"].decode()
    assert ' 10<text:span text:style-name="T1">6</text:span>' in content


INSIDE = [
    "The un<b>happy</b> man went home.",
    "Ann<b>a</b> lives in Paris.",
    "<b>O</b>nce upon a time there was a king.",
    "The <b>im</b><i>possible</i> plan worked.",
    "We saw three cat<b>s</b> there.",
]


@pytest.mark.parametrize("text", INSIDE)
def test_tag_inside_a_word_stays_inside_a_word(real_server: Server, text: str) -> None:
    without = re.sub("<[^>]*>", "", text)
    for found in (html(real_server, text), xml(real_server, text)):
        assert re.findall("<[^>]*>", found) == re.findall("<[^>]*>", text)
        assert re.sub("<[^>]*>", "", found) == plain(real_server, without)
        assert re.search(r"\w</?[bi]>(?:<[bi]>)?\w", found), found


ADJACENT = {
    "The <x>big</x><y>red</y> house is old.": "The big red house is old.",
    "<a>Home</a><b>Help</b> are the pages.": "Home Help are the pages.",
    "It is a <x>new</x><y><z>yellow</z></y> car.": "It is a new yellow car.",
}


@pytest.mark.parametrize("text", ADJACENT)
def test_words_of_adjacent_tags_stay_apart(real_server: Server, text: str) -> None:
    for found in (html(real_server, text), xml(real_server, text)):
        assert " ".join(re.sub("<[^>]*>", "", found).split()) == plain(real_server, ADJACENT[text])
        assert sorted(re.findall("<[^>]*>", found)) == sorted(re.findall("<[^>]*>", text))
        assert not re.search("<([a-z])></\\1>", found), found


ATTRIBUTES = {
    '<img alt="{}" src="a.png">': "A red house",
    '<input type="text" placeholder="{}">': "Search here",
    '<meta name="description" content="{}">': "The history of the city",
    'It is <b title="{}">cold</b> today.': 'The "good" &amp; the bad',
    '<p>Good <img alt="{}"> morning. It is cold.</p>': "Hello {name}",
}


@pytest.mark.parametrize("text", ATTRIBUTES)
def test_attributes_that_people_read_are_translated(real_server: Server, text: str) -> None:
    value = ATTRIBUTES[text].replace('"', "&quot;")
    expected = plain(real_server, ATTRIBUTES[text].replace("&amp;", "&"))
    assert expected != ATTRIBUTES[text]
    expected = expected.replace("&", "&amp;").replace('"', "&quot;")
    for found in (
        html(real_server, text.replace("{}", value)),
        translations(real_server, text.replace("{}", value), tag_handling="html")[0]["text"],
    ):
        tag = text[text.index("<") : text.index("{}")].rpartition("<")[2].partition(" ")[0]
        assert re.search(f'<{tag}[^>]*="{re.escape(expected)}"', found), found


def test_word_behind_a_tag_has_its_case(real_server: Server) -> None:
    assert html(real_server, "(<i>see below</i>)") == "(<i>ver abaixo</i>)"
    assert html(real_server, "(<i>See below</i>)") == "(<i>Veja abaixo</i>)"


ENTITIES = [
    ("<p>&nbsp;</p><p>The cat.&nbsp;</p>", "<p>&nbsp;</p><p>O gato.&nbsp;</p>"),
    ("<!DOCTYPE html><html>&euro;</html>", "<!DOCTYPE html><html>&euro;</html>"),
]


@pytest.mark.parametrize(("text", "expected"), ENTITIES)
def test_entities_of_html_are_kept_in_xml(real_server: Server, text: str, expected: str) -> None:
    assert xml(real_server, text) == expected


def said(text: str) -> str:
    return text.replace("Good morning", "Bom dia").replace("Good night", "Boa noite")


PARAGRAPHS = ["Good morning\n\nGood night", "Good morning\n- Good night\n- Good morning"]


@pytest.mark.parametrize("text", PARAGRAPHS)
def test_paragraphs_and_lists_of_html_stay(real_server: Server, text: str) -> None:
    assert html(real_server, text) == said(text)


def test_line_break_inside_a_sentence_is_a_space_unless_lines_are_split(
    real_server: Server,
) -> None:
    text = "<p>The <b>cat</b>\n  is in the\n garden.</p>"
    joined = xml(real_server, text.replace("\n", ""))
    assert html(real_server, text) == joined
    for split in ("nonewlines", "0"):
        assert xml(real_server, text, split_sentences=split) == joined
    assert xml(real_server, text).count("\n") == 2
    html_lines = translations(real_server, text, tag_handling="html", split_sentences="1")
    assert html_lines[0]["text"].count("\n") == 2
