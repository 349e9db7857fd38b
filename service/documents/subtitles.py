"""Subtitles: SubRip (.srt), WebVTT (.vtt), SubStation Alpha (.ass, .ssa). Timings are kept.

A cue is the text that is shown from one time to another. A cue is translated as one text, or as
one text for each speaker. A sentence that continues in the next cue is translated in two parts,
because each part must stay with its timing. Tags, and codes in braces, move with their words.
"""

import re
from collections.abc import Iterator

from service.documents.base import DocumentError, Passage, PassageDocument
from service.documents.encodings import decode
from service.documents.html import Markup
from service.text.html_text import Piece, pieces, tokens_of
from service.text.letters import LINE
from service.text.markup import Kind

_TIMING = re.compile(r"\s*(\d+:)?\d\d?:\d\d[,.]\d+ *--> *(\d+:)?\d\d?:\d\d[,.]\d+")

# The parts of a cue: codes, the times of words, tags, and the signs before a speaker's words.
_PIECE = re.compile(
    r"(?P<code>\{[^{}\n]*+\}|<[\d:.]+>)|(?P<tag></?[a-zA-Z][^<>]*+>)"
    r"|(?P<speaker>(?:(?:^|(?<=\n))[ \t]*+(?:[-–—]|>>)|(?<=[>}])[-–—](?=\s))[ \t]*+)"
    r"|[^{<\n]++|[{<\n]"
)
_SWITCH = re.compile(r"\{\\([ibus])([01])\}")
_KINDS = {"code": Kind.EMPTY, "speaker": Kind.BLOCK, None: Kind.TEXT}
_FORMAT = re.compile(r"\[Events\]\s*^Format:([^\r\n]*)", re.MULTILINE | re.IGNORECASE)
_LINE_BREAK = re.compile(r"\\[Nn]")
_DRAWING = re.compile(r"\{[^}]*\\p[1-9]")


class _Plain(Markup):
    """Texts without entities."""

    def read(self, source: str) -> str:
        return source.replace("\\h", "\u00a0")

    def escape(self, words: str) -> str:
        return words


def read_cues(data: bytes, is_vtt: bool) -> PassageDocument:
    """Reads SubRip or WebVTT. The blocks NOTE, STYLE and REGION are kept."""
    mark, text, encoding = decode(data)
    if is_vtt and not text.startswith("WEBVTT"):
        raise DocumentError("the file does not begin with WEBVTT; is it another format?")
    parts = [mark, *_parts(text, Markup() if is_vtt else _Plain(), has_orphans=not is_vtt)]
    if not is_vtt and not any(map(_TIMING.match, map(str, parts))):
        raise DocumentError("the file has no timings such as 00:00:01,000 --> 00:00:02,000")
    return PassageDocument(parts, is_html=True, encoding=encoding)


def read_ass(data: bytes) -> PassageDocument:
    """Reads the texts of the events; styles, comments and drawings are kept."""
    mark, text, encoding = decode(data)
    fields = _FORMAT.search(text)
    if fields is None:
        raise DocumentError("the file has no [Events] with a line Format; is it another format?")
    number = fields[1].count(",")
    event = re.compile(rf"^Dialogue:(?:[^,\r\n]*+,){{{number}}}([^\r\n]*)", re.MULTILINE)
    parts: list[str | Passage] = [mark]
    begin = 0
    for found in event.finditer(text):
        if not _DRAWING.search(found[1]):
            ends = _LINE_BREAK.findall(found[1])
            parts.append(text[begin : found.start(1)])
            cue = _LINE_BREAK.sub("\n", found[1])
            parts += _Plain().in_lines(tokens_of(_pieces(cue)), ends)
            begin = found.end()
    return PassageDocument([*parts, text[begin:]], is_html=True, encoding=encoding)


def _parts(text: str, markup: Markup, has_orphans: bool) -> Iterator[str | Passage]:
    """Yields cues, which may contain blank lines with `has_orphans`, as in many SubRip files."""
    lines = [(match[1], match[2]) for match in LINE.finditer(text) if match[0]] + [("", "")]
    is_timing = [*(_TIMING.match(line) is not None for line, _ in lines), False]
    cue: list[str] = []
    ends: list[str] = []
    is_inside = False
    for number, (line, end) in enumerate(lines):
        is_head = is_timing[number] or (
            is_timing[number + 1] and (not is_inside or line.strip().isdecimal())
        )
        if line.strip() and is_inside and not is_head:
            cue.append(line)
            ends.append(end)
            continue
        yield from markup.in_lines(tokens_of(_pieces("\n".join(cue))), ends[:-1])
        yield "".join([*ends[-1:], line, end])
        cue, ends = [], []
        is_inside = is_timing[number] or (is_inside and has_orphans and not is_head)


def _pieces(cue: str) -> Iterator[Piece]:
    for found in _PIECE.finditer(cue):
        if found["tag"]:
            (tag,) = pieces(found[0])
            yield tag._replace(name="p" if tag.name == "v" else "span")  # "v" names a speaker
        elif switch := _SWITCH.fullmatch(found[0]):
            yield Piece(Kind.OPEN if switch[2] == "1" else Kind.CLOSE, found[0], switch[1])
        else:
            yield Piece(_KINDS[found.lastgroup], found[0])
