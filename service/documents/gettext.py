"""Reads catalogues of gettext (.po).

An empty msgstr gets the translation of its msgid, unless another plural form of the entry has a
translation. Everything else is kept byte for byte, except for the language in the header. Babel
would change line breaks and drop previous messages (`#|`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from babel.messages.pofile import PoFileError, escape, unescape

from service.documents.base import DocumentError, Line, Passage, PassageDocument, decode, lines_of
from service.text.letters import has_letters, split_margins

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d{1,3})\])?\s*(?=\")")
# The flag of an entry whose translation may be wrong, and the message that it translates.
_FUZZY = re.compile(r"(#(?:,.*?)?)(?:, *fuzzy\b|(?<=#)\|.*)")
_CHARSET = re.compile(rb"charset=([\w-]+)")
_LANGUAGE = re.compile(r'^"Language: ?[\w@-]*(\\n")', re.MULTILINE)


@dataclass(slots=True)
class _Field:
    """One keyword of gettext with its strings, which may stand on several lines."""

    keyword: str
    number: int  # index of a plural form, as in `msgstr[1]`; 0 for other fields
    lines: list[Line] = field(default_factory=list)

    @property
    def value(self) -> str:
        strings = _STRING.findall("\n".join(line.content for line in self.lines))
        return "".join(map(unescape, strings))  # Babel's `denormalize` would cut at U+2028

    def passage(self, source: str) -> Passage:
        """Returns the passage for an empty msgstr, which gets the translation of `source`."""
        before, core, after = split_margins(source)
        first, last = self.lines[0], self.lines[-1]
        match = _KEYWORD.match(first.content)

        def place(translation: str) -> str:
            lines = (before + translation + after).splitlines(keepends=True) or [""]
            strings = [escape(line) for line in (["", *lines] if len(lines) > 1 else lines)]
            line_end = first.suffix.strip(" \t") or "\n"
            keyword = match[0] if match else ""
            return first.prefix + keyword + line_end.join(strings) + last.suffix

        return Passage(core, place)


def read_po(data: bytes, keeps_fuzzy: bool = False) -> PassageDocument:
    """Reads a catalogue. A fuzzy entry is translated anew, and with `keeps_fuzzy` stays fuzzy."""
    mark, text, encoding = decode(data, "", _CHARSET)
    comments: list[Line] = []
    entry: list[_Field] = []
    parts: list[str | Passage] = [mark]
    for number, line in enumerate(lines_of(text), 1):
        content = line.content.removeprefix("\ufeff")  # files may have been joined
        match = _KEYWORD.match(content)
        is_string = match is not None or content.startswith('"')
        is_next = match and match[1] in ("msgid", "msgctxt") and entry[-1:]
        if entry and (not is_string or (is_next and entry[-1].keyword == "msgstr")):
            parts += _entry_parts(comments, entry, keeps_fuzzy)
            comments, entry = [], []
        if not is_string:
            if content and not content.startswith("#"):
                raise DocumentError(f"line {number} is no line of a gettext catalogue")
            comments.append(line)
            continue
        if not _STRING.fullmatch(content, match.end() if match else 0):
            raise DocumentError(f"line {number} has no complete string of a gettext catalogue")
        if match:
            entry.append(_Field(match[1], int(match[2] or 0)))
        elif not entry:
            raise DocumentError(f"line {number} has a string without msgid or msgstr")
        entry[-1].lines.append(line)
    parts += _entry_parts(comments, entry, keeps_fuzzy)
    if not any("msgid" in part for part in parts if isinstance(part, str)):
        raise DocumentError("the file has no msgid; is it another format?")
    return PassageDocument(parts, _set_language, encoding=encoding, in_utf8=_in_utf8)


def _entry_parts(
    comments: Sequence[Line], entry: Sequence[_Field], keeps_fuzzy: bool
) -> Iterator[str | Passage]:
    """Yields the lines of an entry, with passages if its translations are empty or fuzzy."""
    try:
        sources = {each.keyword: each.value for each in entry if each.keyword != "msgstr"}
        is_open = not any(each.value for each in entry if each.keyword == "msgstr")
    except (PoFileError, ValueError, IndexError) as error:
        raise DocumentError(f"an entry of the catalogue cannot be read: {error}") from None
    singular = sources.get("msgid", "")
    plural = sources.get("msgid_plural", singular)
    is_fuzzy = has_letters(singular) and any(
        line.content.startswith("#,") and _FUZZY.match(line.content) for line in comments
    )
    for line in comments:
        content = line.content
        if is_fuzzy and not keeps_fuzzy:
            content = _FUZZY.sub(r"\1", content)
        if content == line.content or content != "#":
            yield str(replace(line, content=content))
    # If a language has only one form, the form is the translation of the plural.
    has_one_form = sum(each.keyword == "msgstr" for each in entry) == 1
    for each in entry:
        source = plural if each.number or has_one_form else singular
        if each.keyword == "msgstr" and (is_open or is_fuzzy) and has_letters(source):
            yield each.passage(source)
        else:
            yield from map(str, each.lines)


def _in_utf8(written: str) -> str:
    return re.sub(_CHARSET.pattern.decode(), "charset=UTF-8", written, count=1)


def _set_language(written: str, language: str) -> str:
    code = language.replace("-", "_")
    return _LANGUAGE.sub(lambda match: f'"Language: {code}{match[1]}', written, count=1)
