"""Catalogues: values that are code stay, fuzzy entries are translated anew, escapes are those of
the format.
"""

import json
from collections.abc import Callable
from html import escape, unescape

import pytest
import yaml

from service.documents.code_values import is_prose
from service.documents.formats import read_document
from service.documents.gettext import read_po
from tests.archives import upper


def rewrite(name: str, text: str, change: Callable[[str], str], language: str = "") -> str:
    document = read_document(name, text.encode())
    return document.write([change(each) for each in document.texts()], language).decode()


CODE = (
    "fa fa-home|rgb(255, 0, 0)|2024-01-01T00:00:00Z|true|https://x.y|#fff|a@b.c|btn btn-primary|"
    "icon icon-lg icon-home|calc(100% - 10px)|1px solid red|0 0 5px rgba(0,0,0,.5)|en-US|pt_BR|"
    "image/png|utf-8|fooBar|foo_bar|app.title|YYYY-MM-DD|dd/MM/yyyy HH:mm|%Y-%m-%d|MMM D, YYYY|"
    "^[a-z]+$|./src/a.js|/api/users|v1.2.3|a1b2c3d4-0000-1111-2222-333344445555|10px auto|12px|"
    "linear-gradient(90deg, red, blue)|my-long-component|foo()|mailto:a@b.c|style.css|null|a/b/c|"
    "data:image/png;base64,AAAA|cubic-bezier(0.4, 0, 0.2, 1)|translateX(10px)|.nav-item|12.5"
).split("|")
PROSE = (
    "Hello|Home|sign-in|Yes|Add|Email*|Wait 5 seconds|Hello {name}!|E-mail|a well-known fact|"
    "Top left|Open file|min (x)|Max. size|Step 1: go|{count} items|Dr. No|Save & close|drop-down|"
    "red|Name:|HTML|Sat|5 items left|12 days ago|What's new?|Madam, add|10 of 20|iPhone 5|20% off|"
    "%d days|%d day|%s am|Yes/No|and/or|https://a.b is the address|"
    "<b>Bold</b> text|%d files|Price in US$|Wed, 01 Jan|C'est l'été"
).split("|")


@pytest.mark.parametrize("value", CODE)
def test_values_that_are_code_stay(value: str) -> None:
    text = json.dumps({"a": value, "b": [value, "Hello"]})
    assert rewrite("a.json", text, str.upper) == text.replace("Hello", "HELLO")


@pytest.mark.parametrize("value", PROSE)
def test_values_that_are_prose_are_translated(value: str) -> None:
    assert is_prose(value)


FUZZY = """msgid ""
msgstr "Language: en\\n"

#: a.c:1
#, fuzzy
#| msgid "old"
msgid "The cat"
msgstr "stale"

#, c-format, fuzzy
msgid "%d dog"
msgid_plural "%d dogs"
msgstr[0] "stale"
msgstr[1] "stale"

#, fuzzy, c-format
msgid "A"
msgstr ""
"stale "
"text"

# fuzzy is a word
#| msgid "old"
msgid "done"
msgstr "pronto"

#~ msgid "gone"
#~ msgstr "fora"
"""


def test_fuzzy_entries_are_translated_anew() -> None:
    written = rewrite("a.po", FUZZY, str.upper)
    assert "stale" not in written
    assert written.count("fuzzy") == 1
    assert '#: a.c:1\nmsgid "The cat"\nmsgstr "THE CAT"\n' in written
    assert '#, c-format\nmsgid "%d dog"' in written
    assert 'msgstr[0] "%D DOG"\nmsgstr[1] "%D DOGS"\n' in written
    assert '#, c-format\nmsgid "A"\nmsgstr "A"\n' in written
    assert written.endswith(FUZZY[FUZZY.index("# fuzzy is") :])


def test_flag_of_fuzzy_entries_is_kept_if_wished() -> None:
    document = read_po(FUZZY.encode(), keeps_fuzzy=True)
    written = document.write([text.upper() for text in document.texts()], "").decode()
    assert "stale" not in written
    assert [line for line in written.split("\n") if line.startswith("#")] == [
        line for line in FUZZY.split("\n") if line.startswith("#")
    ]


