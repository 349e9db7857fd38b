"""Documents of plain text: all bytes outside of the translated texts stay the same."""

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.documents.base import DocumentError, UnsupportedFormatError, wrap
from service.documents.formats import FORMATS, Document, read_document
from service.text.html_text import plain_text
from service.text.letters import has_letters
from tests.archives import upper

TEXTS: dict[str, str] = {
    ".txt": "Title\r\n\r\n  An indented line.\r\nAnother line.  \r\n\r\n12 345\r\n\r\n"
    "This paragraph has been wrapped by an editor that puts\r\n"
    "every word that does not fit into the next line, until\r\nthe paragraph ends.\r\n",
    ".md": """---
title: Untouched
---
# A heading #

A *paragraph* that
goes on [here](https://example.org).\x20\x20
After a break.

Underlined
----------

- an item
  that continues
- [ ] a task
  1. a numbered item

> a quote
> that goes on

```python
print("Hello")
```

    indented code

| Name | Number |
|------|--------|
| A cat | 12 |

<pre class="x">
kept as it is
</pre>

[link]: https://example.org "Title"
* * *
""",
    ".srt": "1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>The cat sat\r\non the mat.</i>\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000 X1:1 X2:2\r\n- Hello!\r\n- {\\an8}Good morning!\r\n\r\n"
    "3\r\n00:00:05,000 --> 00:00:06,000\r\n42\r\n\r\n"
    "4\r\n00:00:07,000 --> 00:00:08,000\r\nFirst\r\n\r\norphan line\r\n",
    ".vtt": "WEBVTT - a title\n\nSTYLE\n::cue { color: red }\n\nNOTE a comment\n\nintro\n"
    "00:01.000 --> 00:02.000 align:start\n<v Ann>The cat sat</v>\n\n"
    "01:00:03.000 --> 01:00:04.000\nThe dog\nran away.\n",
    ".ass": "[Script Info]\nTitle: Kept\n\n[V4+ Styles]\nFormat: Name\nStyle: Kept\n\n"
    "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    "Dialogue: 0,0:00:01.00,0:00:02.50,Kept,,0,0,0,,{\\an8}{\\i1}Dear{\\i0} you,\\Nhow are you?\n"
    "Dialogue: 0,0:00:03.00,0:00:04.00,Kept,,0,0,0,,- One\\N- {kept}Two\n"
    "Dialogue: 0,0:00:05.00,0:00:06.00,Kept,,0,0,0,,{\\p1}m 0 0 l 100 0 b 5 5{\\p0}\n"
    "Comment: 0,0:00:07.00,0:00:08.00,Kept,,0,0,0,,Kept\n",
    ".po": '# A translator\'s comment\nmsgid ""\nmsgstr ""\n"Language: en\\n"\n'
    '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n#: file.c:1\n#, c-format\n'
    'msgid "The cat"\nmsgstr ""\n\nmsgctxt "menu"\nmsgid ""\n"Two "\n"lines\\n"\nmsgstr ""\n\n'
    'msgid "done"\nmsgstr "pronto"\n\n#| msgid "old"\nmsgid "%d cat"\n'
    'msgid_plural "%d cats"\nmsgstr[0] ""\nmsgstr[1] ""\n\n#~ msgid "gone"\n#~ msgstr "fora"\n',
    ".json": '{\n  "greeting": "Hello",\n  "nested": {"list": ["The cat", 3, null, true],\n'
    '    "escaped": "caf\\u00e9 \\"quoted\\"", "url": "https://example.org/a",\n'
    '    "number": "12", "empty": ""}\n}\n',
    ".arb": '{\n  "@@locale": "en",\n  "cat": "The cat",\n  "@cat": {"description": "Kept"}\n}\n',
    ".strings": '/* Kept "a" = "b"; */\n"key" = "The \\"cat\\"\\n";\n// kept\nother.key="A dog";\n',
    ".properties": "# kept\ntitle=The cat\nlong.key : A dog\\tran\n! kept=kept\nurl=a.b/c\n",
    ".yml": 'en:\n  cat: "The cat"\n  dog: A dog # kept\n  date: "%Y-%m-%d"\n  no: 12\n'
    "  lines: |\n    One line\n    Two lines\n\n  one: 'It''s one'\n  list: [First, Second]\n",
    ".html": "<!DOCTYPE html>\n<html lang='en'><head><title>A page</title>"
    "<script>var a = '<p>Hello</p>';</script><style>p { color: red }</style></head>\n<body>"
    "<p class=a>The <b>black</b> cat &amp; the dog&nbsp;here.<br>5 &lt; 6<!-- a comment --></p>\n"
    '<code>print</code><p translate="no">Regard</p><ul><li>one<li translate=no>two<li>three</ul>'
    '<img alt="A picture" src=x.png></body></html>\n',
}

