"""Small documents in archives: Word, PowerPoint, OpenDocument and e-books."""

import io
import os
import re
from collections.abc import Mapping
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from service.state.documents import Content

DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
OFFICE = "urn:oasis:names:tc:opendocument:xmlns"


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """An archive; `mimetype` is stored, as OpenDocument and e-books demand."""
    output = io.BytesIO()
    with ZipFile(output, "w", ZIP_DEFLATED) as file:
        for name, content in files.items():
            kind = ZIP_STORED if name == "mimetype" else ZIP_DEFLATED
            file.writestr(name, content, kind)
    return output.getvalue()


def content_of(data: bytes) -> Content:
    descriptor = os.memfd_create("document")
    os.write(descriptor, data)
    return Content(descriptor)


def bytes_of(content: Content | None) -> bytes | None:
    return None if content is None else os.pread(content.descriptor, len(content), 0)


def members(data: bytes) -> dict[str, bytes]:
    with ZipFile(io.BytesIO(data)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def upper(text: str) -> str:
    """An HTML text with its words in capital letters, and the same tags."""
    return re.sub(r"(<[^>]*>|&\w+;)|[^<&]+", lambda found: found[1] or found[0].upper(), text)


def run(text: str, properties: str = "") -> str:
    rpr = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r w:rsidR="00AB">{rpr}<w:t xml:space="preserve">{text}</w:t></w:r>'


def docx(body: str, **others: str) -> bytes:
    document = f"{DECLARATION}<w:document {W}><w:body>{body}</w:body></w:document>"
    parts = {f"word/{name}.xml": DECLARATION + content for name, content in others.items()}
    return archive(
        {
            "[Content_Types].xml": f"{DECLARATION}<Types/>",
            "word/document.xml": document,
            "word/media/image1.png": bytes(range(256)),
            **parts,
        }
    )


def pptx(*slides: str) -> bytes:
    files = {"ppt/presentation.xml": f"{DECLARATION}<p:presentation {P}/>"}
    for number, slide in enumerate(slides, 1):
        files[f"ppt/slides/slide{number}.xml"] = (
            f"{DECLARATION}<p:sld {P} {A}><p:txBody>{slide}</p:txBody></p:sld>"
        )
    return archive(files)


def xlsx(strings: str, **parts: str) -> bytes:
    names = {"inline": "worksheets/sheet1", "table": "tables/table1", "comments": "comments1"}
    table = f"{DECLARATION}<sst {S}>{strings}</sst>"
    return archive(
        {
            "xl/workbook.xml": f"{DECLARATION}<workbook {S}/>",
            "xl/sharedStrings.xml": table,
            **{f"xl/{names[name]}.xml": DECLARATION + part for name, part in parts.items()},
        }
    )


def pdf(*lines: str) -> bytes:
    """A PDF with one page of text."""
    text = "".join(f"({line}) Tj T* " for line in lines)
    return pdf_of(f"BT /F1 12 Tf 14 TL 50 750 Td {text}ET")


def pdf_of(*pages: str) -> bytes:
    """A PDF with pages of the given operators, a plain font F1 and a bold font F2."""
    numbers = range(6, 6 + 2 * len(pages), 2)
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{' '.join(f'{n} 0 R' for n in numbers)}]/Count {len(pages)}>>",
        *(
            f"<</Type/Font/Subtype/Type1/BaseFont/{name}/Encoding/WinAnsiEncoding>>"
            for name in ("Helvetica", "Helvetica-Bold")
        ),
        "<</Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray"
        "/Length 1>>stream\n0\nendstream",
    ]
    for number, page in zip(numbers, pages, strict=True):
        objects += (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {number + 1} 0 R"
            "/Resources<</Font<</F1 3 0 R/F2 4 0 R>>/XObject<</I 5 0 R>>>>>>",
            f"<</Length {len(page)}>>stream\n{page}\nendstream",
        )
    data, offsets = "%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj{each}endobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(data)}\n%%EOF"
    return f"{data}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()


def odt(body: str, styles: str = "", kind: str = "text") -> bytes:
    names = ("office", "text", "style", "table")
    namespaces = " ".join(f'xmlns:{n}="{OFFICE}:{n}:1.0"' for n in names)
    namespaces += ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
    namespaces += ' xmlns:officeooo="http://openoffice.org/2009/office"'
    content = (
        f"{DECLARATION}<office:document-content {namespaces}>"
        f"<office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )
    return archive(
        {"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content}
    )


def epub(**chapters: str) -> bytes:
    items = "".join(
        f'<item id="{name}" href="text/{name}.xhtml" media-type="application/xhtml+xml"/>'
        for name in chapters
    )
    order = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    package = (
        f'{DECLARATION}<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A book</dc:title>'
        "<dc:creator>Ann Author</dc:creator><dc:language>en</dc:language></metadata>"
        f"<manifest>{items}</manifest><spine>{order}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    )
    pages = {
        f"OPS/text/{name}.xhtml": f"{DECLARATION}<!DOCTYPE html>\n"
        f'<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><body>{body}</body></html>'
        for name, body in chapters.items()
    }
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OPS/book.opf": package,
            **pages,
        }
    )