ESCAPES = [
    ("a.properties", "k=%s\n", 'Say \\u00e9\\tx \\= "y"\\n', 'SAY \\u00c9\\tX = "Y"\\n'),
    ("a.properties", "k : %s\n", "one \\\n   two", "ONE TWO"),
    ("a.properties", "é=%s\n", "ação", "AÇÃO"),
    ("a.properties", "  k  %s\r\n", "C:\\\\New files", "C:\\\\NEW FILES"),
    ("a.strings", '"k" = %s;\n', '"Say \\"hi\\"\\n"', '"SAY \\"HI\\"\\n"'),
    ("a.strings", "k.x=%s;\n", '"%@ of \\U00e9"', '"%@ OF É"'),
    ("a.arb", '{"k": %s}', '"Hi {name}"', '"HI {NAME}"'),
    ("a.json", '{"\u00e9": %s}', '"caf\\u00e9 \\"b\\""', '"CAF\\u00c9 \\"B\\""'),
    ("a.yml", "en:\n  k: %s\n", "'It''s so'", "'IT''S SO'"),
    ("a.yml", "en:\n  k: %s\n", '"a \\"b\\" c"', '"A \\"B\\" C"'),
    ("a.yml", "en:\n  k: %s\n", "|\n    One\n    two\n\n", "|\n    ONE\n    TWO\n\n"),
    ("a.yml", "en:\n  k: %s\n", ">-\n    One\n    two\n", ">-\n    ONE TWO\n"),
    ("a.yml", "en:\n  k: %s\n", ">\n    One\n      - two\n", "|\n    ONE\n      - TWO\n"),
    ("a.yml", "en:\n  k: [%s, 12]\n", "some text", "SOME TEXT"),
]


@pytest.mark.parametrize(("name", "line", "source", "written"), ESCAPES)
def test_escapes_of_catalogues(name: str, line: str, source: str, written: str) -> None:
    assert rewrite(name, line % source, str.upper) == line % written
    assert rewrite(name, line % source, str) == line % source


@pytest.mark.parametrize("value", ["a: b", "a #b", "- a", "yes", "12", "{a}", "'", "@a", "*", "é"])
def test_any_translation_is_a_text_of_yaml(value: str) -> None:
    for source in ("plain text", "'single'", '"double"', "|\n    some\n    lines\n"):
        written = rewrite("a.yml", f"en:\n  k: {source}\n  l: [plain text]\n", lambda _: value)
        read = yaml.safe_load(written)
        assert read["en"]["k"].strip() == value
        assert read["en"]["l"] == [value]


@pytest.mark.parametrize(
    ("name", "text", "language", "written"),
    [
        ("a.yml", "# a\n---\nen:\n  k: Hi\n", "pt-BR", "# a\n---\npt-BR:\n  k: Hi\n"),
        ("a.yml", "title: Hi\n", "pt", "title: Hi\n"),
        ("a.arb", '{"@@locale": "en"}', "pt-BR", '{"@@locale": "pt_BR"}'),
        ("a.po", 'msgid ""\nmsgstr ""\n"Language: en\\n"\n', "pt-BR",
         'msgid ""\nmsgstr ""\n"Language: pt_BR\\n"\n'),
        ("a.html", "<html lang='en'>Hi", "pt", "<html lang='pt'>Hi"),
    ],
)  # fmt: skip
def test_languages_are_named(name: str, text: str, language: str, written: str) -> None:
    assert rewrite(name, text, str, language) == written


def test_escapes_of_android() -> None:
    for source, text, reply, written in (
        (r"Don\'t", "Don't", "D'oh \"x\"", r"D\'oh \"x\""),
        (r'"Don\'t"', '"Don\'t"', '"a"', '"a"'),
        (r"a\nb  \u00e9", "a<br>b é", "x<br>é", r"x\né"),
        ("Hi <xliff:g>%1$s</xliff:g>!", 'Hi <code id="1"></code>!', '@ <code id="1"></code>',
         r"\@ <xliff:g>%1$s</xliff:g>"),
    ):  # fmt: skip
        page = '<resources xmlns:xliff="x"><string name="a">%s</string></resources>'
        document = read_document("strings.xml", (page % source).encode())
        assert document.texts() == [text]
        assert page % written in document.write([reply], "").decode()


def test_alias_of_yaml_is_not_expanded() -> None:
    bomb = "a: &a [Hello, Hello]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(24)
    )
    assert rewrite("a.yml", bomb, upper) == bomb.replace("Hello", "HELLO")


def test_anchor_of_yaml_is_kept() -> None:
    text = "a: &x Hello there\nb: *x\nc: &y 'Hello'\nd: &z |\n  Hello\n"
    assert rewrite("a.yml", text, str.upper) == text.replace("Hello", "HELLO").replace(
        "there", "THERE"
    )


def test_fuzzy_flag_of_a_removed_entry_is_its_own() -> None:
    text = (
        '#, fuzzy\n#~ msgid "gone"\n#~ msgstr "fora"\n\n#: a.c\nmsgid "a cat"\nmsgstr "um gato"\n'
    )
    assert rewrite("a.po", text, str.upper) == text