TRANSLATED = {
    ".txt": ["TITLE", "AN INDENTED LINE.", "ANOTHER LINE."],
    ".md": ["A HEADING", "AFTER A BREAK.", "AN ITEM THAT CONTINUES", "A TASK", "A NUMBERED ITEM"],
    ".srt": ["THE CAT SAT ON THE MAT.", "HELLO!", "GOOD MORNING!"],
    ".vtt": ["THE CAT SAT", "THE DOG RAN AWAY."],
    ".ass": ['<span id="1">DEAR</span> YOU, HOW ARE YOU?', "ONE", "TWO"],
    ".po": ["THE CAT", "TWO LINES", "%D CAT", "%D CATS"],
    ".json": ["HELLO", "THE CAT", 'CAFÉ "QUOTED"'],
    ".arb": ["THE CAT"],
    ".strings": ['THE "CAT"', "A DOG"],
    ".properties": ["THE CAT", "A DOG\tRAN"],
    ".yml": ["THE CAT", "A DOG", "IT'S ONE", "FIRST", "SECOND"],
    ".html": [
        "A PAGE",
        'THE <span id="1">BLACK</span> CAT &amp; THE DOG\xa0HERE.',
        "ONE",
        "THREE",
        "A PICTURE",
    ],
}


def read(suffix: str, text: str) -> Document:
    return read_document(f"file{suffix}", text.encode())


def rewrite(suffix: str, text: str, change: Callable[[str], str]) -> str:
    document = read(suffix, text)
    return document.write([change(each) for each in document.texts()], "").decode()


@pytest.mark.parametrize("suffix", TEXTS)
def test_unchanged_texts_give_the_same_bytes(suffix: str) -> None:
    text = TEXTS[suffix]
    if suffix == ".po":  # an empty msgstr gets the text; the rest is the same
        without = text.replace('msgstr ""', "").replace('[0] ""', "").replace('[1] ""', "")
        assert "pronto" in without
        written = rewrite(suffix, text, str)
        assert [line for line in written.split("\n") if "msgstr" not in line] == [
            line for line in text.split("\n") if "msgstr" not in line
        ][: written.count("\n") + 1] or '"Two lines\\n"' in written
        return
    assert rewrite(suffix, text, str) == text


@pytest.mark.parametrize("suffix", TEXTS)
def test_texts_are_found_in_order(suffix: str) -> None:
    texts = [upper(text) for text in read(suffix, TEXTS[suffix]).texts()]
    assert "KEPT" not in "".join(texts)
    wanted = TRANSLATED[suffix]
    assert [text for text in texts if text in wanted] == wanted
    assert all(has_letters(text) for text in texts)


@pytest.mark.parametrize("suffix", TEXTS)
def test_translations_stand_in_the_place_of_the_texts(suffix: str) -> None:
    written = rewrite(suffix, TEXTS[suffix], upper)
    texts = read(suffix, TEXTS[suffix]).texts()
    if suffix == ".po":
        assert 'msgid "The cat"\nmsgstr "THE CAT"' in written
        assert 'msgstr "TWO LINES\\n"' in written
        assert 'msgstr "pronto"' in written
        assert 'msgstr[0] "%D CAT"\nmsgstr[1] "%D CATS"' in written
        assert read(suffix, written).texts() == []
        return
    assert read(suffix, written).texts() == [upper(text) for text in texts]
    if suffix not in (".json", ".html"):  # whose escapes and entities have letters
        assert written.upper() == TEXTS[suffix].upper()


