"""Reads plain text (.txt) and Markdown (.md).

In plain text, a wrapped paragraph is one text; any other line is a text of its own. In Markdown,
the paragraphs, headings, list items, quotes and cells of tables are texts. Front matter, code, HTML
blocks, horizontal rules and link definitions are not translated. The Markdown marks inside a
paragraph, such as emphasis and links, belong to its text.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from service.documents.base import Line, Passage, PassageDocument, decode, joined, lines_of
from service.text.letters import UNSPACED

# Smallest length, in characters, of the longest line of a wrapped paragraph. A paragraph whose
# lines are all shorter is a verse or a list.
MIN_WRAPPED_WIDTH = 40

_END = re.compile(r"[.!?:;。！？…][\"'”’)\]」』）】》]*$")
_FIRST_WORD = re.compile(rf"[{UNSPACED}]|\S+")

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

# Start of an HTML block that may contain blank lines.
_RAW = re.compile(r"<(?:(pre|script|style|textarea)\b|!--)", re.IGNORECASE)

# The delimiter row of a table, which follows the header row.
_DELIMITERS = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)++\|?")

_CELL_BORDER = re.compile(r"(?<!\\)(\|)")
_FRONT_MATTER = {"---": ("---", "..."), "+++": ("+++",)}
_CODE_INDENT = 4


def read_text(data: bytes) -> PassageDocument:
    """Reads a text file; blank lines and indents are kept."""
    mark, text = decode(data)
    return PassageDocument([mark, *_paragraphs(lines_of(text))])


def _paragraphs(lines: Sequence[Line]) -> Iterator[str | Passage]:
    for has_content, group in groupby(lines, key=lambda line: bool(line.content)):
        paragraph = list(group)
        if has_content and _is_wrapped(paragraph):
            yield joined(paragraph)
        else:
            yield from (joined([line]) for line in paragraph)


def _is_wrapped(lines: Sequence[Line]) -> bool:
    """Reports whether an editor has probably broken the lines of a paragraph at a fixed width.

    The longest line gives the width. The first word of each line must not fit at the end of the
    line before. Two lines are not a wrapped paragraph if the first line ends with a mark such as a
    full stop or a colon. A comma does not count. In scripts without spaces, each letter is a word.
    """
    contents = [line.content for line in lines]
    width = max(map(len, contents))
    if len(lines) < 2 or width < MIN_WRAPPED_WIDTH:
        return False
    if len(lines) == 2 and _END.search(contents[0]):
        return False
    firsts = [found[0] if (found := _FIRST_WORD.search(line)) else "" for line in contents]
    pairs = zip(contents[:-1], firsts[1:], strict=True)
    return all(len(line) + 1 + len(word) > width for line, word in pairs)


def read_markdown(data: bytes) -> PassageDocument:
    mark, text = decode(data, marks="|")
    lines = lines_of(text)
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
        rows = _table_rows(lines)
        for number, line in enumerate(lines):
            if self._is_kept(line):
                yield self._flush()
                self.is_list = self.is_list and bool(line.prefix or not line.content)
                yield str(line)
            elif line.content.startswith("|") or number in rows:
                yield self._flush()
                yield from _cells(line)
            else:
                yield from self._add(line)
            self.is_after_blank = not line.content
        yield self._flush()

    def _is_kept(self, line: Line) -> bool:
        if self.html_end:
            return self._is_html(line)
        if self._is_code(line) or self._is_html(line):
            return True
        if not line.content or _KEPT.match(line.content):
            return True
        if len(line.prefix.expandtabs()) < _CODE_INDENT or self.paragraph:
            return False
        return self.is_after_blank and not self.is_list

    def _is_code(self, line: Line) -> bool:
        """Reports whether a line belongs to fenced code, and records the open fence."""
        match = _FENCE.match(line.prefix + line.content)
        if not self.fence:
            self.fence = match[1] if match else ""
            return match is not None
        closing = line.content.lstrip("> ").rstrip()
        is_mark = closing == self.fence[0] * len(closing)
        if match and is_mark and len(closing) >= len(self.fence):
            self.fence = ""
        return True

    def _is_html(self, line: Line) -> bool:
        """Reports whether a line is HTML, which ends with a blank line or an end tag of `_RAW`."""
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
                yield self._flush()
            self.is_list = bool(marker.strip("># \t")) or (self.is_list and bool(line.prefix))
        source = line.content[len(marker) :]
        is_heading = "#" in marker
        content = (
            _without_closing_marks(source) if is_heading else source.removesuffix("\\").rstrip()
        )
        suffix = source[len(content) :] + line.suffix
        if not content:  # a marker alone ends a paragraph, as an empty line does
            yield self._flush()
            yield line.prefix + marker + suffix
            return
        self.paragraph.append(Line(line.prefix + marker, content, suffix))
        if is_heading or suffix.startswith("  ") or suffix.lstrip().startswith("\\"):
            yield self._flush()

    def _flush(self) -> str | Passage:
        paragraph, self.paragraph = self.paragraph, []
        return joined(paragraph)


def _without_closing_marks(heading: str) -> str:
    stripped = heading.rstrip()
    words = stripped.rstrip("#")
    return stripped if words[-1:].strip() else words.rstrip()


def _table_rows(lines: Sequence[Line]) -> set[int]:
    """Returns the indices of the lines in tables whose rows need not begin with `|`."""
    rows: set[int] = set()
    for number, (head, line) in enumerate(pairwise(lines), 1):
        if "|" not in line.content:
            continue
        if "|" in head.content and _DELIMITERS.fullmatch(line.content):
            rows |= {number - 1, number}
        elif number - 1 in rows:
            rows.add(number)
    return rows


def _cells(line: Line) -> Iterator[str | Passage]:
    """Yields the cells of a table row, and the kept strings between them."""
    yield line.prefix
    for part in _CELL_BORDER.split(line.content):
        yield from (joined([cell]) for cell in lines_of(part))
    yield line.suffix
