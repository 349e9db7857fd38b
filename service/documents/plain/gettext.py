"""Message catalogues of gettext (.po): an empty msgstr gets the translation of its msgid.

An entry with several plural forms stays as it is if one of the forms already has a translation.
Comments and translated entries are kept byte for byte. In the header, only the language changes.
This module writes the catalogue itself. Babel would change line breaks and drop previous messages
(`#|`), so a version control system would show a change in every entry.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from babel.messages.pofile import PoFileError, escape, unescape

from service.documents.base import DocumentError, decode, split_margins
from service.documents.plain.passages import Line, Passage, PassageDocument, lines_of
from service.text.letters import has_letters

_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d{1,3})\])?\s*(?=\")")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_LANGUAGE = re.compile(r'^"Language: ?[\w@-]*(\\n")', re.MULTILINE)


@dataclass(slots=True)
class _Field:
    """One keyword with its strings, which may stand on several lines.

    The number is the index of a plural form, as in `msgstr[1]`. Other fields have the number 0.
    """

    keyword: str
    number: int
    lines: list[Line] = field(default_factory=list)

    @property
    def value(self) -> str:
        """Text of the field."""
        strings = _STRING.findall("\n".join(line.content for line in self.lines))
        return "".join(map(unescape, strings))  # Babel's `denormalize` would cut at U+2028


def read_po(data: bytes) -> PassageDocument:
    """Reads a message catalogue.

    Raises:
        DocumentError: The file is not UTF-8, or it is not a catalogue.
    """
    entry: list[_Field] = []
    parts: list[str | Passage] = []
    for number, line in enumerate(lines_of(decode(data)), 1):
        content = line.content.removeprefix("\ufeff")
        match = _KEYWORD.match(content)
        if not match and not content.startswith('"'):
            parts += _parts(entry)
            entry = []
            if content and not content.startswith("#"):
                raise DocumentError(f"line {number} is no line of a gettext catalogue")
            parts.append(str(line))
            continue
        if not _STRING.fullmatch(content, match.end() if match else 0):
            raise DocumentError(f"line {number} has no complete string of a gettext catalogue")
        if match:
            if entry and match[1] in ("msgid", "msgctxt") and entry[-1].keyword == "msgstr":
                parts += _parts(entry)
                entry = []
            entry.append(_Field(match[1], int(match[2] or 0)))
        elif not entry:
            raise DocumentError(f"line {number} has a string without msgid or msgstr")
        entry[-1].lines.append(line)
    document = PassageDocument([*parts, *_parts(entry)], _set_language)
    if not any("msgid" in part for part in document.parts if isinstance(part, str)):
        raise DocumentError("the file has no msgid; is it another format?")
    return document


def _parts(entry: Sequence[_Field]) -> Iterator[str | Passage]:
    """Yields the lines of an entry.

    If all translations of the entry are empty, each of them becomes a passage to translate. A
    translation whose source has no letters stays empty. If a language has only one plural form, the
    form is the translation of the plural.
    """
    try:
        sources = {each.keyword: each.value for each in entry if each.keyword != "msgstr"}
        is_open = not any(each.value for each in entry if each.keyword == "msgstr")
    except (PoFileError, ValueError, IndexError) as error:
        raise DocumentError(f"an entry of the catalogue cannot be read: {error}") from None
    singular = sources.get("msgid", "")
    plural = sources.get("msgid_plural", singular)
    has_one_form = sum(each.keyword == "msgstr" for each in entry) == 1
    for each in entry:
        source = plural if each.number or has_one_form else singular
        if each.keyword == "msgstr" and is_open and has_letters(source):
            yield _passage(each, source)
        else:
            yield from map(str, each.lines)


def _passage(target: _Field, source: str) -> Passage:
    before, core, after = split_margins(source)
    first, last = target.lines[0], target.lines[-1]
    match = _KEYWORD.match(first.content)
    keyword = match[0] if match else ""

    def place(translation: str) -> str:
        lines = (before + translation + after).splitlines(keepends=True) or [""]
        strings = [escape(line) for line in (["", *lines] if len(lines) > 1 else lines)]
        line_end = first.suffix.strip(" \t") or "\n"
        return first.prefix + keyword + line_end.join(strings) + last.suffix

    return Passage(core, place)


def _set_language(written: str, language: str) -> str:
    """Returns a catalogue whose header states the language.

    A catalogue without a language line is not changed.
    """
    code = language.replace("-", "_")
    return _LANGUAGE.sub(lambda match: f'"Language: {code}{match[1]}', written, count=1)