CUE = "1\n00:00:01,000 --> 00:00:02,500\n"
PO = 'msgid "%s"\nmsgstr "%s"\n'
REPLIES = [  # the format, a document, its texts, their translations, and the written document
    (".html", "<p>a &amp; b</p>", ["a &amp; b"], ["1 < x & y"], "<p>1 &lt; x &amp; y</p>"),
    (
        ".html",
        "<P CLASS=a>One <B\nid='x'>two &amp; three</B > <!-- c -->four <IMG SRC=a>&nbsp;5.\n",
        ['One <span id="1">two &amp; three</span> <img id="2">four <img id="3">\u00a05.'],
        ['<img id="3"> 5 <span id="1">2 &lt; 3</span>'],
        "<P CLASS=a><IMG SRC=a> 5 <B\nid='x'>2 &lt; 3</B ><!-- c -->\n",
    ),
    (".html", "<p>See <code>a b ", ['See <code id="1"></code>'], ['<code id="1"></code> ver'],
     "<p><code>a b  ver"),
    (".html", "<p>See <code>a b ", ['See <code id="1"></code>'], ['Ver <code id="1"></code>'],
     "<p>Ver <code>a b "),
    (
        ".html",
        "<img alt=House title='A \"big\" one'><img alt = 'Dog' src=x>",
        ["House", 'A "big" one', "Dog"],
        ["Casa", 'Uma "grande"', "Dog"],
        '<img alt="Casa" title="Uma &quot;grande&quot;"><img alt = \'Dog\' src=x>',
    ),
    (
        ".html",
        '<p translate="no">a <span translate="yes">b <b>c</b></span> d</p><i>e</i>',
        ['b <span id="1">c</span>', "e"],
        ['x <span id="1">y</span>', "e"],
        '<p translate="no">a <span translate="yes">x <b>y</b></span> d</p><i>e</i>',
    ),
    # A page is written in the charset that it declares, unless it is UTF-8.
    *(
        (".html", f"{head}<p>open</p>", ["open"], ["é &lt;"], f"{head}<p>{written}</p>")
        for head, written in (
            ('<meta charset="koi8-r">', "&#233; &lt;"),
            ('<meta http-equiv="Content-Type" content="text/html; charset=Big5">', "&#233; &lt;"),
            ('<meta charset="UTF-8">', "é &lt;"),
            ("<!-- é --><meta charset=latin1>", "é &lt;"),
            ("", "é &lt;"),
        )
    ),
    (".html", "<p>Price:&nbsp;<img src=x></p>", ["Price:"], ["PRICE:"],
     "<p>PRICE:\u00a0<img src=x></p>"),
    (".po", PO % ("a\\n", ""), ["a"], [""], PO % ("a\\n", "\\n")),
    # A cue has balanced tags, and no empty line.
    (".srt", f"{CUE}Hi\n<i>there</i>\n", ['Hi <span id="1">there</span>'], ["Hi"],
     f"{CUE}<i>Hi</i>\n"),
    (".srt", f"{CUE}<i>Hi</i>\nthere\n", ['<span id="1">Hi</span> there'], ["Hi"],
     f"{CUE}<i>Hi</i>\n"),
    (".srt", f"{CUE}Go <i>left</i> then ->\n", ['Go <span id="1">left</span> then -&gt;'], ["GO"],
     f"{CUE}<i>GO</i>\n"),
    (".srt", f"{CUE}The cat sat\non it.\n\n2\n", ["The cat sat on it."], ["猫"], f"{CUE}猫\n\n2\n"),
    (".srt", f"{CUE}The cat sat\non it.\n", ["The cat sat on it."], ["a\nb\n\nc"],
     f"{CUE}a b\n c\n"),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "text", "texts", "replies", "written"), REPLIES)
def test_translations_are_written_as_their_format_has_them(
    suffix: str, text: str, texts: list[str], replies: list[str], written: str
) -> None:
    document = read(suffix, text)
    assert document.texts() == texts
    assert document.write(replies, "").decode() == written


def test_json_numbers_may_have_any_length() -> None:
    text = f'{{"number": {"1" * 5000}, "text": "Hello"}}'
    assert rewrite(".json", text, str) == text


