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
    pdf_of,
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
    "xl/threadedComments/threadedComment1.xml": (
        "<T xmlns='urn:t'><threadedComment><text>The title</text></threadedComment></T>",
        ["The title"],
    ),
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
    '<w:pict><v:textpath xmlns:v="urn:v" style="Kept" string="A red house"/></w:pict>',
)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_attributes_of_office_documents_are_translated(attribute: str) -> None:
    document = read_document("a.docx", docx(f"<w:p><w:r>{attribute}</w:r></w:p>"))
    assert document.texts() == ["A red house"]
    written = members(document.write(["Uma casa"], ""))["word/document.xml"].decode()
    assert '"Uma casa"' in written
    assert "Kept" in written or "Kept" not in attribute


SHEET = "xl/worksheets/sheet1.xml"
CELLS = "".join(
    f"<si><t>{text}</t></si>" for text in ("Open it", "A rose", "Kind of\nplant", " Name ")
)
REFERENCES = {  # to texts of cells, which therefore stay
    "<f>COUNTIF(B:B,&quot;Open it&quot;)</f>": ["Open it"],
    '<x:f t="shared">IF(A1<>"open IT",1,"A "&amp;"""rose""")</x:f>'.replace("<>", "&lt;&gt;"): (
        ["Open it"]
    ),
    '<f>COUNTIF(B:B,"&lt;&gt;A rose")</f>': ["A rose"],
    '<formula1>"Open it,A rose"</formula1>': ["Open it", "A rose"],
    '<cfRule><formula>$A1="A rose"</formula></cfRule>': ["A rose"],
    '<filters><filter val="A rose"/></filters>': ["A rose"],
    '<customFilters><customFilter operator="equal" val="Open it"/></customFilters>': ["Open it"],
    '<t>"Open it" <f/> "A rose"</t>': [],
}


@pytest.mark.parametrize("reference", REFERENCES)
def test_cells_that_formulas_compare_stay(reference: str) -> None:
    files = members(xlsx(CELLS)) | {SHEET: f"<worksheet {S}>{reference}</worksheet>"}
    found = ["Open it", "A rose", "Kind of<br>plant", "Name"]
    kept = REFERENCES[reference]
    assert read_document("a.xlsx", archive(files)).texts() == [x for x in found if x not in kept]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (
            "tables/table1",
            "<t><tableColumn name='Kind of_x000a_plant'/><tableColumn name='Name'/></t>",
        ),
        ("tables/table2", "<t><tableColumn name=' Name ' totalsRowLabel='Kind of&#10;plant'/></t>"),
        (
            "pivotCache/pivotCacheDefinition1",
            "<p><cacheField name='Name'/><cacheField name='kind of plant'/></p>",
        ),
    ],
)
def test_header_cells_of_tables_stay(name: str, part: str) -> None:
    files = members(xlsx(CELLS)) | {f"xl/{name}.xml": part}
    files["xl/charts/chart1.xml"] = CHART.replace("A series", "Name").encode()
    document = read_document("a.xlsx", archive(files))
    assert document.texts() == ["The title", "Open it", "A rose"]
    written = members(document.write([upper(text) for text in document.texts()], ""))
    assert written[f"xl/{name}.xml"].decode() == part


def test_lines_of_a_cell_stay() -> None:
    cells = "<si><t>One line_x000D_\nTwo</t></si><si><r><t>One\n</t></r><r><t>Two</t></r></si>"
    document = read_document("a.xlsx", xlsx(cells))
    assert document.texts() == ["One line<br>Two", "One<br>Two"]
    written = members(document.write(["Uma linha<br>Duas", "Um<br>Dois"], ""))
    assert re.findall(">([^<]+)</t>", written["xl/sharedStrings.xml"].decode()) == (
        ["Uma linha\nDuas", "Um\nDois"]
    )


def test_results_of_formulas_are_to_be_computed_again() -> None:
    files = members(xlsx("")) | {
        "xl/workbook.xml": f"<workbook {S}><calcPr calcId='1'/></workbook>"
    }
    written = members(read_document("a.xlsx", archive(files)).write([], ""))["xl/workbook.xml"]
    assert b'fullCalcOnLoad="1"' in written


def test_headers_and_footers_of_sheets_are_translated() -> None:
    printed = (
        '&amp;L&amp;"Arial,Bold"&amp;12 The garden&amp;K00-012 society&amp;RPage &amp;P of &amp;N'
    )
    sheet = (
        f"<worksheet {S}><oddFooter>{printed}</oddFooter><oddHeader>&amp;A</oddHeader></worksheet>"
    )
    data = archive(members(xlsx("")) | {SHEET: sheet})
    document = read_document("a.xlsx", data)
    assert document.texts() == ["The garden", "society", "Page", "of"]
    written = document.write([upper(text) for text in document.texts()], "")
    expected = re.sub("The garden|society|Page|of", lambda found: found[0].upper(), sheet)
    assert members(written)[SHEET].decode().endswith(expected)
    too_long = read_document("a.xlsx", data).write(["x" * 300, "A & B", "Página", "de"], "")
    assert "12 The garden&amp;K00-012 A &amp;&amp; B&amp;R" in members(too_long)[SHEET].decode()


