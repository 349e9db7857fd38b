"""Writes documents by other people's libraries, and reads their runs by the same libraries.

`make clients` installs the libraries. Their Python runs `office_files.py write FOLDER`, or
`office_files.py read FOLDER`, which prints the runs of each paragraph of each file as JSON.
"""

import json
import sys
from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import docx
import odf.opendocument
import openpyxl
import pptx
import xlsxwriter
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from docx.oxml.text.run import CT_R
from docx.shared import Pt, RGBColor
from docx.text.run import Run
from ebooklib import ITEM_DOCUMENT, epub
from lxml import etree
from odf import dc, draw, office, presentation, style, table, text
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.table import Table
from PIL import Image
from pptx.chart.data import CategoryChartData
from pptx.dml.color import RGBColor as SlideColor
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import XmlPart
from pptx.oxml.ns import qn
from pptx.text.text import _Run
from pptx.util import Cm

PROCESSING = "application/vnd.openxmlformats-officedocument.wordprocessingml"


def picture() -> BytesIO:
    data = BytesIO()
    Image.new("RGB", (40, 20), (200, 30, 30)).save(data, "PNG")
    data.seek(0)
    return data


def w(xml: str) -> Any:
    """An element of Word; the tag gets the declarations of the namespaces."""
    name, _, rest = xml.partition(">")
    slash = "/" if name.endswith("/") else ""
    declared = nsdecls("w", "r", "wp", "a", "m")
    return parse_xml(f"{name.removesuffix('/')} {declared}{slash}>{rest}")


def run(words: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{words}</w:t></w:r>'


def field(instruction: str, result: str) -> list[Any]:
    kinds = ("begin", "separate", "end")
    begin, separate, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in kinds)
    code = f'<w:r><w:instrText xml:space="preserve"> {instruction} </w:instrText></w:r>'
    return [w(each) for each in (begin, code, separate, run(result), end)]


def write_docx(path: Path) -> None:
    document = docx.Document()
    document.core_properties.title = "A report of the garden"
    document.add_heading("The report of the garden", 1)
    paragraph = document.add_paragraph("The garden has ")
    paragraph.add_run("old").bold = True
    paragraph.add_run(" trees, and the ")
    coloured = paragraph.add_run("red house")
    coloured.font.color.rgb, coloured.font.size = RGBColor(200, 0, 0), Pt(14)
    paragraph.add_run(" stands beside it.")
    paragraph.add_run(" Nobody lives there.").italic = True
    _links_and_fields(document)
    _notes(document)
    commented = document.add_paragraph("The path is narrow here.")
    document.add_comment(commented.runs, "Please measure the path.", "Ann", "A")
    document.add_paragraph("Water the flowers", style="List Bullet")
    document.add_paragraph("Close the gate", style="List Number")
    grid = document.add_table(2, 2, style="Table Grid")
    for cell, words in zip(grid._cells, ("Plant", "Height", "Rose", "Very tall"), strict=True):
        cell.text = words
    document.add_picture(picture())
    document.inline_shapes[0]._inline.docPr.set("descr", "A picture of the garden")
    section = document.sections[0]
    section.header.paragraphs[0].text = "The society of the garden"
    section.footer.paragraphs[0].add_run("Confidential").bold = True
    document.save(path)


