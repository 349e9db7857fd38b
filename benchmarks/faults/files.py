"""Files for attacks on the reading of documents: valid ones, mutations of them, and bombs."""

import bz2
import io
import lzma
import random
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile

SENTENCE = "The cat sat on the mat."
XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
OFFICE = "urn:oasis:names:tc:opendocument:xmlns"
OPEN_DOCUMENT = " ".join(f'xmlns:{name}="{OFFICE}:{name}:1.0"' for name in ("office", "text"))
ODT_TYPE = "application/vnd.oasis.opendocument.text"

PART_BYTES = 32_000_000
"""Size of the parts of a bomb, below the server's limit on one XML file."""

MARK_BYTES = 20_000_000
ZEROS = 45_000_000
"""Number of zeros that fill one block of bzip2."""

MARKS = ("-", "*", ">", "#", "|", "<", "[", "&", '"', "\\", " ", "\n")
PARTS_OF = {
    "docx": ("word/document.xml", "word/header1.xml", "word/footnotes.xml"),
    "pptx": ("ppt/slides/slide1.xml", "ppt/slides/slide2.xml", "ppt/slides/slide3.xml"),
    "odt": ("content.xml", "styles.xml"),
    "epub": ("c1.xhtml", "c2.xhtml", "c3.xhtml"),
}
"""Names of the XML files of a document that hold its texts."""

File = tuple[str, bytes]
"""The name of a document and its content."""


# Valid documents