ODS_REFERENCES = [
    '<table:x table:formula="of:=COUNTIF([.A1:.A9];&quot;Open it&quot;)"/>',
    '<table:x table:condition=\'of:cell-content-is-in-list("Open it";"Closed")\'/>',
    '<table:filter-condition table:operator="=" table:value="Open it"/>',
    '<table:data-pilot-field table:source-field-name="Open it"/>',
]


@pytest.mark.parametrize("reference", ODS_REFERENCES)
def test_cells_that_formulas_of_open_documents_compare_stay(reference: str) -> None:
    cells = "".join(
        f"<table:table-cell><text:p>{text}</text:p></table:table-cell>" for text in ("Open it", "A")
    )
    assert read_document("a.ods", odt(cells + reference, kind="spreadsheet")).texts() == ["A"]


AROUND = {
    "content control": "<w:sdt><w:sdtPr/><w:sdtContent>{}</w:sdtContent></w:sdt>",
    "tracked insertion": '<w:ins w:id="1">{}</w:ins>',
    "smart tag": "<w:smartTag>{}</w:smartTag>",
    "moved text": '<w:moveTo w:id="1">{}</w:moveTo>',
    "link": "<w:hyperlink>{}</w:hyperlink>",
}


@pytest.mark.parametrize("inner", [*AROUND, ""])
@pytest.mark.parametrize("outer", AROUND)
def test_runs_in_elements_are_part_of_the_sentence(outer: str, inner: str) -> None:
    around = AROUND[outer].replace("{}", AROUND[inner]) if inner else AROUND[outer]
    body = f"<w:p>{run('Dear ')}{around.format(run('client'))}{run(' thank you')}</w:p>"
    document = read_document("a.docx", docx(body))
    tags = '<span id="1"><span id="2">@</span></span>' if inner else '<span id="1">@</span>'
    assert document.texts() == [f"Dear {tags.replace('@', 'client')} thank you"]
    reply = f"Caro {tags.replace('@', 'cliente')} obrigado"
    written = members(document.write([reply], ""))["word/document.xml"].decode()
    assert "".join(re.findall("<w:t[^>]*>([^<]*)", written)) == "Caro cliente obrigado"
    assert around.split("{}")[1] in written


def test_main_part_may_have_another_name() -> None:
    files = members(docx(f"<w:p>{run('Hello')}</w:p>"))
    files["word/document2.xml"] = files.pop("word/document.xml")
    files["_rels/.rels"] = (
        b'<R><R Type="http://x/officeDocument" Target="/word/document2.xml"/></R>'
    )
    assert read_document("a.docx", archive(files)).texts() == ["Hello"]


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


FIELDS = "title chapter bookmark-ref file-name variable-get placeholder sequence".split()


@pytest.mark.parametrize("name", FIELDS)
def test_fields_of_open_documents_stay_in_their_sentence(name: str) -> None:
    field = f"<text:{name}>The result</text:{name}>"
    control = "<x:content-control xmlns:x='urn:x'>the garden</x:content-control>"
    document = read_document("a.odt", odt(f"<text:p>See {field} of {control}.</text:p>"))
    assert document.texts() == ['See <code id="1"></code> of <span id="2">the garden</span>.']
    reply = '<span id="2">O jardim</span> em <code id="1"></code>.'
    written = members(document.write([reply], ""))["content.xml"].decode()
    assert f">O jardim</x:content-control> em {field}.</text:p>" in written


def test_translated_words_in_an_untranslated_element_of_a_book() -> None:
    page = '<p translate="no">Kept <span translate="yes">one <b>two</b></span> kept</p>'
    document = read_document("a.epub", epub(a=page))
    assert document.texts()[1:] == ['one <span id="1">two</span>']
    written = members(document.write(["", 'x <span id="1">y</span>'], ""))["OPS/text/a.xhtml"]
    assert page.replace("one <b>two</b>", "x <b>y</b>") in written.decode()


def placed(x: float, y: float, text: str, size: int = 11, font: str = "F1") -> str:
    return f"BT /{font} {size} Tf {x} {y} Td ({text}) Tj ET\n"


