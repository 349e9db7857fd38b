"""Catalogues of messages: JSON files of user interfaces (.json), and gettext (.po).

In JSON, string values are translated. In gettext, an empty msgstr gets the translation of its
msgid, unless another plural form of the entry has a translation. Everything else is kept byte for
byte, except for the language in the header of gettext. Babel would change line breaks and drop
previous messages (`#|`).
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from babel.messages.pofile import PoFileError, escape, unescape

from service.documents.base import DocumentError, Line, Passage, PassageDocument, decode, lines_of
from service.text.letters import has_letters, split_margins

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_KEY = re.compile(r"\s*:")
_NO_TEXT = re.compile(r"(?:[a-z][a-z0-9+.-]*://|mailto:|data:)\S*|#[0-9a-fA-F]{3,8}")

# Half of a character, as in `"\ud83d"`; no model reads it.
_SURROGATE = re.compile("[\ud800-\udfff]")

_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d{1,3})\])?\s*(?=\")")
_CHARSET = re.compile(rb"charset=([\w-]+)")
_LANGUAGE = re.compile(r'^"Language: ?[\w@-]*(\\n")', re.MULTILINE)


def read_json(data: bytes) -> PassageDocument:
    """Reads a JSON file; its layout, keys, numbers, URLs and colour codes are kept."""
    mark, text, encoding = decode(data, ",[{")
    try:
        json.loads(text, parse_int=str)  # int() refuses numbers of more than 4,300 digits
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"the file is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise DocumentError("the lists and objects of the file are nested too deep") from None
    return PassageDocument([mark, *_json_parts(text)], encoding=encoding)


def _json_parts(text: str) -> Iterator[str | Passage]:
    """Yields the parts of valid JSON, which has quotation marks only around and in its strings."""
    begin = 0
    for match in _STRING.finditer(text):
        if _KEY.match(text, match.end()):
            continue
        value = json.loads(match[0], strict=False)
        is_kept = _NO_TEXT.fullmatch(value.strip()) or _SURROGATE.search(value)
        if not is_kept and has_letters(value):
            yield from (text[begin : match.start()], _json_passage(match[0], value))
            begin = match.end()
    yield text[begin:]


def _json_passage(source: str, value: str) -> Passage:
    before, core, after = split_margins(value)
    is_ascii = "\\u" in source and source.isascii()

    def place(translation: str) -> str:
        if translation == core:
            return source
        return json.dumps(before + translation + after, ensure_ascii=is_ascii)

    return Passage(core, place)


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


def read_po(data: bytes) -> PassageDocument:
    mark, text, encoding = decode(data, "", _CHARSET)
    entry: list[_Field] = []
    parts: list[str | Passage] = [mark]
    for number, line in enumerate(lines_of(text), 1):
        content = line.content.removeprefix("\ufeff")  # files may have been joined
        match = _KEYWORD.match(content)
        if not match and not content.startswith('"'):
            parts += _po_parts(entry)
            entry = []
            if content and not content.startswith("#"):
                raise DocumentError(f"line {number} is no line of a gettext catalogue")
            parts.append(str(line))
            continue
        if not _STRING.fullmatch(content, match.end() if match else 0):
            raise DocumentError(f"line {number} has no complete string of a gettext catalogue")
        if match:
            if entry and match[1] in ("msgid", "msgctxt") and entry[-1].keyword == "msgstr":
                parts += _po_parts(entry)
                entry = []
            entry.append(_Field(match[1], int(match[2] or 0)))
        elif not entry:
            raise DocumentError(f"line {number} has a string without msgid or msgstr")
        entry[-1].lines.append(line)
    document = PassageDocument(
        [*parts, *_po_parts(entry)], _set_language, encoding=encoding, in_utf8=_in_utf8
    )
    if not any("msgid" in part for part in document.parts if isinstance(part, str)):
        raise DocumentError("the file has no msgid; is it another format?")
    return document


def _po_parts(entry: Sequence[_Field]) -> Iterator[str | Passage]:
    """Yields the lines of an entry, with passages for its translations if all of them are empty."""
    try:
        sources = {each.keyword: each.value for each in entry if each.keyword != "msgstr"}
        is_open = not any(each.value for each in entry if each.keyword == "msgstr")
    except (PoFileError, ValueError, IndexError) as error:
        raise DocumentError(f"an entry of the catalogue cannot be read: {error}") from None
    singular = sources.get("msgid", "")
    plural = sources.get("msgid_plural", singular)
    # If a language has only one form, the form is the translation of the plural.
    has_one_form = sum(each.keyword == "msgstr" for each in entry) == 1
    for each in entry:
        source = plural if each.number or has_one_form else singular
        if each.keyword == "msgstr" and is_open and has_letters(source):
            yield each.passage(source)
        else:
            yield from map(str, each.lines)


def _in_utf8(written: str) -> str:
    return re.sub(_CHARSET.pattern.decode(), "charset=UTF-8", written, count=1)


def _set_language(written: str, language: str) -> str:
    code = language.replace("-", "_")
    return _LANGUAGE.sub(lambda match: f'"Language: {code}{match[1]}', written, count=1)
