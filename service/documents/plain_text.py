"""Reads plain text (.txt): a wrapped paragraph is one text, and so is any other line."""

import re
from collections.abc import Iterator, Sequence

from service.documents.base import Passage, PassageDocument, with_breaks, wrap
from service.documents.encodings import decode
from service.text.letters import UNSPACED, has_letters, split_margins

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


# The white space between two lines with words, and the line ends in it.
_BREAK = re.compile(r"(?<!\s)(\s*[\r\n]\s*)")
_LINE_END = re.compile(r"\r\n|\n|\r")


def read_text(data: bytes) -> PassageDocument:
    mark, text, encoding = decode(data)
    return PassageDocument([mark, *_paragraphs(text)], encoding=encoding)


def _paragraphs(text: str) -> Iterator[str | Passage]:
    before, words, after = split_margins(text)
    lines, breaks = (_BREAK.split(words)[n::2] for n in (0, 1))
    start = 0
    yield before
    for number, end in enumerate([*breaks, after], 1):
        if number == len(lines) or len(_LINE_END.findall(end)) > 1:
            yield from _paragraph(lines[start:number], breaks[start : number - 1])
            yield end
            start = number


def _paragraph(lines: Sequence[str], breaks: Sequence[str]) -> Iterator[str | Passage]:
    if _is_wrapped(lines):
        yield _joined(lines, breaks)
        return
    for line, end in zip(lines, [*breaks, ""], strict=True):
        for text in _COLUMNS.split(line):  # no request may have a very long text
            for piece in _PIECE.findall(text) if len(text) > 2 * PIECE_CHARS else [text]:
                before, words, after = split_margins(piece)
                yield from (before, _joined([words], []), after)
        yield end


def _joined(lines: Sequence[str], breaks: Sequence[str]) -> str | Passage:
    """Returns one passage for a text over several lines. Lines without letters are kept."""
    text = " ".join(lines)

    def place(translation: str) -> str:
        return with_breaks(lines if translation == text else wrap(translation, lines), breaks)

    return Passage(text, place) if has_letters(text) else place(text)


def _is_wrapped(lines: Sequence[str]) -> bool:
    """Reports whether an editor has probably broken the lines of a paragraph at a fixed width.

    The longest line gives the width. The first word of each line must not fit at the end of the
    line before. In scripts without spaces, each letter is a word.
    """
    width = max(map(len, lines))
    if len(lines) < 2 or width < MIN_WRAPPED_WIDTH or any(map(_COLUMNS.search, lines)):
        return False
    if len(lines) == 2 and _END.search(lines[0]):
        return False
    firsts = [found[0] if (found := _FIRST_WORD.search(line)) else "" for line in lines]
    pairs = zip(lines[:-1], firsts[1:], strict=True)
    return all(len(line) + 1 + len(word) > width for line, word in pairs)
