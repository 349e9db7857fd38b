"""Reads plain text (.txt): a wrapped paragraph is one text; any other line is a text of its own."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from service.documents.base import decode
from service.documents.plain.passages import Line, Passage, PassageDocument, joined, lines_of
from service.text.letters import UNSPACED, has_letters

MIN_WRAPPED_WIDTH = 40
"""Smallest length, in characters, of the longest line of a wrapped paragraph.

A paragraph whose lines are all shorter is a verse or a list.
"""

_END = re.compile(r"[.!?:;。！？…][\"'”’)\]」』）】》]*$")
_FIRST_WORD = re.compile(rf"[{UNSPACED}]|\S+")


def read_text(data: bytes) -> PassageDocument:
    """Reads a text file; blank lines and indents are kept.

    Raises:
        DocumentError: The file is not UTF-8.
    """
    text = decode(data)
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    return PassageDocument([mark, *_parts(lines_of(text[len(mark) :]))])


def _parts(lines: Sequence[Line]) -> Iterator[str | Passage]:
    for has_content, group in groupby(lines, key=lambda line: bool(line.content)):
        paragraph = list(group)
        if has_content and is_wrapped(paragraph):
            yield joined(paragraph)
        else:
            for line in paragraph:
                yield joined([line]) if has_letters(line.content) else str(line)


def is_wrapped(lines: Sequence[Line]) -> bool:
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
    return all(
        len(line) + 1 + len(_first_word(following)) > width
        for line, following in pairwise(contents)
    )


def _first_word(line: str) -> str:
    found = _FIRST_WORD.search(line)
    return found[0] if found else ""
