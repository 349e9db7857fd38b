"""Reads plain text (.txt): a wrapped paragraph is one text, and so is any other line."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from service.documents.base import Line, Passage, PassageDocument, decode, joined, lines_of
from service.text.letters import UNSPACED

# Smallest length, in characters, of the longest line of a wrapped paragraph. A paragraph whose
# lines are all shorter is a verse or a list.
MIN_WRAPPED_WIDTH = 40

_END = re.compile(r"[.!?:;。！？…][\"'”’)\]」』）】》]*$")
_FIRST_WORD = re.compile(rf"[{UNSPACED}]|\S+")

# White space between the columns of a table. Two spaces may also follow the end of a sentence.
_COLUMNS = re.compile(r"(\s*\t\s*| {3,}|(?<=[^\s.!?:;…]) {2}(?=\S))")

# Smallest length of the pieces of a very long line.
PIECE_CHARS = 5000
_PIECE = re.compile(rf".{{{PIECE_CHARS}}}.*?[.!?…。！？](?=\s|$)|.+", re.DOTALL)


def read_text(data: bytes) -> PassageDocument:
    mark, text, encoding = decode(data)
    return PassageDocument([mark, *_paragraphs(lines_of(text))], encoding=encoding)


def _paragraphs(lines: Sequence[Line]) -> Iterator[str | Passage]:
    for has_content, group in groupby(lines, key=lambda line: bool(line.content)):
        paragraph = list(group)
        if has_content and _is_wrapped(paragraph):
            yield joined(paragraph)
        else:
            for line in paragraph:
                yield line.prefix
                columns = _COLUMNS.split(line.content)
                for text in columns:  # no request may have a very long text
                    pieces = _PIECE.findall(text) if len(text) > 2 * PIECE_CHARS else [text]
                    yield from map(joined, map(lines_of, pieces))
                yield line.suffix


def _is_wrapped(lines: Sequence[Line]) -> bool:
    """Reports whether an editor has probably broken the lines of a paragraph at a fixed width.

    The longest line gives the width. The first word of each line must not fit at the end of the
    line before. In scripts without spaces, each letter is a word.
    """
    contents = [line.content for line in lines]
    width = max(map(len, contents))
    if len(lines) < 2 or width < MIN_WRAPPED_WIDTH or any(map(_COLUMNS.search, contents)):
        return False
    if len(lines) == 2 and _END.search(contents[0]):
        return False
    firsts = [found[0] if (found := _FIRST_WORD.search(line)) else "" for line in contents]
    pairs = zip(contents[:-1], firsts[1:], strict=True)
    return all(len(line) + 1 + len(word) > width for line, word in pairs)
