"""Documents of XML: order and formatting are kept; damaged and hostile files are refused."""

import io
import struct
from collections.abc import Callable
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest
from lxml import etree

from service.documents import xml_files as limits
from service.documents.base import DocumentError, DocumentTooLargeError
from service.documents.formats import Document, read_document
from service.documents.tagged import Element
from service.documents.xml_files import XmlParser
from tests.archives import S, archive, docx, epub, members, odt, pptx, run, upper, xlsx

BOLD = "<w:b/>"
XLIFF_1 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
<file original="a" source-language="en" target-language="fr" datatype="plaintext"><body>
<trans-unit id="1"><source>The <g id="1">black</g> cat<x id="2"/></source></trans-unit>
<trans-unit id="2"><source>done</source><target>pronto</target></trans-unit>
<trans-unit id="3" translate="no"><source>Regard</source></trans-unit>
<trans-unit id="4"><source>A dog</source><target state="new">A dog</target><note>n</note>
</trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="1"><segment><source>The <pc id="1">black</pc> cat</source></segment>
<ignorable><source> </source></ignorable><segment state="final"><source>done</source>
<target>pronto</target></segment></unit></file></xliff>"""

DOCX = docx(
    "<w:p><w:pPr><w:jc/></w:pPr>"
    + run("The ", '<w:lang w:val="en-US"/>')
    + "<w:proofErr/>"
    + run("cat ")
    + run("sat", BOLD)
    + run(" here.")
    + "</w:p><w:tbl><w:tc><w:p>"
    + run("A cell")
    + "</w:p></w:tc></w:tbl><w:p>"
    + run("one")
    + "<w:r><w:tab/></w:r>"
    + run("two")
    + '<w:hyperlink r:id="1" xmlns:r="urn:r">'
    + run("a link")
    + "</w:hyperlink><w:r><w:instrText>PAGE</w:instrText></w:r>"
    + run("12")
    + "</w:p>",
    footnotes=f'<w:footnotes xmlns:w="{"http://schemas.openxmlformats.org/wordprocessingml/2006/main"}">'
    f"<w:p>{run('A note')}</w:p></w:footnotes>",
)
PPTX = pptx(
    '<a:p><a:r><a:rPr lang="en" dirty="0"/><a:t>The </a:t></a:r><a:r><a:rPr lang="de"/>'
    '<a:t>cat</a:t></a:r><a:r><a:rPr b="1"/><a:t>sat</a:t></a:r><a:fld><a:t>7</a:t></a:fld></a:p>',
    *("<a:p><a:r><a:t>Slide</a:t></a:r></a:p>" for _ in range(9)),
)
RSID = (
    '<style:style style:name="T1"><style:text-properties officeooo:rsid="001"/></style:style>'
    '<style:style style:name="T2"><style:text-properties fo:font-weight="bold"/></style:style>'
)
ODT = odt(
    '<text:h>A title</text:h><text:p>The <text:span text:style-name="T1">cat</text:span> sat '
    '<text:span text:style-name="T2">here</text:span> today.<text:note><text:note-citation>1'
    "</text:note-citation><text:note-body><text:p>A note</text:p></text:note-body></text:note>"
    " Then it ran.</text:p>",
    RSID,
)
ANDROID = (
    rb"""<resources><string name="a">The cat\'s\ntail</string><plurals name="c">"""
    b"""<item quantity="one">%d dog</item><item quantity="other">%d <b>dogs</b></item></plurals>"""
    b"""<string name="b" translatable="false">Kept</string><string name="d">@string/a</string>"""
    b"""<style name="s"><item name="x">Kept</item></style></resources>"""
)
RESX = (
    b'<root><resheader name="version"><value>Kept</value></resheader><data name="a" xml:space='
    b'"preserve"><value>The cat</value><comment>Kept</comment></data><data name="b" type="Size">'
    b"<value>Kept</value></data></root>"
)
ODS = odt(
    '<table:table table:name="Kept"><table:table-row>'
    '<table:table-cell office:value-type="string"><text:p>A cell</text:p></table:table-cell>'
    '<table:table-cell office:value-type="date"><text:p>Monday</text:p></table:table-cell>'
    '<table:table-cell table:formula="of:=A1"><text:p>A cell</text:p></table:table-cell>'
    "<table:table-cell><text:p>Name</text:p></table:table-cell><table:table-cell><text:p>SKU-12"
    "</text:p></table:table-cell></table:table-row></table:table>",
    kind="spreadsheet",
)
XLSX = xlsx(
    "<si><t>A cell</t></si><si><r><t>The </t></r><r><rPr><b/></rPr><t>red</t></r><r><t> cat</t>"
    "</r><rPh><t>kept</t></rPh></si><si><t>Kept name</t></si><si><t>12</t></si><si><t>a_b</t></si>",
    inline=f'<worksheet {S}><c t="inlineStr"><is><t>Inline</t></is></c><c t="str"><v>kept</v></c>'
    "</worksheet>",
    table=f'<table {S}><tableColumns><tableColumn name="Kept name"/></tableColumns></table>',
    comments=f"<comments {S}><comment><text><r><t>A comment</t></r></text></comment></comments>",
)
EPUB = epub(
    two="<h1>Second</h1><p>The <em>cat</em> sat.<br/>There&#160;too.</p><pre>code</pre>",
    one="<p>First</p>",
)