@pytest.mark.parametrize("suffix", TEXTS)
def test_bytes_of_no_encoding_are_refused(suffix: str) -> None:
    with pytest.raises(DocumentError, match="UTF-8"):
        read_document(f"file{suffix}", bytes(range(1, 256)) * 3)


@pytest.mark.parametrize(
    ("suffix", "text", "message"),
    [
        (".json", "{", "not JSON"),
        (".json", "[" * 100_000 + "]" * 100_000, "too deep"),
        (".srt", "Just a text.", "no timings"),
        (".vtt", "Just a text.", "WEBVTT"),
        (".po", "Just a text.", "line 1"),
        (".po", 'msgid "a', "line 1"),
        (".po", '"a"', "line 1"),
        (".po", "", "no msgid"),
        (".po", f'msgid "a"\nmsgid_plural "b"\nmsgstr[{"1" * 5000}] ""\n', "line 3"),
        (".yml", "a: [b", "not YAML"),
        (".arb", "{", "not JSON"),
        (".strings", "hello", "no keys with values"),
        (".properties", "# a\n", "no keys with values"),
        (".xml", "<html/>", "the root <html>"),
        (".resx", "<a", "not well-formed XML"),
        (".ass", "Dialogue: 0,a", "a line Format"),
        (".pdf", "%PDF-1.4", "of the PDF cannot be read"),
    ],
)
def test_damaged_documents_are_refused(suffix: str, text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        read(suffix, text)


@pytest.mark.parametrize("name", ["program.exe", "README", "a.docx.zip", ""])
def test_unknown_extensions_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedFormatError, match="supported: .txt"):
        read_document(name, b"")


LINES = st.text(st.sampled_from("ab .é猫-*>#|`~<>&;[]{}:\"'\\\t\r\n1=_/!"), max_size=80)


@given(LINES)
@example(">\nword")
@example("word \\")
@example("a\r*\r1")
@pytest.mark.parametrize("suffix", [".txt", ".md", ".html"])
def test_any_text_comes_back(suffix: str, text: str) -> None:
    assert rewrite(suffix, text, str) == text


