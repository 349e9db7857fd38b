"""JSON files of user interfaces (.json): string values are translated, and keys are kept."""

import json
import re
from collections.abc import Iterator

from service.documents.base import DocumentError, decode, split_margins
from service.documents.plain.passages import Passage, PassageDocument
from service.text.letters import has_letters

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_KEY = re.compile(r"\s*:")
_NO_TEXT = re.compile(r"(?:[a-z][a-z0-9+.-]*://|mailto:|data:)\S*|#[0-9a-fA-F]{3,8}")
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character, as in `"\\ud83d"`; no model reads it."""


def read_json(data: bytes) -> PassageDocument:
    """Reads a JSON file; its layout, keys, numbers, URLs and colour codes are kept.

    Raises:
        DocumentError: The file is not UTF-8, is not JSON, or is nested too deep.
    """
    text = decode(data, marks=",[{").removeprefix("\ufeff")
    try:
        json.loads(text, parse_int=str)  # int() refuses numbers of more than 4,300 digits
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"the file is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise DocumentError("the lists and objects of the file are nested too deep") from None
    mark = "\ufeff" if data.startswith(b"\xef\xbb\xbf") else ""
    return PassageDocument([mark, *_parts(text)])


def _parts(text: str) -> Iterator[str | Passage]:
    """Yields the parts of valid JSON: kept text, and passages to translate.

    A regular expression can find the JSON strings, because valid JSON has quotation marks only
    around and inside its strings.
    """
    begin = 0
    for match in _STRING.finditer(text):
        if _KEY.match(text, match.end()):
            continue
        value = json.loads(match[0], strict=False)
        is_kept = _NO_TEXT.fullmatch(value.strip()) or _SURROGATE.search(value)
        if is_kept or not has_letters(value):
            continue
        yield text[begin : match.start()]
        yield _passage(match[0], value)
        begin = match.end()
    yield text[begin:]


def _passage(source: str, value: str) -> Passage:
    before, core, after = split_margins(value)
    is_ascii = "\\u" in source and source.isascii()

    def place(translation: str) -> str:
        if translation == core:
            return source
        return json.dumps(before + translation + after, ensure_ascii=is_ascii)

    return Passage(core, place)
