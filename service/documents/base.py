"""The errors of documents, and documents of passages."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

_SKIPPED = re.compile(rb"<(?:\w+:)?(img|image|blip|svg|math|oMath)\b", re.IGNORECASE)
_ENDS = (".", "!", "?", "…", "。", "！", "？")  # of sentences
# Space at which a text may be wrapped: no mark of a list, a quote, a heading or code follows.
_WRAPPING_SPACE = re.compile(r" (?!(?:[-+*>]|#{1,6}|\d{1,9}[.)])\s|```|~~~)")


class DocumentError(Exception):
    """The document cannot be read or is refused. The message names the fault."""


class UnsupportedFormatError(DocumentError):
    """No supported format uses the extension of the file."""


class DocumentTooLargeError(DocumentError):
    """The document is over a limit."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text to translate. `place` returns the characters to write for a translation."""

    text: str
    place: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class PassageDocument:
    """A document whose kept parts are strings and whose translated parts are passages."""

    parts: Sequence[str | Passage]

    # Each finds a code of the language, which follows group 1. Some formats state no language.
    languages: Sequence[re.Pattern[str]] = ()

    # Changes the text of a document after all passages have been placed.
    finish: Callable[[str], str] | None = None

    is_html: bool = False
    encoding: str = "utf-8"

    skipped: Mapping[str, int] = field(default_factory=dict)  # numbers of images, equations
    has_underscores: bool = False  # in the code of the language, as in `pt_BR`
    errors: str = "strict"  # "xmlcharrefreplace" writes references such as `&#233;`

    # Changes a text that is written in UTF-8 because its encoding does not have a character.
    in_utf8: Callable[[str], str] = "\ufeff".__add__

    def texts(self) -> list[str]:
        return [part.text for part in self.parts if isinstance(part, Passage)]

    def write(self, translations: Sequence[str], language: str) -> bytes:
        """Returns the document with the translations, in its encoding if this has all characters.

        In HTML, other characters become references. Elsewhere, they make the document UTF-8.
        """
        remaining = iter(translations)
        written = "".join(
            part if isinstance(part, str) else part.place(next(remaining)) for part in self.parts
        )
        if self.finish is not None:
            written = self.finish(written)
        code = language.replace("-", "_") if self.has_underscores else language
        for pattern in self.languages if code else ():
            written = pattern.sub(lambda found: found[1] + code, written, count=1)
        written = written.encode("utf-8", "replace").decode()  # a lone surrogate becomes `?`
        try:
            return written.encode(self.encoding, self.errors)
        except UnicodeEncodeError:
            return self.in_utf8(written).encode()


def skipped_in(data: bytes) -> Counter[str]:
    """Counts the images and the equations of a document, which are not translated."""
    names = (found[1].lower() for found in _SKIPPED.finditer(data))
    return Counter("equations" if b"math" in name else "images" for name in names)


def with_breaks(lines: Sequence[str], breaks: Sequence[str]) -> str:
    """Joins lines by the breaks of their source, which may have more lines."""
    return "".join(map(str.__add__, lines, [*breaks[: len(lines) - 1], ""]))


def wrap(translation: str, contents: Sequence[str]) -> list[str]:
    """Cuts a translation into as many lines as its source, or fewer if it has too few words.

    The position of each line end in the source is scaled to the length of the translation. The cut
    is at the space that is nearest to this position, and after a sentence if the line in the source
    ends one. No line begins with a mark of a list, a quote or a heading.
    """
    translation = " ".join(map(str.strip, translation.split("\n"))).strip()
    scale = len(translation) / max(1, len(" ".join(contents)))
    spaces = [match.start() for match in _WRAPPING_SPACE.finditer(translation)]
    lines: list[str] = []
    begin = end = 0
    for content in contents[:-1]:
        end += len(content) + 1
        wanted = end * scale - 1
        first = bisect_right(spaces, begin)
        place = max(first, bisect_left(spaces, wanted))
        near = spaces[max(first, place - 1) : place + 1]
        if content.endswith(_ENDS):
            around = spaces[max(first, place - 5) : place + 5]
            near = [space for space in around if translation.endswith(_ENDS, 0, space)] or near
        if not near:
            break
        cut = min(near, key=lambda space: abs(space - wanted))
        lines.append(translation[begin:cut])
        begin = cut + 1
    return [*lines, translation[begin:]]