FILES = {
    "a.docx": (
        DOCX,
        [
            'The cat <span id="1">sat</span> here.',
            "A cell",
            "one",
            'two<span id="1">a link</span>',
            "A note",
        ],
    ),
    "a.pptx": (PPTX, ['The cat<span id="1">sat</span>', *["Slide"] * 9]),
    "a.odt": (
        ODT,
        [
            "A title",
            'The cat sat <span id="1">here</span> today.<img id="2"> Then it ran.',
            "A note",
        ],
    ),
    "a.odp": (odt("<text:p>A slide</text:p>", kind="presentation"), ["A slide"]),
    "a.ods": (ODS, ["A cell", "Name"]),
    "a.xlsx": (XLSX, ["A comment", "A cell", 'The <span id="1">red</span> cat', "Inline"]),
    "a.epub": (
        EPUB,
        ["A book", "Second", 'The <span id="1">cat</span> sat.', "There\xa0too.", "First"],
    ),
    "a.xml": (ANDROID, ["The cat's<br>tail", "%d dog", '%d <span id="1">dogs</span>']),
    "a.resx": (RESX, ["The cat"]),
    "a.xlf": (XLIFF_1.encode(), ['The <span id="1">black</span> cat', "A dog"]),
    "b.xliff": (XLIFF_2.encode(), ['The <span id="1">black</span> cat']),
}

by_name = pytest.mark.parametrize("name", FILES)
archives = pytest.mark.parametrize(
    "name", [name for name in FILES if FILES[name][0].startswith(b"PK")]
)


def read(name: str) -> Document:
    return read_document(name, FILES[name][0])


def rewrite(name: str, change: Callable[[str], str], language: str = "") -> bytes:
    document = read(name)
    return document.write([change(text) for text in document.texts()], language)


def canonical(data: bytes) -> bytes:
    result: bytes = etree.tostring(etree.fromstring(data), method="c14n")
    return result


@by_name
def test_texts_are_found_in_order(name: str) -> None:
    assert read(name).texts() == FILES[name][1]


@archives
def test_unchanged_texts_give_the_same_document(name: str) -> None:
    before, after = members(FILES[name][0]), members(rewrite(name, str))
    assert list(after) == list(before)
    for part, content in before.items():
        if part.endswith((".xml", ".xhtml", ".opf")):
            assert canonical(after[part]) == canonical(content)
        else:
            assert after[part] == content


@archives
def test_translations_are_read_again(name: str) -> None:
    written = rewrite(name, upper)
    texts = [upper(text) for text in FILES[name][1]]
    assert read_document(name, written).texts() == texts


def test_first_file_of_an_archive_stays_uncompressed() -> None:
    with ZipFile(io.BytesIO(rewrite("a.epub", upper))) as file:
        first = file.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", 0)


def test_text_boxes_are_read_once() -> None:
    box = f"<w:txbxContent><w:p>{run('Inside')}</w:p></w:txbxContent>"
    data = docx(f"<w:p>{run('Before')}<w:r><w:pict>{box}</w:pict></w:r>{run('after')}</w:p>")
    assert read_document("a.docx", data).texts() == ["Before", "after", "Inside"]


def test_books_and_pages_name_their_language() -> None:
    after = members(rewrite("a.epub", str, "pt"))
    assert b"<dc:language>pt</dc:language>" in after["OPS/book.opf"]
    assert b'lang="pt"' in after["OPS/text/one.xhtml"]


