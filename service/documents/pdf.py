"""Reads the texts of PDF files. The translation is Markdown, because a PDF has no paragraphs.

A PDF has pieces of text with their places, mostly in the order of reading. Pieces without a wide
gap between them are a fragment of a line. Fragments become the lines of cells, and cells become
tables, or headings, items of lists and paragraphs.
"""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise
from math import hypot, inf, isfinite
from typing import Any

from pypdf import PageObject, PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import DictionaryObject

from service.documents.base import DocumentError, Passage, PassageDocument
from service.documents.markdown import Markdown
from service.text.letters import has_letters

SHORT_LINE = 0.8  # length of the last line of a paragraph, as a share of that of long lines
LETTER, CAPITAL = 0.5, 0.2  # usual width of a letter as a share of its size; more for a capital
LARGE = 1.15  # smallest size of a heading, as a multiple of that of most texts
MAX_HEADING_CHARS = 200

_ERRORS = (
    PyPdfError,
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
)
_LABEL = re.compile(r"(?:([•▪◦‣–\uf0b7*-])|(?:\d{1,3}|[a-z])[.)])(?:\s+|$)")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_A-Z])")
_LEADER = re.compile(r"(?:\. ?){4}")  # in a table of contents


@dataclass(slots=True)
class Fragment:
    x: float
    y: float
    size: float
    is_bold: bool
    text: str

    @property
    def style(self) -> tuple[int, bool]:
        return round(self.size), self.is_bold

    def is_right_of(self, other: "Fragment") -> bool:
        """Reports whether it is in the next cell, or at the top of the next column."""
        return self.x > other.x + 1 and self.y > other.y - 0.4 * self.size

    def is_below(self, other: "Fragment", limit: float) -> bool:
        """Reports whether it is in the same style, and lower, but not by more than a limit."""
        return self.style == other.style and 0 < other.y - self.y < limit


# The cells of a row, each with its lines. A text outside a table is a row of one cell.
Row = list[list[Fragment]]
Block = list[Fragment] | tuple[Row, ...]  # a paragraph or a table


def read_pdf(data: bytes) -> PassageDocument:
    skipped = Counter[str]()
    pages: list[list[Fragment]] = []
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentError("the PDF is encrypted; remove its password")
        for page in reader.pages:
            pages.append(_fragments(_pieces(page)))
            objects: Any = page["/Resources"] if "/Resources" in page else {}
            objects = objects.get("/XObject") or DictionaryObject()
            for each in objects.get_object().values():
                skipped["images"] += each.get_object().get("/Subtype") == "/Image"
    except _ERRORS as error:
        number = len(pages) + 1
        raise DocumentError(f"page {number} of the PDF cannot be read: {error}") from None
    parts = [*_parts(_without_repeated(pages))]
    if not any(isinstance(part, Passage) for part in parts):
        raise DocumentError("the PDF has no text; read scanned pages by a program for OCR first")
    return PassageDocument(parts, skipped=+skipped)


def _pieces(page: PageObject) -> list[Fragment]:
    pieces: list[Fragment] = []

    # The matrix `around` places the own coordinates of a text on the page.
    def visit(text: str, around: Any, own: Any, font: Any, size: float) -> None:
        x, y = (around[n] * own[4] + around[n + 2] * own[5] + around[n + 4] for n in (0, 1))
        across, up = (own[0] * around[n] + own[1] * around[n + 2] for n in (0, 1))
        length = hypot(across, up) or 1.0  # of the direction of the text, which may be turned
        x, y = (x * across + y * up) / length, (y * across - x * up) / length
        height = size * hypot(*own[2:4]) * hypot(*around[2:4])
        is_bold = "bold" in str((font or {}).get("/BaseFont")).lower()
        if text.strip() and isfinite(x + y + height):
            pieces.append(Fragment(x, y, height, is_bold, text))

    page.extract_text(visitor_text=visit)
    return pieces