def archive(members: Mapping[str, str | bytes]) -> bytes:
    """Returns a ZIP archive. `mimetype` is stored, as OpenDocument and e-books demand."""
    output = io.BytesIO()
    with ZipFile(output, "w", ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in members.items():
            file.writestr(name, content, ZIP_STORED if name in ("mimetype", "noise") else None)
    return output.getvalue()


def parts(kind: str, body: Callable[[str], str]) -> dict[str, str | bytes]:
    """Returns the members of an archive document; `body` gets a paragraph and returns a body."""
    if kind == "docx":
        paragraph = body(f"<w:p><w:r><w:t>{SENTENCE}</w:t></w:r></w:p>")
        texts = (f"<w:{tag} {W}>{paragraph}</w:{tag}>" for tag in ("document", "hdr", "footnotes"))
        found: dict[str, str | bytes] = {"[Content_Types].xml": f"{XML}<Types/>"}
    elif kind == "pptx":
        paragraph = body(f"<a:p><a:r><a:t>{SENTENCE}</a:t></a:r></a:p>")
        texts = (f"<p:sld {P} {A}>{paragraph}</p:sld>" for _ in range(3))
        found = {"ppt/presentation.xml": f"{XML}<p:presentation {P}/>"}
    elif kind == "odt":
        paragraph = body(f"<text:p>{SENTENCE}</text:p>")
        texts = (f"<office:d {OPEN_DOCUMENT}>{paragraph}</office:d>" for _ in range(2))
        found = {"mimetype": ODT_TYPE}
    else:
        paragraph = body(f"<p>{SENTENCE}</p>")
        page = f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{paragraph}</body></html>'
        texts = (page for _ in range(3))
        names = PARTS_OF["epub"]
        items = (f'<item id="{n}" href="{n}" media-type="application/xhtml+xml"/>' for n in names)
        found = {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="book.opf"/>'
            "</rootfiles></container>",
            "book.opf": f"{XML}<package><manifest>{''.join(items)}</manifest></package>",
        }
    return found | {name: XML + text for name, text in zip(PARTS_OF[kind], texts, strict=True)}


def wrapped(kind: str, text: str) -> str:
    """Returns a text document with `text` in the place of a text to translate."""
    raw = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return {
        "srt": f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n",
        "vtt": f"WEBVTT\n\n00:01.000 --> 00:02.000\n{text}\n",
        "po": f'msgid ""\nmsgstr "Language: en\\n"\n\nmsgid "{raw}"\nmsgstr ""\n',
        "json": f'{{"a": "{raw}"}}',
        "xliff": f'{XML}<xliff version="1.2"><file><body><trans-unit id="1"><source>{escaped}'
        "</source></trans-unit></body></file></xliff>",
    }.get(kind, text)


def valid(kind: str) -> bytes:
    """Returns a small document of a format, with three sentences or fewer."""
    if kind in PARTS_OF:
        return archive(parts(kind, lambda paragraph: paragraph))
    if kind == "html":
        return f"<html><body><p>{SENTENCE}</p><p>A <b>bold</b> word.</p></body></html>".encode()
    if kind == "md":
        return f"# {SENTENCE}\n\n- A [link](a.md).\n\n| a | b |\n|---|---|\n| *c* | d |\n".encode()
    return wrapped(kind, SENTENCE).encode()


FORMATS = ("txt", "md", "html", "srt", "vtt", "po", "xliff", "json", *PARTS_OF)


# Mutations


def mutations(kind: str, number: int, seed: int = 1) -> Iterator[File]:
    """Yields mutations of a valid document: of its bytes, and of the members of an archive."""
    chance = random.Random(f"{kind} {seed}")
    original = valid(kind)
    members: dict[str, bytes] = {}
    if kind in PARTS_OF:
        with ZipFile(io.BytesIO(original)) as file:
            members = {name: file.read(name) for name in file.namelist()}
    for _ in range(number):
        if members and chance.random() < 0.6:
            changed = dict(members)
            one, other = chance.choice([*members]), chance.choice([*members])
            if chance.random() < 0.2:
                changed[one], changed[other] = changed[other], changed[one]
            else:
                changed[one] = mutated(changed[one], chance)
            yield f"a.{kind}", archive(changed)
        else:
            yield f"a.{kind}", mutated(original, chance)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Returns data with changed bytes, a lost end, a repeated slice or two exchanged slices."""
    begin, end = sorted(chance.choices(range(len(data) + 1), k=2))
    way = chance.randrange(4)
    if way == 0:
        changed = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            changed[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(changed)
    if way == 1:
        return data[:begin]
    if way == 2:
        return data[:end] + data[begin:end] * chance.choice((1, 2, 100)) + data[end:]
    middle = (begin + end) // 2
    return data[:begin] + data[middle:end] + data[begin:middle] + data[end:]


# Bombs


def zeros() -> Iterator[File]:
    """Yields Word documents with a member of zeros whose size is false in the directory."""
    for blocks in (73, 140):  # 3.3 GB and 6.3 GB
        yield "bzip2.docx", false_size(ZIP_BZIP2, bzip2_zeros(blocks))
    yield "lzma.docx", false_size(ZIP_LZMA, lzma_zeros(1_200_000_000))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(packer.compress(bytes(1_000_000)) for _ in range(1000)) + packer.flush()
    yield "deflated.docx", false_size(ZIP_DEFLATED, packed)


def bzip2_zeros(blocks: int) -> bytes:
    """Returns a bzip2 stream of many equal blocks, each of ZEROS zeros.

    Blocks end inside bytes, so the stream is put together from bits. After the blocks it has the
    magic number of the end, and a sum of the sums of the blocks.
    """
    one = bz2.compress(bytes(ZEROS), 9)
    bits = "".join(f"{byte:08b}" for byte in one)
    end_magic = f"{0x177245385090:048b}"
    block = bits[32 : bits.rindex(end_magic)]
    block_sum, total = int(block[48:80], 2), 0
    for _ in range(blocks):
        total = ((total << 1 | total >> 31) & 0xFFFFFFFF) ^ block_sum
    whole = bits[:32] + block * blocks + end_magic + f"{total:032b}"
    whole += "0" * (-len(whole) % 8)
    return int(whole, 2).to_bytes(len(whole) // 8, "big")


def lzma_zeros(number: int) -> bytes:
    """Returns the data of an LZMA member of a ZIP archive, with its head of nine bytes."""
    options = {"id": lzma.FILTER_LZMA1, "preset": 0, "nice_len": 273}
    packer = lzma.LZMACompressor(lzma.FORMAT_RAW, filters=[options])
    step = bytes(10_000_000)
    head = struct.pack("<BBHBL", 9, 4, 5, 93, 1 << 18)
    return (
        head
        + b"".join(packer.compress(step) for _ in range(number // len(step)))
        + (packer.flush())
    )


def false_size(method: int, packed: bytes) -> bytes:
    """Returns a Word document whose directory says that its only member has 1,000 bytes."""
    name = b"word/document.xml"
    common = struct.pack("<HHHHHLLLHH", 20, 0, method, 0, 33, 0, len(packed), 1000, len(name), 0)
    local = b"PK\3\4" + common + name + packed
    directory = b"PK\1\2" + struct.pack("<H", 20) + common + struct.pack("<HHHLL", 0, 0, 0, 0, 0)
    directory += name
    sizes = struct.pack("<HHHHLLH", 0, 0, 1, 1, len(directory), len(local), 0)
    return local + directory + b"PK\5\6" + sizes


def numbered_attributes() -> str:
    names = " ".join(f'b{n:x}=""' for n in range(PART_BYTES // 10))
    return f"<a {names}/>"


BODIES: dict[str, Callable[[], str]] = {
    "elements": lambda: "<a/>" * (PART_BYTES // 4),
    "attributes": numbered_attributes,
    "elements with an attribute": lambda: '<a b=""/>' * (PART_BYTES // 9),
    "comments": lambda: "<!---->" * (PART_BYTES // 7),
    "instructions": lambda: "<?a?>" * (PART_BYTES // 5),
    "depth": lambda: "<a>" * (PART_BYTES // 7) + "</a>" * (PART_BYTES // 7),
    "depth 200": lambda: ("<a>" * 200 + "</a>" * 200) * (PART_BYTES // 1400),
    "entities": lambda: "&amp;" * (PART_BYTES // 5),
}
"""Maps the content of a bomb to a function that returns it."""


def bombs(kind: str) -> Iterator[File]:
    """Yields documents whose parts have millions of elements, attributes or comments."""
    for name, make in BODIES.items():
        content = make()
        yield f"{name}.{kind}", bomb(kind, lambda text, c=content: f"{text}{c}")  # type: ignore[misc]
    inside = {"docx": "w:p", "pptx": "a:p", "odt": "text:p", "epub": "p"}[kind]
    content = f"<{inside}>{'<a/>' * (PART_BYTES // 4)}</{inside}>"
    yield f"one paragraph.{kind}", bomb(kind, lambda text: f"{text}{content}")
    content = f"<{inside}/>" * (PART_BYTES // (len(inside) + 3))
    yield f"paragraphs.{kind}", bomb(kind, lambda text: f"{text}{content}")
    wide = "<a/>" * (PART_BYTES // 8)
    yield f"UTF-16.{kind}", bomb(kind, lambda text: f"{text}{wide}", "utf-16")


def bomb(kind: str, body: Callable[[str], str], encoding: str = "utf-8") -> bytes:
    """Returns an archive document that passes the server's limit on the ratio of compression."""
    members = parts(kind, body)
    for name in PARTS_OF[kind]:
        text = members[name]
        assert isinstance(text, str)
        members[name] = text.replace("UTF-8", encoding.upper(), 1).encode(encoding)
    size = sum(len(content) for content in members.values())
    return archive({**members, "noise": random.Random(1).randbytes(size // 195)})


def marks(kind: str) -> Iterator[File]:
    """Yields documents of a text format that repeat one mark up to MARK_BYTES."""
    for mark in MARKS:
        if kind == "csv":
            text = f"{mark},{mark};{mark}\t{mark}\n" * (MARK_BYTES // 8)
            yield f"{mark!r}.txt", text.encode()
        else:
            yield f"{mark!r}.{kind}", wrapped(kind, mark * MARK_BYTES)[: MARK_BYTES + 500].encode()
