"""Reads catalogues of gettext (.po).

An empty msgstr gets the translation of its msgid, unless another plural form of the entry has a
translation. Everything else is kept byte for byte, except for the language in the header. Babel
would change line breaks and drop previous messages (`#|`).
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from babel.messages.pofile import escape, unescape

from service.documents.base import DocumentError, Passage, PassageDocument
from service.documents.catalogs import passage_of
from service.documents.encodings import decode
from service.text.letters import has_letters

_STRING = r'"(?:[^"\\\r\n]++|\\.)*+"'
_STRINGS = re.compile(_STRING)
# A keyword with its strings, which may stand on several lines. Files may have been joined.
_FIELD = re.compile(
    r"(?<![^\r\n])[ \t\ufeff]*+(?P<keyword>msgctxt|msgid_plural|msgid|msgstr)"
    rf"(?:\[(?P<number>\d{{1,3}})\])?\s*+(?P<strings>{_STRING}(?:\s*+{_STRING})*+)"
    r"(?=[ \t]*+(?:[\r\n]|\Z))"
)
_FUZZY = re.compile(r"^[ \t]*#,.*\bfuzzy\b", re.MULTILINE)
# Parts that are removed from a fuzzy entry: the flag, or its line, and the previous message.
_LOST = re.compile(
    r"^[ \t]*#(?:, *fuzzy[ \t]*|\|[^\r\n]*)(?:\r\n?|\n)|^([ \t]*#(?:,[^\r\n]*?)?), *fuzzy\b",
    re.MULTILINE,
)
_CHARSET = re.compile(rb"charset=([\w-]+)")
_LANGUAGE = re.compile(r'^("Language: ?)[\w@-]*(?=\\n")', re.MULTILINE)


def read_po(data: bytes, keeps_fuzzy: bool = False) -> PassageDocument:
    """Reads a catalogue. A fuzzy entry is translated anew, and with `keeps_fuzzy` stays fuzzy."""
    mark, text, encoding = decode(data, "", _CHARSET)
    others = _FIELD.sub(lambda field: "\n" * field[0].count("\n"), text)
    for number, line in enumerate(others.split("\n"), 1):
        if not re.match(r"[\s\ufeff]*(?:#|$)", line):
            raise DocumentError(
                f"line {number} is neither a comment nor a keyword of gettext with whole strings; "
                "is it another format?"
            )
    if "msgid" not in text:
        raise DocumentError("the file has no msgid; is it another format?")
    entries: list[list[re.Match[str]]] = []
    for field in _FIELD.finditer(text):
        last = entries[-1][-1] if entries else field
        is_new = last is field or (last["keyword"] == "msgstr" != field["keyword"])
        if is_new or text[last.end() : field.start()].strip():
            entries.append([])
        entries[-1].append(field)
    line_end = "\r\n" if "\r\n" in text else "\n"
    parts: list[str | Passage] = [mark]
    end = 0
    for entry in entries:
        comments, end = text[end : entry[0].start()], entry[-1].end()
        parts += _entry_parts(comments, entry, keeps_fuzzy, line_end)
    parts.append(text[end:])
    return PassageDocument(
        parts, (_LANGUAGE,), encoding=encoding, in_utf8=_in_utf8, has_underscores=True
    )


def _entry_parts(
    comments: str, entry: Sequence[re.Match[str]], keeps_fuzzy: bool, line_end: str
) -> Iterator[str | Passage]:
    """Yields the parts of an entry, with passages if its translations are empty or fuzzy."""
    # Babel's `denormalize` would cut at U+2028.
    values = ["".join(map(unescape, _STRINGS.findall(field["strings"]))) for field in entry]
    keywords = [field["keyword"] for field in entry]
    sources = dict(zip(keywords, values, strict=True))
    singular = sources.get("msgid", "")
    plural = sources.get("msgid_plural", singular)
    own = max(comments.rfind("\n\n"), comments.rfind("\n\r\n"), 0)  # after those of removed entries
    is_fuzzy = has_letters(singular) and _FUZZY.search(comments, own) is not None
    is_open = is_fuzzy or not any(
        values[keywords.index("msgstr") :] if "msgstr" in keywords else ()
    )
    yield comments[:own]
    yield _LOST.sub(r"\1", comments[own:]) if is_fuzzy and not keeps_fuzzy else comments[own:]
    text, end = entry[0].string, entry[0].start()
    for field in entry:
        # If a language has only one form, the form is the translation of the plural.
        is_singular = not int(field["number"] or 0) and keywords.count("msgstr") > 1
        source = singular if is_singular else plural
        if field["keyword"] == "msgstr" and is_open and has_letters(source):
            yield text[end : field.start("strings")]
            write = partial(_quoted, line_end=line_end)
            yield passage_of(write(source), source, write)
        else:
            yield text[end : field.end()]
        end = field.end()


def _quoted(value: str, line_end: str) -> str:
    lines = value.splitlines(keepends=True) or [""]
    return line_end.join(map(escape, ["", *lines] if len(lines) > 1 else lines))


def _in_utf8(written: str) -> str:
    return re.sub(_CHARSET.pattern.decode(), "charset=UTF-8", written, count=1)