@given(st.recursive(st.text() | st.integers(), lambda each: st.dictionaries(st.text(), each)))
def test_any_json_comes_back(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        try:
            assert rewrite(".json", text, str) == text
        except UnicodeEncodeError:
            assert any(0xD800 <= ord(character) < 0xE000 for character in text)


@given(st.lists(st.text("abc", min_size=1), min_size=1, max_size=6), st.text("ab ", min_size=1))
def test_wrapping_keeps_all_words(contents: list[str], translation: str) -> None:
    lines = wrap(translation, contents)
    assert " ".join(lines) == translation.strip()
    assert len(lines) <= len(contents)
    assert wrap(" ".join(contents), contents) == contents


def test_extensions_are_read_in_any_case() -> None:
    assert set(TEXTS) <= set(FORMATS)
    assert read_document("A.TXT", b"Hello").texts() == ["Hello"]


UNSPACED = ["春" * 29 + "。", "夏" * 44 + "。", "秋" * 34 + "。"]


@pytest.mark.parametrize(
    ("suffix", "text", "texts"),
    [
        (
            ".md",
            "```code``` is a word.\n\nMore text here.\n",
            [" is a word.", "More text here."],
        ),
        (".md", "# C#\n\n## Learn C# ##\n", ["C#", "Learn C#"]),
        (".md", "<pre>\ncode\n\nmore code\n</pre>\n\nText\n", ["Text"]),
        (".md", "<!-- a\n\nb -->\nText\n", ["Text"]),
        (
            ".md",
            "Name | Value\n--- | ---\nalpha | beta\n\nText\n",
            ["Name", "Value", "alpha", "beta", "Text"],
        ),
        (".html", "I <3 you", ["I <3 you"]),
        (".html", "<p>one</p>rest with <3 hearts", ["one", "rest with <3 hearts"]),
        (".html", "<p>Item &# one</p><p>two</p>", ["Item &# one", "two"]),
        (
            ".html",
            "<p>They&#39d go.</p><p>She&#39d stay &amp; wait.</p><p>End</p>",
            ["They'd go.", "She'd stay & wait.", "End"],
        ),
        (".html", "<p>one <![ns::is_x]> two</p>", ["one  two"]),
        (".html", "<p>one</p><!-- two <p>three</p> four", ["one"]),
        (
            ".html",
            "<p title='a>b' translate=\"no\">one</p>two</> <b class=x/>three</b>",
            ["two three"],
        ),
        (".html", "one<br/><img src='x=y'/>two<a href=x/>three</a>", ["one", "twothree"]),
        (".html", "<script>if (a<b) '</p>'</script>one<STYLE>p</STYLE>", ["one"]),
        (".html", "<p>one</p>two <b three", ["one", "two"]),
        (".html", "<p>one</p><!--><p>two</p><!---><p>three</p>", ["one", "two", "three"]),
        (".html", "<p>one</p><!-- two --!><p>three</p><!-- <p> --->four", ["one", "three", "four"]),
        (".json", '{"a": "hello \\ud800 world", "b": "hi"}', ["hi"]),
        (".txt", "\n".join(UNSPACED), UNSPACED),
        (".txt", "春" * 42 + "\n" + "夏" * 42, ["春" * 42 + " " + "夏" * 42]),
        (".txt", f"{'=' * 50}\n{'-' * 50}\n\nOne.\n", ["One."]),
        (
            ".json",
            '{"icon": "home", "className": "wide", "Icon": "Icon", "color": "Red", "a": "home"}',
            ["Icon", "Red", "home"],
        ),
        (".xml", "<resources><string>Hello</string></resources>", ["Hello"]),
        (".po", 'msgid ""\n"foo\u2028bar baz"\nmsgstr ""\n', ["foo\u2028bar baz"]),
    ],
)
def test_texts_are_found_whole(suffix: str, text: str, texts: list[str]) -> None:
    document = read(suffix, text)
    assert [plain_text(each) if document.is_html else each for each in document.texts()] == texts


def test_line_that_ends_a_sentence_still_ends_one() -> None:
    lines = wrap("Bom dia, meu amigo. Como vai?", ["Good day, friend.", "How are you?"])
    assert lines == ["Bom dia, meu amigo.", "Como vai?"]


def test_wrapped_line_does_not_begin_with_a_mark() -> None:
    lines = wrap(
        "A capital do pais de Paris - uma velha cidade", ["The capital of Paris", "is an old city"]
    )
    assert not any(line.startswith("- ") for line in lines)
    assert " ".join(lines) == "A capital do pais de Paris - uma velha cidade"


SUBTITLES = {
    ("a.srt", "{\\an8}<i>- Hello</i>\nTom & Jerry\n"): ["Hello", "Tom &amp; Jerry"],
    ("a.srt", '<font color="#fff">Hello</font> you\n'): ['<span id="1">Hello</span> you'],
    ("a.srt", '<font title="Kept words">Hello</font> you\n'): ['<span id="1">Hello</span> you'],
    ("a.srt", ">> ANN: Hi.\n>> I go.\n"): ["ANN: Hi.", "I go."],
    ("a.vtt", "The <00:01.500>cat <c.red>sat</c>\n"): [
        'The <img id="1">cat <span id="2">sat</span>'
    ],
    ("a.vtt", "<v Ann>Tom &amp; I</v>\n<v.loud Bob>No &lt;3\n"): ["Tom &amp; I", "No &lt;3"],
    ("a.vtt", "<lang en>Hello</lang> <ruby>x<rt>y</rt></ruby>\n"): [
        '<span id="1">Hello</span> <span id="2">x<span id="3">y</span></span>'
    ],
}


@pytest.mark.parametrize(("name", "cue"), SUBTITLES)
def test_codes_of_subtitles_are_tags(name: str, cue: str) -> None:
    text = ("WEBVTT\n\n" if name == "a.vtt" else "") + CUE.replace(",", ".") + cue
    document = read_document(name, text.encode())
    assert document.texts() == SUBTITLES[name, cue]
    assert document.write(document.texts(), "").decode() == text
    codes = re.findall(r"<[^>]*>|\{[^}]*\}", text)
    written = read_document(name, text.encode()).write(["x"] * len(document.texts()), "")
    assert sorted(re.findall(r"<[^>]*>|\{[^}]*\}", written.decode())) == sorted(codes)