def _fragments(pieces: Sequence[Fragment]) -> list[Fragment]:
    """Joins pieces on one line, unless a wide gap or the start of a column is between them."""
    gaps = [inf][: len(pieces)]  # before each piece, or infinite if it begins a fragment
    starts = set[int]()  # of columns, after a wide gap
    for before, piece in pairwise(pieces):
        words = before.text.strip()
        width = before.size * (LETTER * len(words) + CAPITAL * sum(map(str.isupper, words)))
        gap = piece.x - before.x - width
        is_beside = piece.x > before.x and abs(piece.y - before.y) < 0.4 * piece.size
        is_label = gaps[-1] == inf and _LABEL.fullmatch(words)
        gaps.append(gap if is_beside and not is_label else inf)
        if inf > gaps[-1] > piece.size + 0.2 * width:
            starts.add(round(piece.x))
    found: list[Fragment] = []
    for piece, gap in zip(pieces, gaps, strict=True):
        is_gap = gap > piece.size / 2
        if gap == inf or (is_gap and starts & {int(piece.x), int(piece.x) + 1}):
            found.append(piece)
        else:
            last = found[-1]
            last.size = max((len(each.text), each.size) for each in (last, piece))[1]
            last.is_bold &= piece.is_bold
            last.text += " " * is_gap + piece.text
    return [replace(each, text=each.text.strip()) for each in found]


def _without_repeated(pages: Sequence[Sequence[Fragment]]) -> list[list[Fragment]]:
    """Leaves out headers and footers after their first page, and those with the page's number."""
    edges: list[tuple[set[str], list[Fragment]]] = []
    for number, page in enumerate(pages):
        ordered = sorted(page, key=lambda each: round(each.y))
        lines = [[*line] for _, line in groupby(ordered, lambda each: round(each.y))]
        for line in (lines[0], lines[-1]) if len(lines) > 2 else ():
            words = " ".join((str(round(line[0].y)), *(each.text for each in line)))
            keys = {words}
            for found in re.finditer(r"\b\d{1,6}", words):
                before, after = words[: found.start()], words[found.end() :]
                keys.add(f"{before}\0{int(found[0]) - number}\0{after}")
            edges.append((keys, line))
    counts = Counter(chain.from_iterable(keys for keys, _ in edges))
    seen, dropped = set[str](), set[int]()
    for keys, line in edges:
        repeated = {key for key in keys if counts[key] > 1}
        if any("\0" in key for key in repeated) or repeated & seen:
            dropped.update(map(id, line))
        seen |= repeated
    return [[each for each in page if id(each) not in dropped] for page in pages]


def _rows(page: Sequence[Fragment]) -> list[Row]:
    rows: list[Row] = [[]]
    for number, fragment in enumerate(page):
        row, last = rows[-1], page[number - 1]
        is_in_table = len(row) > 1 or (
            len(rows) > 2 and len(rows[-2]) > 1 and abs(row[0][0].x - rows[-2][0][0].x) < 1
        )
        is_first = any(each.is_right_of(fragment) for each in page[number + 1 : number + 2])
        is_same_cell = fragment.is_below(last, 2.6 * fragment.size) and abs(fragment.x - last.x) < 1
        if row and fragment.is_right_of(last):
            row.append([fragment])
        elif row and is_same_cell and (is_in_table or not is_first):
            row[-1].append(fragment)
        else:
            rows.append([[fragment]])
    return rows[1:]


def _blocks(rows: Iterable[Row]) -> Iterator[Block]:
    """Yields paragraphs, and tables: at least two rows of several cells."""

    def is_in_table(row: Row) -> bool:
        is_item = len(row) == 2 and _LABEL.fullmatch(row[0][0].text)
        return len(row) > 1 and not is_item

    cells: Row = []
    for has_cells, found in groupby(rows, is_in_table):
        group = tuple(found)
        if has_cells and len(group) > 1:
            yield from _paragraphs(cells)
            yield group
            cells = []
        else:
            cells += chain.from_iterable(group)
    yield from _paragraphs(cells)


