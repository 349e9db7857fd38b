"""Formatted words in documents: whatever a server answers, no word and no element is lost."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.formats import Document, read_document
from service.documents.tagged import MAX_UNITS, Form, Node, TaggedText, Unit, to_html
from tests.archives import archive, docx, epub, members, odt, run

TAG = re.compile(r"<[^>]*>|[^<]+")
NUMBERS = re.compile(r'id="(n\d+)"')


@dataclass(frozen=True)
class Part:
    """A part of a random paragraph: a text, a formatted text, a link, a reference or a break."""

    kind: str
    parts: "tuple[Part | str, ...]" = ()


Parts = tuple["Part | str", ...]
TEXTS = st.text(st.sampled_from("ab é<&\u00a0"), min_size=1, max_size=6)
LEAVES = TEXTS | st.sampled_from([Part("void"), Part("mark"), Part("break"), Part("kept")])


def _around(inside: "st.SearchStrategy[Part | str]") -> "st.SearchStrategy[Part | str]":
    parts = st.lists(inside, min_size=1, max_size=4).map(tuple)
    return st.builds(Part, st.sampled_from("big"), parts)


PARAGRAPHS = st.lists(st.recursive(LEAVES, _around, max_leaves=8), min_size=1, max_size=8).map(
    tuple
)


class Writer:
    """Writes paragraphs. Each reference gets a number of its own."""

    def __init__(self) -> None:
        self.number = 0

    def next(self) -> str:
        self.number += 1
        return f"n{self.number}"

    def mixed(self, parts: Parts, names: dict[str, str]) -> str:
        """A paragraph of a format in which any element may contain text."""
        found = []
        for part in parts:
            if isinstance(part, str):
                found.append(escape(part))
            elif part.kind in "big":
                inside = self.mixed(part.parts, names)
                found.append(f"<{names[part.kind]}>{inside}</{names[part.kind].split()[0]}>")
            else:
                found.append(names[part.kind].replace("?", self.next()))
        return "".join(found)

    def office(self, parts: Parts, kind: str = "", in_link: bool = False) -> str:
        found = []
        for part in parts:
            if isinstance(part, str):
                found.append(run(escape(part), "".join(f"<w:{each}/>" for each in kind)))
            elif part.kind in "bi":
                found.append(self.office(part.parts, "".join(sorted({*kind, part.kind})), in_link))
            elif part.kind == "g" and not in_link:
                found.append(f"<w:hyperlink>{self.office(part.parts, kind, True)}</w:hyperlink>")
            elif part.kind == "g":
                found.append(self.office(part.parts, kind, in_link))
            else:
                number = self.next()
                found.append(
                    {
                        "void": f'<w:r><w:t>ab</w:t><w:footnoteReference w:id="{number}"/></w:r>',
                        "mark": f'<w:bookmarkStart w:id="{number}"/>',
                        "break": f'<w:r><w:t>a</w:t><w:tab w:id="{number}"/><w:t>b</w:t></w:r>',
                        "kept": f'<w:sdt w:id="{number}"><w:sdtContent>{run("c")}'
                        "</w:sdtContent></w:sdt>",
                    }[part.kind]
                )
        return "".join(found)


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


NUMBER = 'id="?"'
XHTML = {
    **{"b": "b", "i": "i", "g": 'a href="x"', "void": f"<img {NUMBER}/>"},
    **{"mark": f"<!--{NUMBER}-->", "break": f"<br {NUMBER}/>", "kept": f"<code {NUMBER}></code>"},
}
ODT = {
    **{"b": "text:span", "i": "text:span", "g": "text:a", "void": f"<text:bookmark {NUMBER}/>"},
    "mark": f"<text:note {NUMBER}><text:note-citation>1</text:note-citation></text:note>",
    **{"break": f"<text:tab {NUMBER}/>", "kept": f"<text:date {NUMBER}>1</text:date>"},
}
XLIFF = {
    **{"b": "g", "i": "g", "g": "mrk", "void": f"<x {NUMBER}/>", "mark": f"<bpt {NUMBER}/>"},
    **{"break": f"<sub {NUMBER}/>", "kept": f"<ph {NUMBER}/>"},
}


def word_document(parts: Parts) -> tuple[str, bytes]:
    return "a.docx", docx(f"<w:p>{Writer().office(parts)}</w:p>")


def book(parts: Parts) -> tuple[str, bytes]:
    return "a.epub", epub(a=f"<p>{Writer().mixed(parts, XHTML)}</p>")


def open_document(parts: Parts) -> tuple[str, bytes]:
    return "a.odt", odt(f"<text:p>{Writer().mixed(parts, ODT)}</text:p>")


def xliff(parts: Parts) -> tuple[str, bytes]:
    text = Writer().mixed(parts, XLIFF)
    target = f"<source>{text}</source><target state='new'>{text}</target>"
    body = f"<xliff version='1.2'><file><trans-unit>{target}</trans-unit></file></xliff>"
    return "a.xlf", body.encode()


def page(parts: Parts) -> tuple[str, bytes]:
    return "a.html", f"<p>{Writer().mixed(parts, XHTML)}</p>".encode()


FORMATS = [word_document, book, open_document, xliff, page]


@st.composite
def replies_to(draw: st.DrawFn, text: str) -> str:
    """A reply with some tags and words of a text, in any order, some of them twice."""
    tokens = TAG.findall(text)
    chosen = draw(st.lists(st.sampled_from([*tokens, "new", "<b>", "</b>", '<span id="99">'])))
    return "".join(draw(st.sampled_from([tokens, chosen, tokens[::-1], tokens + chosen])))


def content_of(name: str, data: bytes) -> str:
    """The markup of a document that may be translated."""
    if name.endswith(("html", "xlf")):
        return re.sub("<source>.*</source>", "", data.decode(), flags=re.DOTALL)
    files = members(data)
    names = [each for each in files if each.endswith((".xml", ".xhtml", ".opf"))]
    return "".join(re.sub(r"<[?!][^>]*\?>", "", files[each].decode()) for each in names)


def words(markup: str) -> Counter[str]:
    return Counter("".join(unescape(re.sub("<!--.*?-->|<[^>]*>", "", markup)).split()))


@pytest.mark.parametrize("write", FORMATS)
@given(parts=PARAGRAPHS, data=st.data())
def test_any_reply_keeps_words_and_elements(
    write: Callable[[Parts], tuple[str, bytes]], parts: Parts, data: st.DataObject
) -> None:
    name, content = write(parts)
    document = read_document(name, content)
    texts = document.texts()
    replies = [data.draw(replies_to(text)) for text in texts]
    written = document.write(replies, "")
    read_document(name, written)  # it is well-formed
    before, after = content_of(name, content), content_of(name, written)
    assert sorted(NUMBERS.findall(after)) == sorted(NUMBERS.findall(before))
    expected = words(before)
    for text, reply in zip(texts, replies, strict=True):
        expected += words(reply)
        expected.subtract(words(text))
    assert words(after) == +expected


def word(body: str) -> Document:
    return read_document("a.docx", docx(f"<w:p>{body}</w:p>"))


def field(instruction: str) -> str:
    return (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        f"<w:r><w:instrText> {instruction} </w:instrText></w:r>"
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{run("Figure 3")}'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


BOLD, ITALIC = "<w:b/>", "<w:i/>"
TAB, REFERENCE = "<w:tab/>", '<w:footnoteReference w:id="2"/>'
DELETED = '<w:del w:id="1"><w:r><w:delText>old</w:delText></w:r></w:del>'
BOOKMARK = '<w:bookmarkStart w:id="1"/>{}<w:bookmarkEnd w:id="1"/>'

PARAGRAPHS_OF_WORD = {
    "the most frequent formatting is plain text": (
        run("a", ITALIC) + run(" very very very ", BOLD) + run("b"),
        ['<span id="1">a</span> very very very <span id="2">b</span>'],
    ),
    "white space between equal formattings joins them": (
        run("plain words ") + run("so", BOLD) + run(" ") + run("big", BOLD) + run("."),
        ['plain words <span id="1">so big</span>.'],
    ),
    "formatted white space is no element": (
        run("plain") + run(" ", BOLD) + run("words"),
        ["plain words"],
    ),
    "a link has formatted words inside": (
        run("See ") + f"<w:hyperlink>{run('the old ')}{run('site', BOLD)}</w:hyperlink>" + run("."),
        ['See <span id="1">the old <span id="2">site</span></span>.'],
    ),
    "a paragraph that is one link has no tags": (
        f"<w:hyperlink>{run('the old ')}{run('site')}</w:hyperlink>",
        ["the old site"],
    ),
    "a hyphen without a break is a character": (
        run("a well") + f"<w:r><w:noBreakHyphen/></w:r>{run('known ')}{run('fact', BOLD)}",
        ['a well\u2011known <span id="1">fact</span>'],
    ),
    "a tab ends a text": (
        run("one ") + run("two", BOLD) + f"<w:r><w:t>a</w:t>{TAB}<w:t>b</w:t></w:r>" + run("c"),
        ['one <span id="1">two</span>a', "bc"],
    ),
    "elements at the ends are no part of the text": (
        BOOKMARK.format(run("Title")) + f"<w:r>{REFERENCE}</w:r>",
        ["Title"],
    ),
    "elements inside are": (
        run("The ") + BOOKMARK.format(run("title")) + f"<w:r>{REFERENCE}</w:r>" + run(" here"),
        ['The <img id="1">title<img id="2"><img id="3"> here'],
    ),
    "a computed field takes the place of a word": (
        run("See ") + field("REF _Ref1") + run(" here."),
        ['See <code id="1"></code> here.'],
    ),
    "other fields have words": (
        run("See ") + field("HYPERLINK x") + run(" here."),
        ["See", "Figure 3", "here."],
    ),
    "a field without an end is no element": (
        run("See ") + field("REF _Ref1").replace("end", "separate") + run(" here."),
        ["See", "Figure 3", "here."],
    ),
    "a formula takes the place of a word": (
        run("If ") + "<m:oMath xmlns:m='urn:m'><m:r><m:t>x</m:t></m:r></m:oMath>" + run(" grows"),
        ['If <code id="1"></code> grows'],
    ),
    "text inside a content control is part of the sentence": (
        run("one ") + f"<w:sdt><w:sdtContent>{run('two')}</w:sdtContent></w:sdt>" + run(" three"),
        ['one <span id="1">two</span> three'],
    ),
}


@pytest.mark.parametrize("rule", PARAGRAPHS_OF_WORD)
def test_paragraphs_of_word_are_read_as_one_text(rule: str) -> None:
    body, texts = PARAGRAPHS_OF_WORD[rule]
    assert word(body).texts() == texts


def body_after(body: str, *replies: str) -> str:
    """A written Word paragraph, without the attributes of its runs."""
    xml = members(word(body).write(replies, ""))["word/document.xml"].decode()
    found = re.search("<w:p>(.*)</w:p>", xml)
    assert found is not None
    return re.sub(r' xml:space="preserve"| w:rsidR="00AB"| xmlns:\w="[^"]*"', "", found[1])


def plain_run(text: str, properties: str = "") -> str:
    return run(text, properties).replace(' w:rsidR="00AB"', "").replace(' xml:space="preserve"', "")


LINK = f"<w:hyperlink>{run('the old ')}{run('site', BOLD)}</w:hyperlink>"
WRITTEN = {  # paragraphs of Word, the translations of their texts, and the written paragraphs
    "runs with several parts are split": (
        run("one ", BOLD) + f"<w:r><w:t>two</w:t>{REFERENCE}<w:t>x</w:t>{TAB}<w:t>c</w:t></w:r>",
        ['<img id="2"><span id="1">ONE</span>', "C"],
        f"<w:r>{REFERENCE}</w:r>{plain_run('ONE', BOLD)}<w:r>{TAB}<w:t>C</w:t></w:r>",
    ),
    "links get their words and their formatting": (
        run("See ") + LINK,
        ['<span id="1"><span id="2">site</span> velho</span> veja'],
        f"<w:hyperlink>{plain_run('site', BOLD)}{plain_run(' velho')}</w:hyperlink>"
        + plain_run(" veja"),
    ),
    "the start of a bookmark stays before its end": (
        run("The ") + BOOKMARK.format(run("title")) + run(" here"),
        ['<img id="2">T<img id="1"> aqui'],
        BOOKMARK.format(plain_run("T")) + plain_run(" aqui"),
    ),
    "fields move with all their runs": (
        run("See ") + field("REF _Ref1") + run(" here."),
        ['<code id="1"></code> ver aqui.'],
        field("REF _Ref1").replace(run("Figure 3"), plain_run("Figure 3"))
        + plain_run(" ver aqui."),
    ),
    "deleted text stays": (
        f"{run('One ')}{DELETED}{run('two')}",
        ['um <img id="1">dois'],
        plain_run("um ") + DELETED + plain_run("dois"),
    ),
}


@pytest.mark.parametrize("rule", WRITTEN)
def test_paragraphs_of_word_are_written(rule: str) -> None:
    body, replies, written = WRITTEN[rule]
    assert body_after(body, *replies) == written


SOURCE = 'The <span id="1">red</span> house has <span id="2">12</span> windows<img id="3">.'
MISSING = {
    "A casa vermelha tem 12 janelas.": (
        'A <span id="1">casa</span> vermelha tem <span id="2">12</span> janelas.<img id="3">'
    ),
    "": '<span id="1"></span><span id="2"></span><img id="3">',
    '<span id="2">A <span id="1">casa</span> tem</span> <img id="3">janelas': (
        '<span id="2">A casa tem</span> <img id="3"><span id="1">janelas</span>'
    ),
    '<span id="1">A</span> <span id="1">casa</span><img id="3"><img id="3"><span id="2">x': (
        '<span id="1">A</span> casa<img id="3"><span id="2">x</span>'
    ),
    'A <SPAN ID=1>casa</SPAN> <title>tem<span id="2"/> 12 <a href="': (
        'A <span id="1">casa</span> tem<span id="2"></span> 12 <img id="3">'
    ),
    'A <em>casa</em> <script>bad</script><img id="1"><code id="2">tem</code>': (
        '<span id="1">A</span> casa <span id="2">tem</span><img id="3">'
    ),
}


@pytest.mark.parametrize("reply", MISSING)
def test_wrong_tags_of_a_reply_lose_nothing(reply: str) -> None:
    units = [Unit(Form.WORDS, 0, ["red"]), Unit(Form.WORDS, 0, ["12"]), Unit(Form.EMPTY, 0)]
    text = TaggedText(["The ", units[0], " house has ", units[1], " windows", units[2], "."])
    assert text.html == SOURCE
    found = text.tree_of(reply)
    assert re.sub(r' id="\d"', "", to_html(found)) == re.sub(r' id="\d"', "", MISSING[reply])


def test_white_space_at_the_ends_is_no_part_of_a_text() -> None:
    mark = Unit(Form.EMPTY, 0)
    cases: list[tuple[list[Node], tuple[str, str, str]]] = [
        (["\u00a0a ", mark, "\u00a0"], ("\u00a0", 'a <img id="1">', "\u00a0")),
        ([" ", mark, " b "], (" ", '<img id="1"> b', " ")),
        ([" "], (" ", "", "")),
    ]
    for nodes, parts in cases:
        text = TaggedText(nodes)
        assert (text.before, text.html, text.after) == parts


def test_unbalanced_pages_are_translated_in_parts() -> None:
    for page in ("<p>One <b>two</p><p>three</b> four</p>", "<b>One<i>two</b>three</i>four"):
        document = read_document("a.html", page.encode())
        assert [text.lower() for text in document.texts()] in (
            ["one", "two", "three", "four"],
            ["one", "two", "threefour"],
        )
        assert document.write(["1", "2", "3", "4"][: len(document.texts())], "")


def test_many_or_deep_tags_are_translated_in_parts() -> None:
    for page in ("a<b>a</b>" * MAX_UNITS, "a<b>" * 200 + "</b>" * 200):
        document = read_document("a.html", page.encode())
        assert set(document.texts()) == {"a"}
        assert document.write(["b"] * len(document.texts()), "").decode().count("b") > 200
    body = (run("a") + run("a", BOLD)) * (MAX_UNITS + 1)
    assert set(word(body).texts()) == {"a"}
    link = f"<w:hyperlink>{run('see ')}{run('it', BOLD)}</w:hyperlink>"
    assert word(body + link).texts()[-1] == 'see <span id="1">it</span>'
    book_ = read_document("a.epub", epub(a=f"<p>{'a<b>a</b>' * (MAX_UNITS + 1)}</p>"))
    assert set(book_.texts()) == {"A book", "a"}


def test_entities_of_books_are_characters() -> None:
    data = members(epub(a="<p>caf&eacute; <b>one</b></p><p>th&eacute;</p>"))
    doctype = b'<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "xhtml11.dtd">'
    name = "OPS/text/a.xhtml"
    data[name] = data[name].replace(b"<!DOCTYPE html>", doctype).replace(b' standalone="yes"', b"")
    document = read_document("a.epub", archive(data))
    assert document.texts()[1:] == ['caf\u00e9 <span id="1">one</span>', "th\u00e9"]
    after = members(document.write(["", "x", "ch\u00e1"], ""))[name].decode()
    assert "<p><b>x</b></p><p>ch\u00e1</p>" in after


WORDS_OF_XLIFF = [
    '<x id="1"/>',
    '<ph id="1"/>',
    '<ph id="1" dataRef="d1"/>',
    '<ph id="1" dataRef="d4"/>',
    '<ph id="1" dataRef="none"/>',
    '<x id="INTERPOLATION" equiv-text="{{ name }}"/>',
    '<ph id="0" equiv="INTERPOLATION" disp="{{x}}"/>',
    '<ph id="1">%1$s</ph>',
    '<ph id="1" type="ui"/>',
    '(<x id="1"/>)',
    '<mrk mtype="protected">Foo</mrk>',
    '<mrk translate="no">Foo</mrk>',
]
TAGS_OF_XLIFF = [
    '<ph id="1" dataRef="d2"/>',
    '<ph id="1" dataRef="d3"/>',
    '<x id="1" ctype="lb"/>',
    '<x id="1" ctype="x-html-strong"/>',
    '<ph id="1" type="fmt"/>',
    '<x id="START_BOLD_TEXT" equiv-text="&lt;b&gt;"/>',
    '<x id="LINE_BREAK"/>',
    '<ph id="1">&lt;br /&gt;</ph>',
    '<ph id="0" equiv="TAG_IMG" disp="&lt;img src=x&gt;"/>',
    '<bx id="1"/>',
    '<sc id="1"/>',
    '<x id="1"/>bold',
    'bold<ph id="1"/>',
]


@pytest.mark.parametrize("code", [*WORDS_OF_XLIFF, *TAGS_OF_XLIFF])
def test_code_of_xliff_is_a_word_unless_it_is_a_tag(code: str) -> None:
    codes = ("%s", "&lt;br/&gt;", "[b]", "&amp;name;")
    data = "".join(f'<data id="d{n}">{each}</data>' for n, each in enumerate(codes, 1))
    unit = f"<originalData>{data}</originalData><segment><source>Hi {code} now</source></segment>"
    text = f'<xliff version="2.0"><file><unit>{unit}</unit></file></xliff>'
    (found,) = read_document("a.xliff", text.encode()).texts()
    tag = '<code id="1"></code>' if code in WORDS_OF_XLIFF else '<img id="1">'
    words = re.sub("<.*>", "{}", code).format(tag)
    assert found == f"Hi {words} now"
    document = read_document("a.xliff", text.encode())
    assert f"<target>{code} oi</target>" in document.write([f"{words} oi"], "").decode()


ATTRIBUTES = (
    '<p>See <img alt="A red house"/> and <a title="  Nice ">this</a></p><code title="&lt;b&gt;">x'
    '</code><p translate="no" title="Keep">a <img alt="Keep"/></p><input alt="Send &amp; go"/>'
)


@pytest.mark.parametrize("name", ["a.html", "a.epub"])
def test_attributes_that_people_read_are_translated(name: str) -> None:
    data = ATTRIBUTES.encode() if name == "a.html" else epub(a=ATTRIBUTES)
    document = read_document(name, data)
    values = ["A red house", "Nice", "&lt;b&gt;", "Send &amp; go"]
    texts = document.texts()
    assert texts[-4:] == values
    assert not any("Keep" in text for text in texts)
    changed = [f"{text}!" if text in values else text for text in texts]
    assert read_document(name, document.write(changed, "")).texts() == changed


@pytest.mark.parametrize("place", ["trans-unit", "source"])
def test_lines_of_xliff_are_kept_where_they_count(place: str) -> None:
    text = 'one\n  <g id="1">two</g>\nthree'
    data = f'<xliff version="1.2"><trans-unit><source>{text}</source></trans-unit></xliff>'
    assert read_document("a.xlf", data.encode()).texts() == [
        'one\n  <span id="1">two</span>\nthree'
    ]
    data = data.replace(f"<{place}", f'<{place} xml:space="preserve"')
    document = read_document("a.xlf", data.encode())
    assert document.texts() == ['one<br>  <span id="1">two</span><br>three']
    written = document.write(['1<BR/>  <span id="1">2</span><br>3'], "").decode()
    assert '>1\n  <g id="1">2</g>\n3</target>' in written