def _links_and_fields(document: Any) -> None:
    paragraph = document.add_paragraph("Visit ")
    link = document.part.relate_to("https://example.org", RELATIONSHIP_TYPE.HYPERLINK, True)
    words = run("the big", "<w:b/>") + run(" garden page")
    paragraph._p.append(w(f'<w:hyperlink r:id="{link}">{words}</w:hyperlink>'))
    paragraph.add_run(" today, and see page ")
    paragraph._p.extend(field("PAGEREF _Ref1", "12"))
    paragraph.add_run(" of the guide.")
    marked = document.add_paragraph("The fence is old and ")
    marked._p.append(w('<w:bookmarkStart w:id="900" w:name="_Ref1"/>'))
    marked.add_run("high")
    marked._p.append(w('<w:bookmarkEnd w:id="900"/>'))
    marked.add_run(" enough.")
    tracked = document.add_paragraph("The fence is ")
    author = 'w:author="Ann" w:date="2026-01-02T03:04:05Z"'
    tracked._p.append(w(f'<w:ins w:id="901" {author}>{run("newly")}</w:ins>'))
    deleted = run("badly").replace("w:t", "w:delText")
    tracked._p.append(w(f'<w:del w:id="902" {author}>{deleted}</w:del>'))
    tracked.add_run(" painted.")
    control = document.add_paragraph("The keeper is ")
    control._p.append(
        w(f"<w:sdt><w:sdtPr/><w:sdtContent>{run('the old neighbour')}</w:sdtContent></w:sdt>")
    )
    control.add_run(" of the garden.")
    formula = document.add_paragraph("The area is ")
    formula._p.append(w("<m:oMath><m:r><m:t>A = 12</m:t></m:r></m:oMath>"))
    formula.add_run(" in all.")
    box = document.add_paragraph().add_run()
    inside = (
        f"<w:txbxContent><w:p>{run('A box about ')}{run('tools', '<w:b/>')}</w:p></w:txbxContent>"
    )
    box._r.append(
        w(
            '<w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml" type="#_x0000_t202" '
            f'style="width:200pt;height:30pt"><v:textbox>{inside}</v:textbox></v:shape></w:pict>'
        )
    )


def _notes(document: Any) -> None:
    for kind, words in (("footnote", "The trees were planted"), ("endnote", "See the archive")):
        separator = f"<w:p><w:r><w:separator/></w:r></w:p></w:{kind}>"
        reference = f"<w:r><w:{kind}Ref/></w:r>{run(' ' + words)}{run(' long ago', '<w:i/>')}"
        xml = (
            f"<w:{kind}s {nsdecls('w')}>"
            f'<w:{kind} w:type="separator" w:id="-1">{separator}'
            f'<w:{kind} w:id="2"><w:p>{reference}</w:p></w:{kind}></w:{kind}s>'
        )
        name = PackURI(f"/word/{kind}s.xml")
        part = Part(name, f"{PROCESSING}.{kind}s+xml", xml.encode(), document.part.package)
        document.part.relate_to(part, f"{RELATIONSHIP_TYPE.STYLES.rsplit('/', 1)[0]}/{kind}s")
        paragraph = document.add_paragraph("The trees")
        raised = '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'
        paragraph._p.append(w(f'<w:r>{raised}<w:{kind}Reference w:id="2"/></w:r>'))
        paragraph.add_run(" are still young.")


def write_pptx(path: Path) -> None:
    deck = pptx.Presentation()
    deck.core_properties.title = "A talk about the garden"
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "The garden in spring"
    body = slide.placeholders[1].text_frame
    body.text = "Trees and flowers"
    paragraph = body.add_paragraph()
    for words, is_bold in (("The house is ", False), ("very", True), (" red", False)):
        piece = paragraph.add_run()
        piece.text, piece.font.bold = words, is_bold
    piece.font.color.rgb, piece.font.size = SlideColor(200, 0, 0), Pt(30)
    link = body.add_paragraph().add_run()
    link.text, link.hyperlink.address = "Visit the page", "https://example.org"
    slide.notes_slide.notes_text_frame.text = "Speak slowly about the trees."
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Numbers of the garden"
    grid = second.shapes.add_table(2, 2, Cm(1), Cm(4), Cm(10), Cm(3)).table
    for cell, words in zip(grid.iter_cells(), ("Plant", "Height", "Rose", "Tall"), strict=True):
        cell.text = words
    data = CategoryChartData()
    data.categories = ["Roses", "Tulips"]
    data.add_series("Planted flowers", (3, 5))
    place = (XL_CHART_TYPE.COLUMN_CLUSTERED, Cm(12), Cm(4), Cm(11), Cm(8))
    graph = second.shapes.add_chart(*place, data).chart
    graph.has_title, graph.chart_title.text_frame.text = True, "Flowers of the year"
    box = second.shapes.add_textbox(Cm(1), Cm(10), Cm(8), Cm(2))
    box.text_frame.text = "A box about tools"
    image = second.shapes.add_picture(picture(), Cm(1), Cm(14))
    image._element.nvPicPr.cNvPr.set("descr", "A picture of the garden")
    deck.save(path)


ROWS = (
    ("Plant", "State of it", "Price"),
    ("Red rose", "Open", 3),
    ("White tulip", "Closed", 5),
    ("Old tree", "Open", 8),
)


