"""Reads Markdown (.md): its paragraphs, headings, list items, quotes and cells of tables.

Front matter, code, HTML blocks, horizontal rules and link definitions are not translated. The
Markdown marks inside a paragraph, such as emphasis and links, belong to its text.
"""

import re
from collections.abc import Iterator, Sequence

from service.documents.base import decode
from service.documents.plain.passages import Line, Passage, PassageDocument, joined, lines_of
from service.text.letters import has_letters

_FENCE = re.compile(r"(?:[>\s]++|[-*+] |\d++[.)] )*+(`{3,}+(?!.*`)|~{3,})")
_MARKER = re.compile(
    r"(?:\s*+(?:>|[-*+](?=\s)|\d{1,9}[.)](?=\s)|\[[ xX]\](?=\s)|\#{1,6}(?=\s)"
    r"|\[\^[^\]]++\]:))*+\s*+"
)
_KEPT = re.compile(
    r"(?:[-*_=]\s*+){3,}+$"  # horizontal rules and underlines of headings
    r"|=+\s*$|-+\s*$"
    r"|\[[^\]^][^\]]*\]:"  # link definitions
)
_HTML = re.compile(r"<[!?/a-zA-Z]")
_RAW = re.compile(r"<(?:(pre|script|style|textarea)\b|!--)", re.IGNORECASE)
"""Start of an HTML block that may contain blank lines."""

_DELIMITERS = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)++\|?")
"""The delimiter row of a table, which follows the header row."""

_CELL_BORDER = re.compile(r"(?<!\\)(\|)")
_FRONT_MATTER = {"---": ("---", "..."), "+++": ("+++",)}
_CODE_INDENT = 4


def read_markdown(data: bytes) -> PassageDocument:
    """Reads a Markdown file.

    Raises:
        DocumentError: The file is not UTF-8.
    """
    text = decode(data, marks="|")
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = lines_of(text[len(mark) :])
    front = _end_of_front_matter(lines)
    return PassageDocument([mark, *map(str, lines[:front]), *_Reader().read(lines[front:])])


def _end_of_front_matter(lines: Sequence[Line]) -> int:
    """Returns the number of lines of the front matter; 0 if there is none."""
    ends = _FRONT_MATTER.get(str(lines[0]).rstrip(), ()) if lines else ()
    for number, line in enumerate(lines[1:], 1):
        if str(line).rstrip() in ends:
            return number + 1
    return 0


class _Reader:
    """Groups lines into paragraphs."""

    def __init__(self) -> None:
        self.paragraph: list[Line] = []
        self.fence = self.html_end = ""
        self.is_html = self.is_list = False
        self.is_after_blank = True

    def read(self, lines: Sequence[Line]) -> Iterator[str | Passage]:
        """Yields kept lines and passages."""
        rows = _table_rows(lines)
        for number, line in enumerate(lines):
            if self._is_kept(line):
                yield from self._flush()
                self.is_list = self.is_list and bool(line.prefix or not line.content)
                yield str(line)
            elif line.content.startswith("|") or number in rows:
                yield from self._flush()
                yield from _cells(line)
            else:
                yield from self._add(line)
            self.is_after_blank = not line.content
        yield from self._flush()

    def _is_kept(self, line: Line) -> bool:
        if self.html_end:
            return self._is_html(line)
        if self._is_code(line) or self._is_html(line):
            return True
        if not line.content:
            return True
        if _KEPT.match(line.content) is not None:
            return True
        if len(line.prefix.expandtabs()) < _CODE_INDENT or self.paragraph:
            return False
        return self.is_after_blank and not self.is_list

    def _is_code(self, line: Line) -> bool:
        """Reports whether a line belongs to fenced code, and records the open fence."""
        match = _FENCE.match(line.prefix + line.content)
        if self.fence:
            closing = line.content.lstrip("> ").rstrip()
            if (
                match
                and closing == self.fence[0] * len(closing)
                and len(closing) >= len(self.fence)
            ):
                self.fence = ""
            return True
        if match:
            self.fence = match[1]
        return match is not None

    def _is_html(self, line: Line) -> bool:
        """Reports whether a line belongs to a block of HTML.

        A block ends with a blank line. A block of `_RAW` ends with the line of its end tag.
        """
        found = None if self.paragraph or self.is_html else _RAW.match(line.content)
        if found:
            self.html_end = f"</{found[1].lower()}>" if found[1] else "-->"
        if self.html_end:
            if self.html_end in line.content[found.end() if found else 0 :].lower():
                self.html_end = ""
            return True
        starts = not self.paragraph and _HTML.match(line.content) is not None
        self.is_html = bool(line.content) and (self.is_html or starts)
        return self.is_html

    def _add(self, line: Line) -> Iterator[str | Passage]:
        match = _MARKER.match(line.content)
        marker = match[0] if match else ""
        if marker or self.is_after_blank:
            if marker.strip(">\t ") or not self.paragraph:
                yield from self._flush()
            self.is_list = bool(marker.strip("># \t")) or (self.is_list and bool(line.prefix))
        content = line.content[len(marker) :]
        suffix = line.suffix
        kept = (
            _without_closing_marks(content)
            if "#" in marker
            else content.removesuffix("\\").rstrip()
        )
        content, suffix = kept, content[len(kept) :] + suffix
        if not content:  # a marker alone ends a paragraph, as an empty line does
            yield from self._flush()
            yield line.prefix + marker + suffix
            return
        is_broken = suffix.startswith("  ") or suffix.lstrip().startswith("\\")
        self.paragraph.append(Line(line.prefix + marker, content, suffix))
        if is_broken or "#" in marker:
            yield from self._flush()

    def _flush(self) -> Iterator[str | Passage]:
        paragraph, self.paragraph = self.paragraph, []
        if any(has_letters(line.content) for line in paragraph):
            yield joined(paragraph)
        else:
            yield from map(str, paragraph)


def _without_closing_marks(heading: str) -> str:
    """Returns a heading without the marks and the white space at its end."""
    stripped = heading.rstrip()
    words = stripped.rstrip("#")
    return stripped if words[-1:].strip() else words.rstrip()


def _table_rows(lines: Sequence[Line]) -> set[int]:
    """Returns the indices of the lines in tables whose rows need not begin with `|`."""
    rows: set[int] = set()
    for number, line in enumerate(lines):
        has_head = number > 0 and "|" in lines[number - 1].content
        if has_head and "|" in line.content and _DELIMITERS.fullmatch(line.content):
            rows |= {number - 1, number}
        elif number - 1 in rows and "|" in line.content:
            rows.add(number)
    return rows


def _cells(line: Line) -> Iterator[str | Passage]:
    """Yields the cells of a table row, and the kept strings between them."""
    yield line.prefix
    for part in _CELL_BORDER.split(line.content):
        for cell in lines_of(part):
            yield joined([cell]) if has_letters(cell.content) else str(cell)
    yield line.suffix
