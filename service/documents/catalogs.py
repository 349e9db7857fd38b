"""Catalogues of messages with keys: JSON, ARB, Java properties, Apple strings, YAML.

The values are translated that are prose. Keys, comments, layout and the other values are kept.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import yaml

from service.documents.base import DocumentError, Passage, PassageDocument
from service.documents.code_values import is_prose
from service.documents.encodings import decode
from service.text.letters import split_margins
from service.text.messages import without_syntax

_QUOTED = r'"(?:[^"\\]++|\\.)*+"'
_JSON = re.compile(rf"(?P<key>{_QUOTED})\s*+:|(?P<value>{_QUOTED})|[{{}}]", re.DOTALL)
_STRINGS = re.compile(
    r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|//[^\r\n]*"
    rf"|(?P<key>{_QUOTED}|[\w.-]++)\s*+=\s*+(?P<value>{_QUOTED})",
    re.DOTALL,
)
_PROPERTIES = re.compile(
    r"^[ \t\f]*+(?:[#!][^\r\n]*|(?P<key>(?:\\.|[^\s=:\\])++)[ \t\f]*+[=:]?[ \t\f]*+"
    r"(?P<value>(?:\\(?:\r\n|[\s\S])|[^\\\r\n])*+))",
    re.MULTILINE,
)
_ESCAPE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|(?:\r\n|[\r\n])[ \t\f]*|([\s\S]))")
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}

# A pattern of Java's MessageFormat, in which each apostrophe is written twice.
_PATTERN_OF_JAVA = re.compile(r"(?=.*\{\d+[,}])(?:[^']|'')*+", re.DOTALL)

_ANCHOR = re.compile(r"(?:&\S+\s+)?")

# The language of a catalogue of Flutter, and of one of Rails, which is its first key.
_LOCALE = re.compile(r'("@@locale"\s*:\s*")[^"]*')
_ROOT = re.compile(
    r"(\A(?:\s*(?:#.*|---)?$\s)*[\"']?)[a-z]{2,3}(?:[-_]\w{2,4})?(?=[\"']?:\s)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Syntax:
    pattern: re.Pattern[str]  # its groups are the key and the value
    read: Callable[[str], str]
    write: Callable[[bool, str], str]  # whether only ASCII may be used, and the value


def read_escapes(source: str) -> str:
    def character(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else _NAMED.get(found[2], found[2] or "")

    found = _ESCAPE.sub(character, source)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _quoted(is_ascii: bool, value: str) -> str:
    return json.dumps(value, ensure_ascii=is_ascii)


def _property(is_ascii: bool, value: str, doubles: bool = False) -> str:
    value = value.replace("'", "''") if doubles else value
    written = _quoted(is_ascii, value)[1:-1].replace('\\"', '"')
    return "\\" * written.startswith(" ") + written


_OF_JSON = Syntax(_JSON, lambda source: json.loads(source, strict=False), _quoted)
OF_STRINGS = Syntax(_STRINGS, lambda source: read_escapes(source[1:-1]), _quoted)
OF_PROPERTIES = Syntax(_PROPERTIES, read_escapes, _property)


def read_json(data: bytes, is_arb: bool = False) -> PassageDocument:
    """Reads a JSON file. In a catalogue of Flutter, keys with `@` have metadata, which is kept."""
    mark, text, encoding = decode(data, ",[{")
    try:
        json.loads(text, parse_int=str)  # int() refuses numbers of more than 4,300 digits
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"the file is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise DocumentError("the lists and objects of the file are nested too deep") from None
    parts = [mark, *_parts(text, _OF_JSON, is_arb)]
    languages = (_LOCALE,) if is_arb else ()
    return PassageDocument(parts, languages, encoding=encoding, has_underscores=True)


def read_pairs(data: bytes, syntax: Syntax) -> PassageDocument:
    mark, text, encoding = decode(data, "=")
    if not any(found["key"] for found in syntax.pattern.finditer(text)):
        raise DocumentError("the file has no keys with values; is it another format?")
    return PassageDocument([mark, *_parts(text, syntax)], encoding=encoding)


def _parts(text: str, syntax: Syntax, is_arb: bool = False) -> Iterator[str | Passage]:
    begin = depth = 0
    key = ""
    is_ascii = syntax is OF_PROPERTIES and text.isascii()
    doubles = syntax is OF_PROPERTIES and "''" in text
    for found in syntax.pattern.finditer(text):
        if found.lastgroup is None:
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            continue
        key, source = (found["key"] or key).strip('"'), found["value"]
        if source is None or (is_arb and (depth > 1 or key.startswith("@"))):
            continue
        value = syntax.read(source)
        if is_prose(value, key):
            yield text[begin : found.start("value")]
            in_ascii = is_ascii or (source.isascii() and "\\u" in source)
            write = partial(syntax.write, in_ascii)
            if doubles and _PATTERN_OF_JAVA.fullmatch(value) and without_syntax(value) == value:
                value, write = value.replace("''", "'"), partial(_property, in_ascii, doubles=True)
            yield passage_of(source, value, write)
            begin = found.end("value")
    yield text[begin:]


def passage_of(source: str, value: str, write: Callable[[str], str]) -> Passage:
    before, core, after = split_margins(value)

    def place(translation: str) -> str:
        return source if translation == core else write(before + translation + after)

    return Passage(core, place)


def read_yaml(data: bytes) -> PassageDocument:
    """Reads a YAML file, such as a catalogue of Rails, whose first key is a language."""
    mark, text, encoding = decode(data, ":-")
    try:
        parts = [mark, *_yaml_parts(text)]
    except yaml.YAMLError as error:
        raise DocumentError(f"the file is not YAML: {' '.join(str(error).split())}") from None
    return PassageDocument(parts, (_ROOT,), encoding=encoding)


def _yaml_parts(text: str) -> Iterator[str | Passage]:
    begin = 0
    key = ""
    is_key: list[bool | None] = []  # for each open collection; None in a sequence
    events: Any = yaml.parse(text, Loader=yaml.CSafeLoader)
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            is_key.pop()
            continue
        starts_key = bool(is_key and is_key[-1])
        if is_key and is_key[-1] is not None:
            is_key[-1] = not starts_key
        if isinstance(event, yaml.CollectionStartEvent):
            is_key.append(True if isinstance(event, yaml.MappingStartEvent) else None)
        elif isinstance(event, yaml.ScalarEvent):
            if starts_key:
                key = event.value
            elif _is_string(event) and is_prose(event.value, key):
                assert event.start_mark
                assert event.end_mark
                anchor = _ANCHOR.match(text, event.start_mark.index)
                start, end = anchor.end() if anchor else 0, event.end_mark.index
                source, style = text[start:end], event.style or ""
                yield text[begin:start]
                yield passage_of(source, event.value, partial(_scalar, source=source, style=style))
                begin = end
    yield text[begin:]


def _is_string(event: yaml.ScalarEvent) -> bool:
    kind = _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)
    return not event.tag and kind == "tag:yaml.org,2002:str"


def _scalar(value: str, source: str, style: str) -> str:
    """Returns a value as YAML, in the style of its source if this is possible."""
    if style in ("|", ">"):
        head, *lines = source.splitlines(keepends=True)
        indent = next(line[: len(line) - len(line.lstrip(" "))] for line in lines if line.strip())
        end = source[len(source.rstrip()) :]
        words = [indent + line if line else "" for line in value.strip().split("\n")]
        if len(words) > 1:
            head = head.replace(">", "|", 1)  # keeps the line breaks
        return head + "\n".join(words) + end
    if style == "'" and "\n" not in value:
        return "'" + value.replace("'", "''") + "'"
    with suppress(yaml.YAMLError):
        if not style and yaml.load(f"[k: {value}]", yaml.CSafeLoader) == [{"k": value}]:
            return value
    return json.dumps(value, ensure_ascii=False)


_RESOLVER: Any = yaml.resolver.Resolver()
