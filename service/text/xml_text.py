"""Reads XML as a text to translate, and keeps its tags exactly as they are written.

An XML text is a document, or a fragment such as `Press <b>Continue</b>`. An element is inside a
sentence if its parent has words of its own, as `<b>` in `<p>a <b>word</b></p>`. The elements inside
it are inside the sentence too. The tags of all other elements end a sentence, and so do line
breaks, such as `<br/>`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html.entities import html5
from itertools import groupby
from xml.parsers import expat

from service.errors import InvalidRequestError
from service.text.markup import Kind, Token

# The start of a document, which a fragment does not have, and the characters in front of it. XML
# allows nothing before `<?xml`, but many texts have white space there.
_DOCUMENT = re.compile(
    r"(\ufeff?\s*+)(?:<\?xml\s|(?:(?:<!--.*?-->|<\?.*?\?>)\s*+)*+<!DOCTYPE\s)", re.DOTALL
)

# A standalone document must declare its entities. The replacement has the same length.
_STANDALONE = re.compile(rb"\A(<\?xml\s[^>]*?\sstandalone\s*=\s*['\"])yes(['\"])")

_UNDEFINED = expat.errors.codes[expat.errors.XML_ERROR_UNDEFINED_ENTITY]

# Tags that turn a fragment into a document. The fragment begins in a new line, at column 0.
_BEFORE, _AFTER = b"<regard-fragment>\n", b"</regard-fragment>"


_LINE_BREAKS = frozenset(("br", "lb", "line-break"))


@dataclass(frozen=True, slots=True)
class XmlRules:
    """The meaning of tags in XML texts."""

    ignored: frozenset[str] = frozenset()  # elements that stay as they are
    splitting: frozenset[str] = frozenset()  # elements whose tags end a sentence
    non_splitting: frozenset[str] = frozenset()  # elements whose tags do not end a sentence
    detects_outline: bool = True  # if false, the tags of no other element end a sentence

    def is_inside(self, name: str, is_beside_words: bool) -> bool:
        """Returns whether an element is inside a sentence.

        `is_beside_words` says whether its parent has words of its own, or is inside a sentence.
        """
        if name in self.splitting or name in self.non_splitting:
            return name not in self.splitting
        if self.detects_outline and name.rpartition(":")[2] in _LINE_BREAKS:
            return False
        return is_beside_words or not self.detects_outline


@dataclass(slots=True)
class _Part:
    kind: Kind | None  # None for the bounds of CDATA and for the end of the root element
    start: int  # index of the first byte
    words: str = ""  # characters of a text, with decoded entities

    # Of a start tag:
    name: str = ""  # with its prefix
    has_words: bool = False  # of its own, and not only in its child elements
    last: int = 0  # index of the part that is the end tag


class _Reader:
    """Collects the parts of the root element while expat reads the document."""

    def __init__(self, line_end: str) -> None:
        self._line_end = line_end  # expat replaces CRLF by LF
        self.parts: list[_Part] = []
        self._opened: list[_Part] = []  # the start tags of the elements around
        self._declared: set[str] = set()  # entities of the DTD
        self._has_other_dtd = False  # which the parser does not read
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.CommentHandler = lambda _: self._add(Kind.EMPTY)
        parser.ProcessingInstructionHandler = lambda *_: self._add(Kind.EMPTY)
        parser.StartCdataSectionHandler = lambda: self._add(None)
        parser.EndCdataSectionHandler = lambda: self._add(None)
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = lambda name, *_: self._declared.add(name)
        # With these handlers, entities that a DTD declares are not replaced by their texts.
        parser.DefaultHandler = lambda _: None
        parser.SkippedEntityHandler = self._entity
        # Without this call, an undeclared entity such as `&nbsp;` is an error.
        parser.UseForeignDTD(True)

    def read(self, source: bytes) -> None:
        self._parser.Parse(_STANDALONE.sub(rb"\1no\2 ", source), True)
        end = self.parts[-1].start
        if source.startswith(b"</", end):  # For a root such as `<a/>`, `end` is already its end.
            end = source.index(b">", end) + 1
        self.parts.append(_Part(None, end))

    def _add(self, kind: Kind | None, words: str = "") -> None:
        if self._opened:
            self.parts.append(_Part(kind, self._parser.CurrentByteIndex, words))

    def _start(self, name: str, _: dict[str, str]) -> None:
        self._opened.append(_Part(Kind.OPEN, self._parser.CurrentByteIndex, name=name))
        self.parts.append(self._opened[-1])

    def _end(self, _: str) -> None:
        self._opened[-1].last = len(self.parts)
        self._add(Kind.CLOSE)
        self._opened.pop()

    def _doctype(self, _name: str, system: str | None, _public: str | None, _: bool) -> None:
        self._has_other_dtd = system is not None

    def _entity(self, name: str, _: bool) -> None:
        if name not in self._declared and (words := html5.get(f"{name};")):
            self._characters(words)
        elif name in self._declared or self._has_other_dtd:
            self._add(Kind.OPAQUE)
        else:
            error = expat.ExpatError()
            error.code = _UNDEFINED
            error.lineno = self._parser.CurrentLineNumber
            error.offset = self._parser.CurrentColumnNumber
            raise error

    def _characters(self, words: str) -> None:
        self._add(Kind.TEXT, words.replace("\n", self._line_end))
        self._opened[-1].has_words |= not words.isspace()


def read_xml(text: str, rules: XmlRules) -> list[Token]:
    """Returns the tokens of an XML document or fragment."""
    document = _DOCUMENT.match(text)
    start = document[1] if document else ""
    encoded = text.removeprefix(start).encode(errors="replace")
    source = encoded if document else _BEFORE + encoded + _AFTER
    has_crlf = 0 < text.count("\r\n") == text.count("\n")
    reader = _Reader("\r\n" if has_crlf else "\n")
    try:
        reader.read(source)
    except expat.ExpatError as error:
        line = error.lineno + start.count("\n") if document else error.lineno - 1
        raise InvalidRequestError(
            "Tag handling parsing failed, please check input.",
            details=f"{expat.ErrorString(error.code)}: line {line}, column {error.offset}",
        ) from None
    tokens = list(_tokens(source, reader.parts, rules))
    if not document:
        return _joined(tokens[2:-1])  # without the added tags and line break
    before = Token(Kind.BLOCK, start + source[: reader.parts[0].start].decode())
    after = Token(Kind.BLOCK, source[reader.parts[-1].start :].decode())
    return _joined([before, *tokens, after])


def _tokens(source: bytes, parts: list[_Part], rules: XmlRules) -> Iterator[Token]:
    beside_words = [False]
    insides: list[bool] = []
    index = 0
    while index < len(parts) - 1:
        part = parts[index]
        last = index
        kind = part.kind
        if kind is Kind.OPEN:
            is_inside = rules.is_inside(part.name, beside_words[-1])
            is_ignored = part.name in rules.ignored
            if is_ignored or part.last == index + 1:
                last = part.last
                kind = Kind.OPAQUE if is_ignored else Kind.EMPTY
            else:
                insides.append(is_inside)
                beside_words.append(part.has_words or (is_inside and beside_words[-1]))
            kind = kind if is_inside else Kind.BLOCK
        elif kind is Kind.CLOSE:
            beside_words.pop()
            kind = Kind.CLOSE if insides.pop() else Kind.BLOCK
        if kind is Kind.TEXT:
            yield Token(kind, part.words)
        elif kind is not None:
            yield Token(kind, source[part.start : parts[last + 1].start].decode())
        index = last + 1


def _joined(tokens: Iterable[Token]) -> list[Token]:
    """Removes empty tokens, and joins neighbouring texts, because expat cuts long texts."""
    joined: list[Token] = []
    for kind, group in groupby(tokens, lambda token: token.kind):
        sources = [token.source for token in group if token.source]
        if kind is Kind.TEXT and sources:
            sources = ["".join(sources)]
        joined += [Token(kind, source) for source in sources]
    return joined


def plain_text(text: str, rules: XmlRules) -> str:
    """Returns the words of an XML text, without tags and ignored elements."""
    tokens = read_xml(text, rules)
    return " ".join(token.source for token in tokens if token.kind is Kind.TEXT)
