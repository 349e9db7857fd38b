"""Markdown: everything that is not prose stays byte for byte, and the structure is the same."""

import re
import time
from collections import Counter
from collections.abc import Callable
from importlib.metadata import distribution

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from service.documents.formats import read_document
from tests.archives import upper

_RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_TOKEN = re.compile(r"<[^>]*>|[^<\s]+|\s+")


def rewrite(text: str, change: Callable[[str], str]) -> str:
    document = read_document("a.md", text.encode())
    return document.write([change(each) for each in document.texts()], "").decode()


def structure(text: str) -> tuple[list[str], list[str]]:
    """The tags of a rendered page, without the texts of images, and its code."""
    page = _RENDERER.render(text)
    code = re.findall(r"<(?:code|pre)[^>]*>.*?</(?:code|pre)>", page, re.DOTALL)
    tags = [re.sub(r'(?:alt|title)="[^"]*"', "", tag) for tag in re.findall(r"<[^>]*>", page)]
    return tags, [" ".join(each.split()) for each in code]


def reversed_words(text: str) -> str:
    """A text with its words and elements in the reverse order."""
    parts: list[str] = []
    depth = 0
    for token in _TOKEN.findall(text):
        if depth:
            parts[-1] += token if token[0] == "<" else token.upper()
        else:
            parts.append(token if token[0] == "<" else token.upper())
        if token[0] == "<" and not token.startswith("<img"):
            depth += -1 if token[1] == "/" else 1
    return "".join(parts[::-1])


KEPT = [
    *("$x^2$", "$$a_1 * b_2$$", r"\(x_1\)", r"\[y * z\]", "$\\alpha$", "$f(x) = 2$"),
    *("`leave`", "``a ` b``", "<https://a.b/c_d_e>", "<!-- a *b* -->", "<kbd>Ctrl</kbd>"),
    *("[^1]", "[^note]", "<br/>", "{#an-id}", "{.red}", "{: .note}"),
]
LINES = [
    *(":::tip", "::: warning Look out", ":::", ":::note[A title]{x=1}", "::::details"),
    *("> [!NOTE]", "> [!WARNING]", "> [!tip]-", '!!! note "A title"', "??? tip"),
    *("$$\na = b\n\nc * d * e\n$$", "\\[\nx\n- y\n\\]", "\\begin{align*}\na\n\nb\n\\end{align*}"),
    *("```text\ncode\n```", "~~~\n*a*\n\n~~~", "    indented *code*", "---", "***", "[TOC]"),
    *("<p>\n{{< kept >}}\n</p>", "<pre>\na\n\nb\n</pre>", "<!-- a\n\nb -->", "{% raw %}"),
    *('[link]: https://a.b "Title"', "[link]:\n  /url\n  'A title'", "| --- | :-: |", "[[toc]]"),
]


@pytest.mark.parametrize("kept", KEPT)
def test_spans_that_are_no_prose_are_kept(kept: str) -> None:
    source = f"One {kept} two.\n"
    assert rewrite(source, upper) == f"ONE {kept} TWO.\n"
    assert kept in rewrite(source, reversed_words)


@pytest.mark.parametrize("kept", LINES)
def test_lines_that_are_no_prose_are_kept(kept: str) -> None:
    source = f"One.\n\n{kept}\n\nTwo.\n"
    assert rewrite(source, upper) == f"ONE.\n\n{kept}\n\nTWO.\n"


@pytest.mark.parametrize("front", ["---\na: b\n---\n", "+++\na = 'b'\n+++\r\n", "---\n---\n"])
def test_front_matter_is_kept(front: str) -> None:
    assert rewrite(front + "Text\n", upper) == front + "TEXT\n"