def _paragraphs(cells: Row) -> Iterator[list[Fragment]]:
    usual, width = _long_line([*chain(*cells)]), 0
    paragraph: list[Fragment] = []
    for cell in cells:
        own = _long_line(cell) if len(cell) > 3 else usual
        step = min((line.y - following.y for line, following in pairwise(cell)), default=0)
        for number, fragment in enumerate(cell):
            limit = 1.3 * step if number else max(1.3 * step, 1.7 * fragment.size)
            if paragraph and not _continues(paragraph[-1], fragment, width, limit):
                yield paragraph
                paragraph = []
            paragraph.append(fragment)
            width = own
    yield from [paragraph] if paragraph else []


def _long_line(lines: Sequence[Fragment]) -> int:
    """Returns the length of long lines."""
    return sorted([0, *(len(each.text) for each in lines)])[-1 - len(lines) // 10]


def _continues(last: Fragment, fragment: Fragment, width: int, limit: float) -> bool:
    """Reports whether a paragraph goes on. `width` is the length of the long lines beside it."""
    if _LABEL.fullmatch(last.text):
        return fragment.is_right_of(last)
    if _LABEL.match(fragment.text) or _LEADER.search(last.text):
        return False
    if fragment.is_below(last, limit):
        return len(last.text) >= SHORT_LINE * width
    is_at_top = fragment.y > last.y and fragment.style == last.style  # of a column or a page
    return is_at_top and last.text[-1] not in ".!?:" and fragment.text[0].islower()


def _text_of(lines: Sequence[Fragment]) -> str:
    return " ".join(_HYPHEN.sub("", "\n".join(each.text for each in lines)).split())


def _parts(pages: Sequence[Sequence[Fragment]]) -> Iterator[str | Passage]:
    styles = Counter(each.style for each in chain(*pages) for _ in each.text)
    usual = max(styles, key=styles.__getitem__, default=(0, True))
    marked = [s for s in styles if s[0] > LARGE * usual[0] or (s > usual and s[1] > usual[1])]
    levels = {each: "#" * min(n, 6) for n, each in enumerate(sorted(marked, reverse=True), 1)}
    for block in _blocks(chain.from_iterable(map(_rows, pages))):
        if isinstance(block, tuple):
            yield from _table(block)
        else:
            yield from _text(_text_of(block), levels.get(block[-1].style, ""))


def _text(text: str, heading: str) -> Iterator[str | Passage]:
    markdown, label = Markdown(""), _LABEL.match(text)
    if heading and len(text) <= MAX_HEADING_CHARS and has_letters(text) and text[-1] not in ".,:;":
        yield f"{heading} "
        yield _passage(text, markdown.escape)
    elif label:
        yield "- " if label[1] else label[0]
        yield _passage(text[label.end() :], markdown.escape)
    else:
        yield _passage(text, lambda words: markdown.line(markdown.escape(words), ""))
    yield "\n\n"


def _table(rows: Sequence[Row]) -> Iterator[str | Passage]:
    columns = [cell[0].x for cell in max(reversed(rows), key=len)]
    for number, row in enumerate(rows):
        cells: Row = [[] for _ in columns]
        for place, cell in enumerate(row):
            if len(row) < len(columns):  # some cells are empty
                place = min(range(len(columns)), key=lambda n: abs(columns[n] - cell[0].x))
            cells[place] += cell
        for cell in cells:
            yield "| "
            yield _passage(_text_of(cell), Markdown("|").escape)
            yield " "
        yield "|\n" if number else f"|\n{'|---' * len(columns)}|\n"
    yield "\n"


def _passage(text: str, written: Callable[[str], str]) -> str | Passage:
    return Passage(text, written) if has_letters(text) else written(text)
