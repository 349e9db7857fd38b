"""Subtitles: SubRip (.srt) and WebVTT (.vtt). Timings, numbers and settings are kept.

A cue is the text that is shown from one time to another. A cue is translated as one text, or as
one text for each speaker. A sentence that continues in the next cue is translated in two parts,
because each part must stay with its timing.
"""

import re
from collections.abc import Iterator, Sequence

from service.documents.base import (
    DocumentError,
    Line,
    Passage,
    PassageDocument,
    decode,
    joined,
    lines_of,
)
from service.text.letters import has_letters

_TIMING = re.compile(r"(\d+:)?\d\d?:\d\d[,.]\d+ *--> *(\d+:)?\d\d?:\d\d[,.]\d+")
_OPENING = re.compile(r"(?:\{\\[^}]*+\}|</?[a-zA-Z][^>]*+>|[-–—]|>>|\s++)*+")
_CLOSING = re.compile(r"</[a-zA-Z][^<>]*>")
_SPEAKER = re.compile(r"[-–—]|>>")


def read_srt(data: bytes) -> PassageDocument:
    return _read(*decode(data), has_orphans=True)


def read_vtt(data: bytes) -> PassageDocument:
    """Reads WebVTT subtitles; the blocks NOTE, STYLE and REGION are kept."""
    mark, text = decode(data)
    if not text.startswith("WEBVTT"):
        raise DocumentError("the file does not begin with WEBVTT; is it another format?")
    return _read(mark, text, has_orphans=False)


def _read(mark: str, text: str, has_orphans: bool) -> PassageDocument:
    """Reads cues, which may contain blank lines with `has_orphans`, as in many SubRip files."""
    lines = lines_of(text)
    is_timing = [_TIMING.match(line.content) is not None for line in lines]
    if has_orphans and not any(is_timing):
        raise DocumentError("the file has no timings such as 00:00:01,000 --> 00:00:02,000")
    parts: list[str | Passage] = [mark]
    cue: list[Line] = []
    is_inside = False
    for number, line in enumerate(lines):
        is_head = is_timing[number] or (
            is_timing[number + 1 : number + 2] == [True]
            and (not is_inside or line.content.isdecimal())
        )
        if line.content and is_inside and not is_head:
            cue.append(line)
            continue
        parts += _passages(cue)
        cue = []
        parts.append(str(line))
        is_inside = is_timing[number] or (is_inside and has_orphans and not is_head)
    return PassageDocument([*parts, *_passages(cue)])


def _passages(cue: Sequence[Line]) -> Iterator[str | Passage]:
    """Yields a cue in parts. A new speaker or a line without letters begins a new part."""
    speech: list[Line] = []
    for line in map(_without_tags, cue):
        if _SPEAKER.search(line.prefix) or not has_letters(line.content):
            yield joined(speech)
            speech = []
        speech.append(line)
    yield joined(speech)


def _without_tags(line: Line) -> Line:
    """Moves tags, dashes and codes for the place on the screen out of the content of a line."""
    opening = _OPENING.match(line.content)
    begin = opening.end() if opening else 0
    end = len(line.content)
    while end > begin and line.content[end - 1] == ">":
        start = line.content.rfind("<", begin, end)
        if start < 0 or not _CLOSING.fullmatch(line.content, start, end):
            break
        end = start
        while end > begin and line.content[end - 1].isspace():
            end -= 1
    return Line(
        line.prefix + line.content[:begin],
        line.content[begin:end],
        line.content[end:] + line.suffix,
    )
