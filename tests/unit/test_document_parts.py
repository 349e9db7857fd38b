"""Parts of documents that readers see beside the body: charts, lists, texts of images, columns."""

import re

import pytest

from service.documents.base import DocumentError
from service.documents.formats import read_document
from service.documents.reader import DocumentReader
from tests.archives import (
    A,
    P,
    S,
    W,
    archive,
    bytes_of,
    content_of,
    docx,
    epub,
    members,
    odt,
    pdf,
    pptx,
    run,
    upper,
    xlsx,
)

TITLE = f"<a:p {A}><a:r><a:t>The title</a:t></a:r></a:p>"
CHART = (
    f'<c:chart xmlns:c="urn:c"><c:title>{TITLE}</c:title><c:strCache><c:ptCount/><c:pt>'
    "<c:v>A series</c:v></c:pt></c:strCache><c:numCache><c:pt><c:v>12</c:v></c:pt></c:numCache>"
    "</c:chart>"
)
SMART_ART = f'<d:dataModel xmlns:d="urn:d"><d:t>{TITLE}</d:t></d:dataModel>'
CORE = (
    '<p:coreProperties xmlns:p="urn:p" xmlns:dc="urn:dc"><dc:title>The title</dc:title>'
    "<dc:creator>Kept</dc:creator><dc:description>A text</dc:description></p:coreProperties>"
)
PARTS = {
    "word/charts/chart1.xml": (CHART, ["The title", "A series"]),
    "ppt/charts/chart12.xml": (CHART, ["The title", "A series"]),
    "xl/charts/chart1.xml": (CHART, ["The title", "A series"]),
    "word/diagrams/data1.xml": (SMART_ART, ["The title"]),
    "ppt/diagrams/drawing2.xml": (SMART_ART, ["The title"]),
    "xl/drawings/drawing1.xml": (f"<x:sp xmlns:x='urn:x'>{TITLE}</x:sp>", ["The title"]),
    "xl/comments/comment1.xml": (f"<c {S}><text><t>The title</t></text></c>", ["The title"]),
    "word/docProps.xml": (CORE, []),
    "docProps/core.xml": (CORE, ["The title", "A text"]),
    "word/glossary/document.xml": (f"<w:d {W}><w:p>{run('Choose it')}</w:p></w:d>", ["Choose it"]),
    "ppt/comments/modern1.xml": (f"<m:cm xmlns:m='urn:m'>{TITLE}</m:cm>", ["The title"]),
    "ppt/slideMasters/slideMaster1.xml": (
        f"<p:m {P}><p:sp><p:nvPr><p:ph/></p:nvPr>{TITLE}</p:sp><p:sp>{TITLE}</p:sp></p:m>",
        ["The title"],
    ),
    "ppt/slideLayouts/slideLayout1.xml": (f"<p:m {P}><p:sp>{TITLE}</p:sp></p:m>", ["The title"]),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_office_documents_are_translated(part: str) -> None:
    content, texts = PARTS[part]
    kind = {"word": "docx", "ppt": "pptx", "xl": "xlsx"}.get(part.split("/")[0], "docx")
    empty = {"docx": docx(""), "pptx": pptx(), "xlsx": xlsx("")}[kind]
    data = archive({**members(empty), part: content})
    document = read_document(f"a.{kind}", data)
    assert document.texts() == texts
    written = members(document.write([upper(text) for text in texts], ""))[part].decode()
    assert all(f">{text.upper()}<" in written for text in texts)
    assert "Kept" in written or "Kept" not in content


ATTRIBUTES = (
    '<w:drawing><wp:docPr xmlns:wp="urn:wp" id="1" name="Kept 1" descr="A red house"/></w:drawing>',
    '<w:drawing><pic:cNvPr xmlns:pic="urn:pic" name="Kept" title="A red house"/></w:drawing>',
    '<w:listItem w:displayText="A red house" w:value="Kept"/>',
    '<w:tblCaption w:val="A red house"/>',
    '<w:tblDescription w:val="A red house"/>',
)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_attributes_of_office_documents_are_translated(attribute: str) -> None:
    document = read_document("a.docx", docx(f"<w:p><w:r>{attribute}</w:r></w:p>"))
    assert document.texts() == ["A red house"]
    written = members(document.write(["Uma casa"], ""))["word/document.xml"].decode()
    assert '"Uma casa"' in written
    assert "Kept" in written or "Kept" not in attribute


AROUND = {
    "content control": "<w:sdt><w:sdtPr/><w:sdtContent>{}</w:sdtContent></w:sdt>",
    "tracked insertion": '<w:ins w:id="1">{}</w:ins>',
    "smart tag": "<w:smartTag>{}</w:smartTag>",
    "moved text": '<w:moveTo w:id="1">{}</w:moveTo>',
    "link": "<w:hyperlink>{}</w:hyperlink>",
}


@pytest.mark.parametrize("kind", AROUND)
def test_runs_in_an_element_are_part_of_the_sentence(kind: str) -> None:
    body = f"<w:p>{run('Dear ')}{AROUND[kind].format(run('client'))}{run(' thank you')}</w:p>"
    document = read_document("a.docx", docx(body))
    assert document.texts() == ['Dear <span id="1">client</span> thank you']
    reply = 'Caro <span id="1">cliente</span> obrigado'
    written = members(document.write([reply], ""))["word/document.xml"].decode()
    words = "".join(re.findall("<w:t[^>]*>([^<]*)", written))
    assert words == "Caro cliente obrigado"
    assert AROUND[kind].split("{}")[1] in written


def test_deleted_text_stays() -> None:
    deleted = '<w:del w:id="1"><w:r><w:delText>old</w:delText></w:r></w:del>'
    document = read_document("a.docx", docx(f"<w:p>{run('One ')}{deleted}{run('two')}</w:p>"))
    assert document.texts() == ['One <img id="1">two']
    assert deleted in members(document.write(document.texts(), ""))["word/document.xml"].decode()


def test_main_part_may_have_another_name() -> None:
    files = members(docx(f"<w:p>{run('Hello')}</w:p>"))
    files["word/document2.xml"] = files.pop("word/document.xml")
    files["_rels/.rels"] = (
        b'<R><R Type="http://x/officeDocument" Target="/word/document2.xml"/></R>'
    )
    assert read_document("a.docx", archive(files)).texts() == ["Hello"]


def test_encrypted_and_old_documents_are_named() -> None:
    with pytest.raises(DocumentError, match=r"encrypted or of an old format such as \.doc"):
        read_document("a.docx", bytes.fromhex("D0CF11E0A1B11AE1") + bytes(512))


COLUMNS = {
    "Name\t\tAge of it\tTown": ["Name", "Age of it", "Town"],
    "  Name    Age    Town": ["Name", "Age", "Town"],
    "Name  Age of it": ["Name", "Age of it"],
    "It is so.  Then it went.": ["It is so.  Then it went."],
    "Chapter one ....... 12": ["Chapter one ....... 12"],
    "Total:\t12\tfree": ["Total:", "free"],
}


@pytest.mark.parametrize("line", COLUMNS)
def test_columns_of_text_files_stay(line: str) -> None:
    document = read_document("a.txt", f"{line}\r\n{line}\n".encode())
    assert document.texts() == COLUMNS[line] * 2
    written = document.write([text.upper() for text in document.texts()], "")
    assert written.decode() == f"{line.upper()}\r\n{line.upper()}\n"


def test_very_long_line_of_a_text_file_is_translated_in_pieces() -> None:
    line = "The old house stood on the hill. " * 20_000
    document = read_document("a.txt", f" {line}\nEnd".encode())
    *pieces, last, end = document.texts()
    assert (len(document.texts()), end) == (133, "End")
    assert all(5000 <= len(piece) < 5100 and piece.endswith(".") for piece in pieces)
    assert last.endswith("hill.")
    written = document.write([upper(text) for text in document.texts()], "").decode()
    assert written == f" {line}\nEnd".upper()


@pytest.mark.parametrize(
    ("space", "texts"),
    [
        ('<text:s text:c="3"/>', ["Name", "Age"]),
        ("<text:tab/>", ["Name", "Age"]),
        ("<text:s/>", ['Name<img id="1">Age']),
        ('<text:s text:c="1"/>', ['Name<img id="1">Age']),
    ],
)
def test_columns_of_open_documents_stay(space: str, texts: list[str]) -> None:
    document = read_document("a.odt", odt(f"<text:p>Name{space}Age</text:p>"))
    assert document.texts() == texts
    written = members(document.write([upper(text) for text in texts], ""))["content.xml"].decode()
    assert f"NAME{space}AGE" in written


def test_translated_words_in_an_untranslated_element_of_a_book() -> None:
    page = '<p translate="no">Kept <span translate="yes">one <b>two</b></span> kept</p>'
    document = read_document("a.epub", epub(a=page))
    assert document.texts()[1:] == ['one <span id="1">two</span>']
    written = members(document.write(["", 'x <span id="1">y</span>'], ""))["OPS/text/a.xhtml"]
    assert page.replace("one <b>two</b>", "x <b>y</b>") in written.decode()


def test_paragraphs_of_a_pdf() -> None:
    wide = "The cat sat on the mat of the old house and was look-"
    data = pdf("A title", wide, "ing at the dog in the garden. It did not move at all,", "today.",
               "- One", "- Two", "12")  # fmt: skip
    document = read_document("a.pdf", data)
    assert document.texts() == [
        "A title",
        f"{wide[:-1]}ing at the dog in the garden. It did not move at all, today.",
        *("- One", "- Two"),
    ]
    assert document.skipped == {"images": 1}
    written = document.write(["Um *título*", "Texto", "- Um", "- Dois"], "").decode()
    assert written == "Um \\*título\\*\n\nTexto\n\n\\- Um\n\n\\- Dois\n\n12\n\n"


@pytest.mark.parametrize("data", [b"%PDF-1.4\n%%EOF", pdf("12"), pdf("a")[:300], b"hello"])
def test_pdf_without_text_is_refused(data: bytes) -> None:
    with pytest.raises(DocumentError):
        read_document("a.pdf", data)


async def test_process_keeps_the_flag_of_fuzzy_entries() -> None:
    text = b'#, fuzzy\nmsgid "a"\nmsgstr "b"\n'
    for keeps, written in ((True, text), (False, text[9:])):
        reader = DocumentReader(2**20, keeps_fuzzy=keeps)
        content = content_of(text)
        try:
            await reader.write("a.po", content, ["c"], "")
        finally:
            reader.close()
        assert bytes_of(content) == written.replace(b'"b"', b'"c"')