def write_xlsx(path: Path) -> None:
    book = openpyxl.Workbook()
    book.properties.title = "The prices of the garden"
    sheet = book.active
    sheet.title = "Prices"
    for row in ROWS:
        sheet.append(row)
    sheet["E1"] = "The garden in numbers"
    sheet["E1"].font = openpyxl.styles.Font(bold=True, color="FFCC0000", size=14)
    sheet["E2"] = CellRichText("The ", TextBlock(InlineFont(b=True), "red"), " house")
    sheet["E3"] = "First line\nSecond line"
    sheet["E3"].alignment = openpyxl.styles.Alignment(wrap_text=True)
    sheet["E4"], sheet["E4"].hyperlink = "Visit the page", "https://example.org"
    sheet["F1"], sheet["F2"] = "=SUM(Goods[Price])", '=COUNTIF(B2:B4,"Open")'
    sheet["F3"] = '=IF(B2="Open","Yes","No")'
    sheet["F4"] = "=SUM(costs)"
    sheet["A2"].comment = Comment("Water it every day", "Ann")
    sheet.add_table(Table(displayName="Goods", ref="A1:C4"))
    book.defined_names["costs"] = openpyxl.workbook.defined_name.DefinedName(
        "costs", attr_text="Prices!$C$2:$C$4"
    )
    choice = DataValidation("list", formula1='"Open,Closed"')
    choice.add("B2:B4")
    sheet.add_data_validation(choice)
    graph = BarChart()
    graph.title = "Prices of the plants"
    graph.x_axis.title = "Kinds of plants"
    graph.add_data(Reference(sheet, 3, 1, 3, 4), titles_from_data=True)
    graph.set_categories(Reference(sheet, 1, 2, 1, 4))
    sheet.add_chart(graph, "A8")
    other = book.create_sheet("Notes")
    other["A1"] = "The keeper of the garden"
    other["A2"] = "=Prices!A2"
    book.save(path)


def write_table(path: Path) -> None:
    """A workbook by XlsxWriter: headers with spaces and line ends, a row of totals, a text box."""
    book = xlsxwriter.Workbook(path)
    sheet = book.add_worksheet("Stock")
    wrapped = book.add_format({"text_wrap": True})
    columns = [
        {"header": "Kind of\nplant", "header_format": wrapped, "total_string": "Total"},
        {"header": " State "},
        {"header": "Price & cost", "total_function": "sum"},
        {"header": "Half the price", "formula": "=Stock[[#This Row],[Price & cost]]/2"},
    ]
    options = {"columns": columns, "data": [row[:3] for row in ROWS[1:]], "total_row": True}
    sheet.add_table("A1:D5", {**options, "name": "Stock"})
    bold = book.add_format({"bold": True})
    sheet.write_rich_string("F1", "The ", bold, "red", " house")
    sheet.write_comment("F1", "Look at the colour")
    sheet.insert_textbox("F4", "A box about tools", {"description": "A picture of tools"})
    sheet.set_header("&CThe society of the garden")
    sheet.autofilter("H1:H4")
    for row, words in enumerate(("The filter", "Seen", "Hidden", "Seen")):
        sheet.write(row, 7, words)
    sheet.filter_column("H", "x == Seen")
    sheet.set_row(2, options={"hidden": True})
    book.close()


def write_odt(path: Path) -> None:
    document = odf.opendocument.OpenDocumentText()
    document.meta.addElement(dc.Title(text="A report of the garden"))
    bold = style.Style(name="Bold", family="text")
    bold.addElement(style.TextProperties(fontweight="bold", color="#cc0000"))
    document.automaticstyles.addElement(bold)
    layout = style.PageLayout(name="Page")
    document.automaticstyles.addElement(layout)
    master = style.MasterPage(name="Standard", pagelayoutname=layout)
    document.masterstyles.addElement(master)
    header = filled(style.Header(), text.P(text="The society of the garden"))
    master.addElement(header)
    words = filled(
        text.P(text="The garden has "),
        text.Span(stylename=bold, text="old"),
        " trees, and ",
        text.A(href="https://example.org", text="the garden page"),
        " shows them on page ",
        text.PageNumber(selectpage="current", text="1"),
        ".",
    )
    note = filled(
        text.Note(noteclass="footnote"),
        text.NoteCitation(text="1"),
        filled(text.NoteBody(), text.P(text="They were planted long ago")),
    )
    remark = filled(office.Annotation(), text.P(text="Please measure them"))
    items = [
        filled(text.ListItem(), text.P(text=each)) for each in ("Water the trees", "Close the gate")
    ]
    frame = draw.Frame(width="5cm", height="2cm", anchortype="paragraph")
    box = filled(frame, filled(draw.TextBox(), text.P(text="A box about tools")))
    filled(
        document.text,
        text.H(outlinelevel=1, text="The report of the garden"),
        words,
        filled(text.P(text="The trees"), note, " are still young.", remark),
        filled(text.List(), *items),
        _grid("Plants"),
        filled(text.P(text="See the box."), box),
    )
    document.save(path)


