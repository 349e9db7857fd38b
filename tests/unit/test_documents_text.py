"""Documents of plain text: all bytes outside of the translated texts stay the same."""

import json
import re
import time
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

<div class="x">
kept as it is
</div>

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
    assert len(written.split("\n")) == len(TEXTS[suffix].split("\n"))


def test_empty_translation_is_written_as_an_empty_string() -> None:
    text = TEXTS[".po"]
    written = rewrite(".po", text, lambda _: "")
    assert written == text.replace('msgstr ""\n\nmsgid "done"', 'msgstr "\\n"\n\nmsgid "done"')


def test_subtitles_keep_timings_and_the_number_of_lines() -> None:
    written = rewrite(".srt", TEXTS[".srt"], str.upper)
    assert written == TEXTS[".srt"].replace("The cat sat", "THE CAT SAT").replace(
        "on the mat.", "ON THE MAT."
    ).replace("Hello!", "HELLO!").replace("Good morning!", "GOOD MORNING!").replace(
        "First", "FIRST"
    ).replace("orphan line", "ORPHAN LINE")


def test_a_cue_is_never_ended_by_an_empty_line() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\nThe cat sat\non the old mat.\n\n2\n"
    assert rewrite(".srt", text, lambda _: "猫") == text.replace(
        "The cat sat\non the old mat.", "猫"
    )
    assert "\n\n\n" not in rewrite(".srt", text, lambda _: "a\nb\n\nc")


def test_kept_parts_of_markdown_are_no_texts() -> None:
    joined = "\n".join(read(".md", TEXTS[".md"]).texts())
    for kept in ("Untouched", "print", "indented code", "kept as", "Title", "---", "# ", "\n> "):
        assert kept not in joined


def test_json_values_are_escaped_as_before() -> None:
    written = rewrite(".json", TEXTS[".json"], lambda text: text + "ü")
    assert json.loads(written)["nested"]["escaped"] == 'café "quoted"ü'
    assert 'caf\\u00e9 \\"quoted\\"\\u00fc' in written
    assert '"Helloü"' in written


def test_json_numbers_may_have_any_length() -> None:
    text = f'{{"number": {"1" * 5000}, "text": "Hello"}}'
    assert rewrite(".json", text, str) == text


def test_html_translations_are_escaped() -> None:
    assert rewrite(".html", "<p>a &amp; b</p>", lambda _: "1 < x & y") == "<p>1 &lt; x &amp; y</p>"


def test_languages_are_named() -> None:
    html, po = read(".html", TEXTS[".html"]), read(".po", TEXTS[".po"])
    assert b"<html lang='pt'>" in html.write(html.texts(), "pt")
    assert b'"Language: pt_BR\\n"' in po.write(po.texts(), "pt-BR")


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
        (".po", 'msgid ""\n"foo\u2028bar baz"\nmsgstr ""\n', ["foo\u2028bar baz"]),
    ],
)
def test_texts_are_found_whole(suffix: str, text: str, texts: list[str]) -> None:
    document = read(suffix, text)
    assert [plain_text(each) if document.is_html else each for each in document.texts()] == texts


def test_no_break_spaces_at_the_ends_are_kept() -> None:
    changed = rewrite(".html", "<p>Price:&nbsp;<img src=x></p>", lambda text: text.upper())
    assert changed in ("<p>PRICE:&nbsp;<img src=x></p>", "<p>PRICE:\u00a0<img src=x></p>")


CUE = "1\n00:00:01,000 --> 00:00:02,500\n"


@pytest.mark.parametrize(
    ("cue", "translation", "expected"),
    [
        ("Hello\n<i>there</i>\n", "Hi", "<i>Hi</i>\n"),
        ("<i>Hello</i>\nthere\n", "Hi", "<i>Hi</i>\n"),
        ("Go <i>left</i> and then ->\n", "GO", "<i>GO</i>\n"),
    ],
)
def test_tags_of_subtitles_stay_balanced(cue: str, translation: str, expected: str) -> None:
    assert rewrite(".srt", CUE + cue, lambda _: translation) == CUE + expected


def test_paragraphs_without_spaces_are_texts_of_their_own() -> None:
    lines = ["春" * 29 + "。", "夏" * 44 + "。", "秋" * 34 + "。"]
    assert len(read_document("a.txt", "\n".join(lines).encode()).texts()) == 3
    wrapped = ["春" * 42, "夏" * 42, "秋" * 20 + "。"]
    assert len(read_document("a.txt", "\n".join(wrapped).encode()).texts()) == 1


def test_wrapped_lines_without_letters_are_kept() -> None:
    rules = "=" * 50 + "\n" + "-" * 50
    assert read(".txt", f"{rules}\n\nOne.\n").texts() == ["One."]


def test_line_that_ends_a_sentence_still_ends_one() -> None:
    lines = wrap("Bom dia, meu amigo. Como vai?", ["Good day, friend.", "How are you?"])
    assert lines == ["Bom dia, meu amigo.", "Como vai?"]


def test_wrapped_line_does_not_begin_with_a_mark() -> None:
    lines = wrap(
        "A capital do pais de Paris - uma velha cidade", ["The capital of Paris", "is an old city"]
    )
    assert not any(line.startswith("- ") for line in lines)
    assert " ".join(lines) == "A capital do pais de Paris - uma velha cidade"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ('<meta charset="koi8-r">', "&#233; &lt;"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=Big5">', "&#233; &lt;"),
        ('<meta charset="UTF-8">', "é &lt;"),
        ("<!-- é --><meta charset=latin1>", "é &lt;"),
        ("", "é &lt;"),
    ],
)
def test_page_of_ascii_is_read_alike_with_its_own_charset(head: str, expected: str) -> None:
    written = rewrite(".html", f"{head}<p>open</p>", lambda _: "é &lt;")
    assert written == f"{head}<p>{expected}</p>"


def test_only_plural_form_is_the_plural() -> None:
    entry = 'msgid "One message"\nmsgid_plural "%d messages"\nmsgstr[0] ""\n'
    assert rewrite(".po", entry, str.upper) == entry.replace('[0] ""', '[0] "%D MESSAGES"')


def test_cue_lines_of_subtitles_need_linear_time() -> None:
    start = time.process_time()
    cue = f"{CUE}<i>\n<{'a' * 200_000}>Hello\n"
    assert rewrite(".srt", cue, lambda _: "Hi").startswith(CUE)
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".md", "# a" + " " * 200_000 + "b"),
        (".md", "`" * 200_000 + " x `"),
        (".md", "a | b\n" + "-" * 100_000 + " |\n" + "| " * 50_000),
        (".srt", f"{CUE}hi {'</i>' * 200_000}\n"),
        (".html", "<" * 100_000),
        (".html", "<!--a>" * 160_000),
        (".html", "<a ='>' " * 40_000),
        (".html", "<b></i>" * 40_000),
    ],
)
def test_reading_is_linear(suffix: str, text: str) -> None:
    start = time.process_time()
    read(suffix, text)
    assert time.process_time() - start < 20


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