BLOCKS = {
    ":::tip\nRead it.\n:::\n": ["Read it."],
    "> [!NOTE]\n> Read\n> it.\n": ["Read it."],
    "> [!note] A title\n> Read it.\n": ["A title Read it."],
    '!!! note "A title"\n    Read it.\n\n    Then go.\n\nEnd.\n': ["Read it.", "Then go.", "End."],
    "[^1]: A note\n    goes on.\n\n    More.\n[^2]: Two.\n": ["A note goes on.", "More.", "Two."],
    "Term\n: Its meaning\n: Another\n": ["Term", "Its meaning", "Another"],
    "- [ ] to do\n- [x] done\n  1. first\n": ["to do", "done", "first"],
    "| A | B \\| c |\n|---|---|\n| *d* | `e` |\n| f\n": [
        *("A", "B | c", '<span id="1">d</span>', "f"),
    ],
    "A | B\n-|-\n1 | c\n": ["A", "B", "c"],
    "Name:\\\nAnn<br>Bob  \nCid\n": ["Name:", "Ann", "Bob", "Cid"],
    "# C#\n\n## Learn C# ##\n": ["C#", "Learn C#"],
    "Heading\nof two lines\n====\n": ["Heading of two lines"],
    "![A red house](a_b.png 'T')\n": ["A red house"],
    "[![Build it](a)](b)\n": ["Build it"],
    "It costs $5 or $10.\n": ["It costs $5 or $10."],
    "- one\n\n  two\n\n      code\n": ["one", "two"],
}


@pytest.mark.parametrize("source", BLOCKS)
def test_blocks_are_texts(source: str) -> None:
    texts = [re.sub('^<span id="1">(.*)</span>$', r"\1", t) for t in read(source)]
    assert texts == [re.sub('^<span id="1">(.*)</span>$', r"\1", t) for t in BLOCKS[source]]
    assert rewrite(source, str) == source
    assert structure(rewrite(source, upper))[0] == structure(source)[0]


def read(source: str) -> list[str]:
    return read_document("a.md", source.encode()).texts()


EMPHASIS = {
    "Please *leave* now.": ('Por favor, <span id="1">saia</span> já.', "Por favor, *saia* já."),
    "*We* bought it.": ('<span id="1">Nós </span>compramos.', "*Nós* compramos."),
    "So ***very*** good": (
        '<span id="1">Muito<span id="2"> muito</span></span> bom',
        "*Muito **muito*** bom",
    ),
    "A _word_ here": ('Uma <span id="1">palavra</span> aqui', "Uma _palavra_ aqui"),
    "See [the old *site*](a_b \"T\")!": (
        'Veja <span id="1">o <span id="2">site</span></span>!', 'Veja [o *site*](a_b "T")!'
    ),
    "See [Notes] now.\n\n[notes]: /x": (
        'Veja <span id="1">as notas</span>.', "Veja [as notas][Notes].\n\n[notes]: /x"
    ),
    "~~Old~~ text": ('Texto <span id="1">velho</span>', "Texto ~~velho~~"),
    "Red **car**": ('<span id="1"> </span>Carro', "Carro"),
}  # fmt: skip


@pytest.mark.parametrize("source", EMPHASIS)
def test_marks_stand_around_whole_words(source: str) -> None:
    reply, written = EMPHASIS[source]
    document = read_document("a.md", f"{source}\n".encode())
    assert document.write([reply], "").decode() == f"{written}\n"


ESCAPED = ["2 * 3 *x*", "- a list", "1. one", "# title", "a_b _c_", "[x](y)", "<b>", "> q", "`x`",
           "&amp;amp;", "=", ": d", "C:\\", "~~x~~", "+ x", "---"]  # fmt: skip


@pytest.mark.parametrize("reply", ESCAPED)
def test_translation_has_no_marks_of_its_own(reply: str) -> None:
    reply = reply.replace("<", "&lt;")
    page = _RENDERER.render(rewrite("Text here\n", lambda _: reply))
    assert page == f"<p>{reply.replace('>', '&gt;')}</p>\n"
    table = _RENDERER.render(rewrite("| a | b |\n|-|-|\n| c | Text |\n", lambda t: t[0] + "|" + t))
    assert re.findall("<t[hd]>(.*?)</t", table) == ["a|a", "b|b", "c|c", "T|Text"]


README = ["openai", "deepl", "orjson", "fastapi"]