def filled(element: Any, *content: Any) -> Any:
    for each in content:
        (element.addText if isinstance(each, str) else element.addElement)(each)
    return element


def _grid(name: str) -> Any:
    grid = table.Table(name=name)
    for row in ROWS:
        line = table.TableRow()
        for value in row:
            is_text = isinstance(value, str)
            options = {"valuetype": "string"} if is_text else {"valuetype": "float", "value": value}
            line.addElement(filled(table.TableCell(**options), text.P(text=str(value))))
        grid.addElement(line)
    return grid


def write_ods(path: Path) -> None:
    document = odf.opendocument.OpenDocumentSpreadsheet()
    grid = _grid("Prices")
    line = table.TableRow()
    for formula in ('of:=COUNTIF([.B1:.B4];"Open")', "of:=SUM([.C2:.C4])"):
        line.addElement(table.TableCell(valuetype="float", formula=formula))
    remark = filled(office.Annotation(), text.P(text="Water it every day"))
    noted = filled(table.TableCell(valuetype="string"), remark, text.P(text="A word on water"))
    filled(document.spreadsheet, filled(grid, filled(line, noted)))
    document.save(path)


def write_odp(path: Path) -> None:
    document = odf.opendocument.OpenDocumentPresentation()
    layout = style.PageLayout(name="Page")
    layout.addElement(style.PageLayoutProperties(pagewidth="28cm", pageheight="21cm"))
    bold = style.Style(name="Bold", family="text")
    bold.addElement(style.TextProperties(fontweight="bold"))
    filled(document.automaticstyles, layout, bold)
    master = style.MasterPage(name="Master", pagelayoutname=layout)
    document.masterstyles.addElement(master)
    frames = []
    for words, y in (("The garden in ", "2cm"), ("Speak slowly in ", "12cm")):
        paragraph = filled(text.P(text=words), text.Span(stylename=bold, text="spring"))
        frame = draw.Frame(width="20cm", height="5cm", x="2cm", y=y)
        frames.append(filled(frame, filled(draw.TextBox(), paragraph)))
    page = draw.Page(masterpagename=master)
    filled(page, frames[0], filled(presentation.Notes(), frames[1]))
    document.presentation.addElement(page)
    document.save(path)


def write_epub(path: Path) -> None:
    book = epub.EpubBook()
    book.set_identifier("garden")
    book.set_title("The book of the garden")
    book.set_language("en")
    chapter = epub.EpubHtml(title="The first chapter", file_name="one.xhtml", lang="en")
    chapter.content = (
        "<h1>The first chapter</h1><p>The <b>red</b> house has <a href='two.xhtml'>old trees</a>."
        "</p><table><tr><td>Plant</td><td>Height</td></tr></table>"
    )
    book.add_item(chapter)
    book.toc = [epub.Link("one.xhtml", "The first chapter", "one")]
    book.add_item(epub.EpubNcx())
    book.add_item(epub.EpubNav())
    book.spine = ["nav", chapter]
    epub.write_epub(path, book)


Runs = list[tuple[str, str]]
"""The texts of a paragraph, each with its formatting."""


def read_docx(path: Path) -> Iterator[Runs]:
    for part in docx.Document(path).part.package.iter_parts():
        if "wordprocessingml" in part.content_type:
            root = parse_xml(part.blob)
            for paragraph in root.iter(root.tag.replace(etree.QName(root).localname, "p")):
                runs = [each for each in paragraph.iter("{*}r") if isinstance(each, CT_R)]
                yield [
                    (Run(each, None).text or local_names(each), _word_format(each))
                    for each in runs
                    if next(each.iterancestors(paragraph.tag)) is paragraph
                ]