@pytest.mark.parametrize("name", ["a.xlf", "b.xliff"])
def test_xliff_gets_targets_with_the_tags_of_the_source(name: str) -> None:
    written = rewrite(name, upper, "pt")
    root = etree.fromstring(written)
    targets = list(root.iter("{*}target"))
    sources = list(root.iter("{*}source"))
    shapes = [[inner.tag for inner in each.iter() if inner is not each] for each in targets]
    assert "".join(targets[0].itertext()) == "THE BLACK CAT"
    assert shapes[0] == [e.tag for e in sources[0].iter() if e is not sources[0]]
    assert "".join(sources[0].itertext()) == "The black cat"
    assert b">pronto<" in written
    assert b'"pt"' in written
    assert read_document(name, written).texts() == []


def test_xliff_target_comes_after_the_segmented_source() -> None:
    unit = "<source>A cat.</source>\n<seg-source><mrk mtype='seg'>A cat.</mrk></seg-source>\n"
    data = XLIFF_1.replace('<source>A dog</source><target state="new">A dog</target>', unit)
    document = read_document("a.xlf", data.encode())
    root = etree.fromstring(document.write([upper(text) for text in document.texts()], "pt"))
    (parent,) = (each.getparent() for each in root.iter("{*}seg-source"))
    names = [etree.QName(each).localname for each in parent]
    assert names == ["source", "seg-source", "target", "note"]
    assert parent.findtext("{*}target") == "A CAT."


def test_xliff_without_open_units_comes_back() -> None:
    written = rewrite("a.xlf", str)
    assert canonical(read_document("a.xlf", written).write([], "")) == canonical(written)