@pytest.mark.parametrize("name", README)
def test_long_pages_keep_their_structure(name: str) -> None:
    text = str(distribution(name).read_text("METADATA")).partition("\n\n")[2]
    assert len(text) > 10_000
    assert rewrite(text, str) == text
    assert structure(rewrite(text, upper)) == structure(text)
    moved, before = structure(rewrite(text, reversed_words)), structure(text)
    assert Counter(moved[0]) == Counter(before[0])
    assert Counter(moved[1]) == Counter(before[1])


LETTERS = st.text(st.sampled_from("ab .é*>#|`~<&;[](){}:\"'\\\t\r\n1=_/!$^-+"), max_size=60)


@given(LETTERS)
@example("[a][\n\n[a]: b")
@example("a\\\n|b")
@example("|a\n|-\n|\\|")
@example("$$\n[^a]: $$")
def test_any_page_comes_back(text: str) -> None:
    assert rewrite(text, str) == text
    rewrite(text, reversed_words)


HOSTILE = ["[", "![", "*a ", "**a_", "`", "``a` ", "$", "\\(", "\\[\n", "$$\na\n", "<a ", "<!--",
           "> ", "- ", "- a\n  ", "|", "[^a]: ", ": a\n", "!!! a\n    ", "{#", "[a]: b\n", "&amp",
           "a\\\n", "~~", "[a](", "| a |\n|-|\n"]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_reading_time_is_linear(unit: str) -> None:
    short, long = (unit * (size // len(unit)) for size in (1_000, 8_000))
    assert any(seconds(long) < max(0.05, 30 * seconds(short)) for _ in range(3))


def seconds(text: str) -> float:
    start = time.thread_time()
    document = read_document("a.md", text.encode())
    document.write([f"{each} x" for each in document.texts()], "")
    return time.thread_time() - start


def test_definition_below_a_footnote_is_no_text() -> None:
    page = "See [the guide][guide].\n\n[^1]: The reason.\n[guide]: https://a.b 'Guide'\n[^2]: Two\n"
    texts = read_document("a.md", page.encode()).texts()
    assert texts == ['See <span id="1">the guide</span>.', "The reason.", "Two"]
    written = (
        "See [THE GUIDE][guide].\n\n[^1]: THE REASON.\n[guide]: https://a.b 'Guide'\n[^2]: TWO\n"
    )
    assert rewrite(page, upper) == written.replace("See", "SEE")


def test_exclamation_mark_before_a_link_makes_no_image() -> None:
    page = "Wow\\![it](a.b) is."
    assert rewrite(page, upper) == "WOW\\![IT](a.b) IS."


HTML = """<h1 align="center"><a href="a.b">The tool</a></h1>

> <details title="More">
>   <summary>Click <b>to</b> open
>   it</summary>

- The *list*

  <p>Cats &amp; dogs, *not* a_b</p> <!-- kept -->
  <img alt="A cat" src="kept"><br>

Inside.

</details>
"""


HTML_IN_CAPITALS = """<h1 align="center"><a href="a.b">THE TOOL</a></h1>

> <details title="MORE">
>   <summary>CLICK <b>TO</b> OPEN
>   IT</summary>

- THE *LIST*

  <p>CATS &amp; DOGS, *NOT* A_B</p> <!-- kept -->
  <img alt="A CAT" src="kept"><br>

INSIDE.

</details>
"""


def test_html_between_paragraphs_is_read_as_html() -> None:
    assert rewrite(HTML, upper) == HTML_IN_CAPITALS


def test_bare_links_have_no_escapes() -> None:
    page = "See https://a.b/x_(y)_z?q=*a* and \\*this\\*, **not https://a.b/_c** one\n"
    assert rewrite(page, lambda text: text.replace("See", "Look")) == page.replace("See", "Look")


def test_escapes_of_extensions_stay() -> None:
    r"""Without its escape, the first `$` of `\$5 and $6` begins a formula."""
    text = "Pay \\$5 and 5$ to \\@ann: \\{x\\} \\- a\n\n| a \\| b | \\#1 |\n|---|---|\n\nPay 5$\n"
    wanted = "PAY \\$5 AND 5\\$ TO \\@ANN: \\{X\\} - A\n\n| A \\| B | \\#1 |\n|---|---|\n\nPAY 5$\n"
    assert rewrite(text, upper) == wanted