LINK = 'Read the <a href="https://a.b?c=d&amp;e" title="A title">terms</a> of <b>use</b>'
VALUES = {
    "a.json": '{"a": %s, "b": "One\\nTwo & {n}"}',
    "a.yml": "a: %s\nb: One & {n}\n",
    "a.properties": "a=%s\nb=One & {n}\n",
    "a.po": 'msgid %s\nmsgstr ""\n\nmsgid "One\\nTwo & {n}"\nmsgstr ""\n',
    "a.xml": "<resources><string>%s</string><string>One &amp; {n}</string></resources>",
    "a.resx": '<root><data name="a"><value>%s</value></data></root>',
    "a.xlf": '<xliff version="1.2"><trans-unit><source>%s</source></trans-unit></xliff>',
}


@pytest.mark.parametrize("name", VALUES)
def test_tags_in_values_move_with_their_words(name: str) -> None:
    is_xml = "<" in VALUES[name]
    source = escape(LINK) if is_xml else LINK if "prop" in name else json.dumps(LINK)
    document = read_document(name, (VALUES[name] % source).encode())
    text = 'Read the <span id="1">terms</span> of <span id="2">use</span>'
    assert document.texts()[0] == text
    reply = '<span id="2">Uso</span> dos <span id="1">termos</span>'
    others = [upper(each).replace("<BR>", "<br>") for each in document.texts()[1:]]
    written = document.write([reply, *others], "").decode()
    wanted = '<b>Uso</b> dos <a href="https://a.b?c=d&amp;e" title="A title">termos</a>'
    assert (unescape(unescape(written)) if is_xml else written.replace("\\", "")).count(
        unescape(wanted) if is_xml else wanted
    ) == 1
    if others:
        assert "&amp; {N}" in written or "& {N}" in written
    same = read_document(name, (VALUES[name] % source).encode())
    if name != "a.po" and not is_xml:
        assert same.write(same.texts(), "").decode() == VALUES[name] % source


def test_value_with_tags_keeps_its_tabs_and_plain_characters() -> None:
    text = json.dumps({"a": "&Save\t<b>a</b> & b", "c": "d\te\nf", "g": "h &lt; <b>i & j</b>"})
    document = read_document("a.json", text.encode())
    assert document.texts()[1] == "d<hr>e<br>f"
    replies = [f"{each} x" for each in document.texts()]
    assert json.loads(document.write(replies, "")) == {
        "a": "&Save\t<b>a</b> & b x",
        "c": "d\te\nf x",
        "g": "h &lt; <b>i &amp; j</b> x",
    }


def test_message_with_tags_is_a_message() -> None:
    text = json.dumps({"a": "{n, plural, one {<b>#</b> cat} other {<b>#</b> cats}}"})
    assert read_document("a.json", text.encode()).texts()[0].startswith("{n, plural, one {&lt;b")


@pytest.mark.parametrize("value", ["See <0>it</0>", "<p>One</p>", "<b>One", "One</b>", "a </b> b"])
def test_other_tags_in_values_are_characters(value: str) -> None:
    text = json.dumps({"a": value, "b": "A <b>cat</b>\nB"})
    first, second = read_document("a.json", text.encode()).texts()
    assert unescape(first) == value
    assert second == 'A <span id="1">cat</span><br>B'
    assert rewrite("a.json", text, lambda each: each.replace("cat", "dog")) == text.replace(
        "cat", "dog"
    )


def test_doubled_apostrophes_of_java_are_single_in_texts() -> None:
    """A model left the words after `''` out."""
    data = b"a=It''s {0}\nb=Open {0}\nc=It's on\nd=Use '{'x'}' {0}: it''s\n"
    document = read_document("a.properties", data)
    assert document.texts() == ["It's {0}", "Open {0}", "It's on", "Use '{'x'}' {0}: it''s"]
    written = document.write(["d'{0}", "l'{0}", "o'", "d'{0}"], "")
    assert written == b"a=d''{0}\nb=l''{0}\nc=o'\nd=d'{0}\n"


@pytest.mark.parametrize("end", ["", "\n", "\r\n\r\n"])
@pytest.mark.parametrize(
    "start", ["", "\ufeff<?xml version='1.0' encoding=\"utf-8\"?>\n\n<!-- a -->\n\n"]
)
def test_xml_keeps_its_start_its_end_and_its_sections(start: str, end: str) -> None:
    value = "<![CDATA[One <b>two</b>]]>"
    text = f'{start}<resources>\n <string name="a">{value}</string></resources>{end}'
    assert rewrite("a.xml", text, str) == text
    reply = 'UM <span id="1">DOIS</span>'
    assert rewrite("a.xml", text, lambda _: reply) == text.replace("One <b>two", "UM <b>DOIS")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_xml_in_utf_16_stays_readable(encoding: str) -> None:
    mark = "" if encoding == "utf-16" else "\ufeff"
    start = f'{mark}<?xml version="1.0" encoding="utf-16"?>'
    text = f"{start}<resources><string>One</string></resources>\n"
    written = read_document("a.xml", text.encode(encoding)).write(["Um"], "")
    assert read_document("a.xml", written).texts() == ["Um"]