@by_name
def test_every_cut_file_is_refused_or_read(name: str) -> None:
    data = FILES[name][0]
    for end in range(0, len(data) - 1, max(1, len(data) // 40)):
        with pytest.raises(DocumentError):
            read_document(name, data[:end])


@archives
def test_archives_of_another_format_are_refused(name: str) -> None:
    with pytest.raises(DocumentError, match="another format"):
        read_document(name, archive({"a.txt": "text"}))


def encrypted(data: bytes) -> bytes:
    """Returns an archive whose files have the flag of encryption."""
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        head, *parts = data.split(signature)
        place = offset - len(signature)
        flagged = [part[:place] + bytes([part[place] | 1]) + part[place + 1 :] for part in parts]
        data = signature.join([head, *flagged])
    return data


XLIFF_OF_ENTITIES = '<!DOCTYPE x [{}]><xliff version="1.2"><source>&a;</source></xliff>'
REFUSED = {
    "entities that grow": (
        *("a.xlf", XLIFF_OF_ENTITIES.format('<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">').encode()),
        "entities",
    ),
    "an entity in a file": (
        *("a.xlf", XLIFF_OF_ENTITIES.format('<!ENTITY a SYSTEM "file:///etc/passwd">').encode()),
        "entities",
    ),
    "DOCTYPE": ("a.docx", archive({"word/document.xml": "<!DOCTYPE a><a/>"}), "DOCTYPE"),
    "encryption": ("a.docx", encrypted(DOCX), "encrypted; remove its password"),
    "an old format": (
        *("a.docx", limits.OLD_FORMAT + bytes(512)),
        r"encrypted or of an old format such as \.doc",
    ),
    "protection by Adobe": (
        *("a.epub", archive(members(EPUB) | {"META-INF/rights.xml": b"<rights/>"})),
        "copy protection",
    ),
    "protection by Readium": (
        *("a.epub", archive(members(EPUB) | {"META-INF/license.lcpl": b"<rights/>"})),
        "copy protection",
    ),
    "a missing mimetype": ("a.odt", archive({"content.xml": "<style/>"}), "another format"),
    "deep nesting": ("a.docx", docx("<w:p>" * 30_000 + "</w:p>" * 30_000), "not well-formed"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_documents_are_refused_with_a_reason(kind: str) -> None:
    name, data, reason = REFUSED[kind]
    with pytest.raises(DocumentError, match=reason):
        read_document(name, data)


def test_archive_that_unpacks_to_very_much_is_refused() -> None:
    bomb = archive({"word/document.xml": bytes(limits.FREE_BYTES + 1)})
    assert len(bomb) < 100_000
    with pytest.raises(DocumentTooLargeError, match="after unpacking"):
        read_document("a.docx", bomb)


def parts(content: str, encoding: str, others: int = 2) -> bytes:
    """A Word document whose body, footnotes and endnotes have the same content."""
    declaration = f'<?xml version="1.0" encoding="{encoding}"?>'
    names = ("document", "footnotes", "endnotes")[: 1 + others]
    part = f"{declaration}<w>{content}</w>".encode(encoding)
    output = io.BytesIO()
    with ZipFile(output, "w") as file:  # not packed, because of MAX_RATIO
        for name in names:
            file.writestr(f"word/{name}.xml", part)
    return output.getvalue()


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
@pytest.mark.parametrize(
    "content",
    ["<a/>", "<a></a>", "<!---->", "<?a?>", "<a" + "".join(f' a{n}=""' for n in range(9)) + "/>"],
)
def test_nodes_of_all_parts_are_counted_together(
    content: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_NODES", 1000)
    nodes = 10 if "=" in content else 1
    fits, excess = 900 // nodes, 400 // nodes
    assert read_document("a.docx", parts(content * fits, encoding, others=0)).texts() == []
    with pytest.raises(DocumentTooLargeError, match="elements and attributes.*limit is 1000"):
        read_document("a.docx", parts(content * excess, encoding))


def test_bytes_of_all_parts_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_XML_BYTES", 1000)
    assert read_document("a.docx", parts("a" * 400, "UTF-8", others=1)).texts() == []
    with pytest.raises(DocumentTooLargeError, match="bytes.*limit is 1000"):
        read_document("a.docx", parts("a" * 400, "UTF-8"))


def test_archive_with_many_files_is_refused() -> None:
    output = io.BytesIO()
    with ZipFile(output, "w", ZIP_DEFLATED) as file:
        for number in range(limits.MAX_MEMBERS + 1):
            file.writestr(f"{number}", b"")
    with pytest.raises(DocumentTooLargeError, match="10001 files"):
        read_document("a.docx", output.getvalue())


def test_chapter_that_is_listed_often_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    book = members(epub(c="<p>one</p>"))
    item = b'<item id="c" href="text/c.xhtml" media-type="application/xhtml+xml"/>'
    again = item.replace(b'"c"', b'"d"') + item.replace(b'"c"', b'"e"').replace(
        b"text/", b"./text/"
    )
    book["OPS/book.opf"] = book["OPS/book.opf"].replace(item, item + again)
    names = []
    parse = XmlParser.parse

    def counting(parser: XmlParser, data: bytes, name: str) -> Element:
        names.append(name)
        return parse(parser, data, name)

    monkeypatch.setattr(XmlParser, "parse", counting)
    assert read_document("a.epub", archive(book)).texts().count("one") == 1
    assert names.count("OPS/text/c.xhtml") == 1


def test_elements_in_odd_places_do_no_harm() -> None:
    field = (
        '<w:r><w:x w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'
        '<w:r><w:x w:fldCharType="end"/></w:r>'
    )
    document = read_document("a.docx", docx(f"<w:p>{field}{run('one')}</w:p>"))
    assert any("one" in text for text in document.texts())


@pytest.mark.parametrize("name", ["word/document.xml", "word/media/image1.png"])
@pytest.mark.parametrize(
    ("method", "named"), [(ZIP_BZIP2, "bzip2"), (ZIP_LZMA, "LZMA"), (97, "method 97")]
)
def test_other_methods_than_deflate_are_refused_before_a_file_is_opened(
    name: str, method: int, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`zipfile` unpacks 1,451 bytes of bzip2 to 3.3 GB, whatever size the archive states."""
    packing = method if method < 97 else ZIP_DEFLATED
    output = io.BytesIO()
    with ZipFile(output, "w") as file:
        file.writestr("mimetype", "", ZIP_DEFLATED)
        file.writestr(name, bytes(1000), packing)
    directory = output.getvalue().rindex(b"PK\1\2")
    data = bytearray(output.getvalue())
    data[directory + 10 : directory + 12] = struct.pack("<H", method)

    def opened(*_arguments: object) -> None:
        raise AssertionError

    monkeypatch.setattr(ZipFile, "open", opened)
    with pytest.raises(DocumentError, match=f"packs its files with {named}; documents use deflate"):
        read_document("a.docx", bytes(data))


def test_false_sizes_do_no_harm() -> None:
    """Each size of the central directory states too much or too little."""
    size = 1000
    for place in (20, 24):  # the packed and the unpacked size
        for false in (0, 1, size - 1, size + 1, 2**20, 2**31):
            data = bytearray(archive({"word/document.xml": bytes(size)}))
            entry = data.rindex(b"PK\1\2")
            data[entry + place : entry + place + 4] = struct.pack("<I", false)
            with pytest.raises(DocumentError):
                read_document("a.docx", bytes(data))


def test_deep_pages_are_read() -> None:
    for tags in (b"<b>", b"</b><i>", b"<!", b"<a ", b"</", b"<html ", b"<!--"):
        page = tags * 30_000
        document = read_document("a.html", page)
        assert document.write(document.texts(), "") == page