def local_names(element: Any) -> str:
    return " ".join(etree.QName(each).localname for each in element)


def _word_format(run: Any) -> str:
    font = Run(run, None).font
    around = []
    for each in run.iterancestors():
        if etree.QName(each).localname == "p":
            break
        around.append((etree.QName(each).localname, [*each.attrib.values()]))
    look = (font.bold, font.italic, font.underline, font.size, font.name, font.superscript)
    return repr((look, font.color.rgb, around))


def read_pptx(path: Path) -> Iterator[Runs]:
    for part in pptx.Presentation(path).part.package.iter_parts():
        for paragraph in part._element.iter(qn("a:p")) if isinstance(part, XmlPart) else ():
            found = []
            for each in paragraph.iterchildren(qn("a:r")):
                piece = _Run(each, None)
                font, links = piece.font, each.xpath("a:rPr/a:hlinkClick/@r:id")
                colour = font.color.rgb if font.color.type else None
                look = (font.bold, font.italic, font.size, font.name, colour, links)
                found.append((piece.text, repr(look)))
            yield found


def read_xlsx(path: Path) -> Iterator[Runs]:
    book = openpyxl.load_workbook(path, rich_text=True)
    yield [(name, each.attr_text) for name, each in book.defined_names.items()]
    for sheet in book:
        yield [(sheet.title, repr([sheet.auto_filter.ref, len(sheet._charts)]))]
        yield [(sheet.oddHeader.center.text or "", "header")]
        yield [(each.sqref, each.formula1) for each in sheet.data_validations.dataValidation]
        for each in sheet.tables.values():
            header = [cell.value for cell in sheet[each.ref][0]]
            assert header == [column.name for column in each.tableColumns], header
            yield [(each.name, each.ref)]
        for cell in chain.from_iterable(sheet.iter_rows()):
            look = (cell.font.b, cell.font.sz, cell.font.color and cell.font.color.rgb)
            link = cell.hyperlink and cell.hyperlink.target
            note = cell.comment.text if cell.comment else ""
            parts = cell.value if isinstance(cell.value, CellRichText) else [cell.value or ""]
            yield [
                (str(getattr(part, "text", part)), repr((getattr(part, "font", look), link)))
                for part in parts
            ]
            yield [(note, "comment")]


def read_odf(path: Path) -> Iterator[Runs]:
    document = odf.opendocument.load(path)
    for kind in (text.P, text.H):
        for paragraph in document.topnode.getElementsByType(kind):
            yield [*_odf_runs(paragraph, "")]


def _odf_runs(element: Any, around: str) -> Iterator[tuple[str, str]]:
    for child in element.childNodes:
        if child.nodeType == child.TEXT_NODE:
            yield child.data, around
        else:
            yield from _odf_runs(
                child, f"{around} {child.qname[1]} {sorted(child.attributes.items())}"
            )


def read_epub(path: Path) -> Iterator[Runs]:
    book = epub.read_epub(path, {"ignore_ncx": False})
    yield [(book.title, "title"), *((each.title, each.href) for each in book.toc)]
    for item in book.get_items_of_type(ITEM_DOCUMENT):
        root = etree.fromstring(item.content)
        yield [
            (each, repr((each.getparent().tag, each.is_tail, dict(each.getparent().attrib))))
            for each in root.xpath("//*[local-name() = 'body']//text()")
        ]


WRITERS = {
    "word.docx": write_docx,
    "slides.pptx": write_pptx,
    "prices.xlsx": write_xlsx,
    "stock.xlsx": write_table,
    "text.odt": write_odt,
    "goods.ods": write_ods,
    "talk.odp": write_odp,
    "book.epub": write_epub,
}
READERS = {
    **{".docx": read_docx, ".pptx": read_pptx, ".xlsx": read_xlsx, ".epub": read_epub},
    **dict.fromkeys((".odt", ".ods", ".odp"), read_odf),
}

if __name__ == "__main__":
    folder = Path(sys.argv[2])
    if sys.argv[1] == "write":
        for name, write in WRITERS.items():
            write(folder / name)
    else:
        files = sorted(folder.iterdir())
        json.dump(
            {file.name: [*READERS[file.suffix](file)] for file in files}, sys.stdout, default=str
        )