FAR = f"{'9' * 30} 0 0 {'9' * 30} 0 0 cm\n" * 12 + placed(9, 9, "Far away")
WIDE = "The cat sat on the mat of the old house and was looking at the dog for"


def test_paragraphs_of_a_pdf() -> None:
    wide = "The cat sat on the mat of the old house and was look-"
    data = pdf("A title", wide, "ing at the dog in the garden. It did not move at all,", "today.",
               "- One", "- Two", "12")  # fmt: skip
    document = read_document("a.pdf", data)
    assert document.texts() == [
        "A title",
        f"{wide[:-1]}ing at the dog in the garden. It did not move at all, today.",
        *("One", "Two"),
    ]
    assert document.skipped == {"images": 1}
    written = document.write(["Um *título*", "- Texto", "Um", "Dois"], "").decode()
    assert written == "Um \\*título\\*\n\n\\- Texto\n\n- Um\n\n- Dois\n\n12\n\n"


LEFT = ("The cat sat on the mat of", "the old house, and looked", "at the dog that lay there", "in")
RIGHT = ("the garden beside it, for", "so long that it slept in", "the sun.", "The end")
PLANTS = (
    *((50, 700, "Name"), (150, 700, "What it is"), (300, 700, "Price")),
    *((50, 680, "Rose"), (150, 680, "A plant with a"), (150, 667, "long stem"), (315, 680, "3")),
    *((50, 650, "Oak"), (305, 650, "108")),
    *((50, 630, "Elm | ash"), (150, 630, "A tree"), (310, 630, "15")),
)
ITEMS = (("\\225", "Water the old roses of the"), ("1.", "Cut them"), ("a\\)", "Rest"))
PARAGRAPH = placed(50, 600, WIDE) + placed(50, 586, "a long time.")
TURNS = ("1 0 0 1 0 0", "0 1 -1 0 0 0", "-1 0 0 -1 0 0", "0 -1 1 0 0 0")
PAGES = {
    "headings are large or bold": (
        placed(50, 700, "A title", 20)
        + placed(50, 660, "In bold", font="F2")
        + PARAGRAPH
        + placed(50, 540, "Not a title: ", font="F2")
        + placed(120, 540, "it has plain words.")
        + placed(50, 500, "Bold, but a sentence.", font="F2"),
        f"# A title\n\n## In bold\n\n{WIDE} a long time.\n\nNot a title: it has plain words.\n\n"
        "Bold, but a sentence.\n\n",
    ),
    # Cells may have several lines, or be empty, and numbers end at the same place.
    "tables": (
        placed(50, 760, WIDE) + "".join(placed(*cell) for cell in PLANTS),
        f"{WIDE}\n\n| Name | What it is | Price |\n|---|---|---|\n"
        "| Rose | A plant with a long stem | 3 |\n"
        "| Oak |  | 108 |\n| Elm \\| ash | A tree | 15 |\n\n",
    ),
    "columns are read one after the other": (
        "".join(placed(50, 700 - 13 * n, line) for n, line in enumerate(LEFT))
        + "".join(placed(300, 700 - 13 * n, line) for n, line in enumerate(RIGHT)),
        f"{' '.join(LEFT)} {' '.join(RIGHT[:3])}\n\nThe end\n\n",
    ),
    **{
        f"text turned by {turn}": (
            f"{turn} cm {PARAGRAPH}{placed(50, 540, 'It ended.')}",
            f"{WIDE} a long time.\n\nIt ended.\n\n",
        )
        for turn in TURNS
    },
    "lists": (
        "".join(
            placed(50, 700 - 40 * n, label) + placed(68, 700 - 40 * n, text)
            for n, (label, text) in enumerate(ITEMS)
        ),
        "- Water the old roses of the\n\n1. Cut them\n\na) Rest\n\n",
    ),
    "text at an infinite place is left out": (
        f"q {FAR} Q\n{placed(50, 700, 'Near')}",
        "Near\n\n",
    ),
}


@pytest.mark.parametrize("rule", PAGES)
def test_page_of_a_pdf_becomes_markdown(rule: str) -> None:
    page, markdown = PAGES[rule]
    document = read_document("a.pdf", pdf_of(page))
    assert document.write(document.texts(), "").decode() == markdown


def test_repeated_headers_and_footers_of_a_pdf_are_left_out() -> None:
    page = placed(50, 800, "The society") + "{}" + placed(50, 40, "Page {}")
    texts = [f"Text {n} is here." for n in (1, 2, 3)]
    pages = [page.format(placed(50, 700, text), n) for n, text in enumerate(texts, 1)]
    assert read_document("a.pdf", pdf_of(*pages)).texts() == ["The society", *texts]


@pytest.mark.parametrize("data", [pdf("12"), pdf("a")[:300]], ids=["a number", "a part of a file"])
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
