"""Reads HTML (.html) documents, and finds the roles of XHTML elements in e-books.

The text of a page is translated. All other characters are kept, except for the value of a `lang`
attribute in the root element, which becomes the target language.

The tokenizer of the standard library reads the page, because this tokenizer accepts every page.
`lxml` and `html5lib` would write the page with other quotes, other entities and added elements.
"""

import re
from collections import Counter
from html.parser import HTMLParser
from itertools import groupby

from service.documents.base import decode
from service.documents.markup.inline import Element, Role
from service.documents.markup.xml import local_name
from service.documents.plain.html_passages import Kind, Token, passages
from service.documents.plain.passages import Passage, PassageDocument
from service.text.html.elements import INLINE, VOID, is_untranslated

KEPT_INSIDE = frozenset("code kbd samp var math svg".split())
"""Elements that can be part of a sentence, and whose content is not translated."""

KEPT_APART = frozenset("script style pre textarea iframe template".split())
"""Elements that end a sentence, and whose content is not translated."""

_CLOSED_BY_THE_NEXT = frozenset("p li td th tr dt dd option".split())
_ROOT_LANGUAGE = re.compile(r"(<html\b[^<>]*?\slang=)([\"']?)[\w-]*\2(?=[\s>/])", re.IGNORECASE)
_CHARSET = re.compile(r"""<meta\b[^<>]*?charset\s*=\s*["']?([^\s"'/>;]+)""", re.IGNORECASE)
CHARSET_CHARS = 1024
"""Number of characters in which a browser searches for the charset of a page."""

_EMPTY_COMMENT = re.compile(r"<!---?>")
_COMMENT_END = re.compile(r"--!?>")
_TAG_START = re.compile(r"<[a-zA-Z/!?]")
_LINE_START = re.compile(r"\n|$")


def read_html(data: bytes) -> PassageDocument:
    """Reads a page or a fragment of a page; broken nesting is accepted.

    Raises:
        DocumentError: The file is not UTF-8.
    """
    page = decode(data, marks="<")
    charset = _CHARSET.search(page, 0, CHARSET_CHARS)
    has_other_charset = charset is not None and charset[1].lower() not in ("utf-8", "utf8")
    is_ascii = has_other_charset and page.isascii()  # ASCII bytes mean the same in both charsets
    parts = _Tokenizer(page).parts()
    return PassageDocument(parts, _set_language, is_html=True, is_ascii=is_ascii)


def xhtml_role(element: Element) -> Role:
    """Returns the role of an element of a well-formed page."""
    name = local_name(element)
    if _is_kept(name, dict(element.attrib)):
        return Role.KEPT if _is_inside(name) else Role.APART_KEPT
    if name not in INLINE:
        return Role.APART
    return Role.EMPTY if name in VOID else Role.WORDS


def _is_kept(tag: str, attributes: dict[str, str | None]) -> bool:
    return is_untranslated(attributes) or tag in KEPT_INSIDE or tag in KEPT_APART


def _is_inside(tag: str) -> bool:
    """Returns whether an element can be part of a sentence."""
    return tag in INLINE or tag in KEPT_INSIDE


class _Tokenizer(HTMLParser):
    """Cuts a page into tokens.

    Args:
        page: Content of the file.
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.page = page
        self.line_starts = [0, *(match.end() for match in _LINE_START.finditer(page))]
        self.open: list[tuple[str, bool]] = []  # tag, and whether its content is kept
        self.num_open: Counter[str] = Counter()
        self.starts: list[tuple[int, Kind]] = []
        self.is_in_comment = False

    def parts(self) -> list[str | Passage]:
        """Returns the kept strings and the passages of the page."""
        end = self.page.rfind(">") + 1  # HTMLParser needs quadratic time for an unclosed tag.
        # HTMLParser fails at some `&` and `<![`. They are replaced by strings of the same length,
        # so all positions stay correct.
        self.feed(self.page[:end].replace("&", "_").replace("<![", "<!x"))
        self.close()
        if end < len(self.page):
            is_kept = self.is_in_comment or self._is_inside_kept
            is_text = not (is_kept or _TAG_START.search(self.page, end))
            self.starts.append((end, Kind.TEXT if is_text else Kind.APART))
        starts = self._joined([(0, Kind.APART), *self.starts])
        ends = [start for start, _ in starts[1:]] + [len(self.page)]
        return passages(
            Token(kind, self.page[start:end])
            for (start, kind), end in zip(starts, ends, strict=True)
        )

    def _joined(self, starts: list[tuple[int, Kind]]) -> list[tuple[int, Kind]]:
        """Joins adjacent pieces of a text to one token, and a kept element to its content."""
        joined: list[tuple[int, Kind]] = []
        for kind, pieces in groupby(starts, key=lambda piece: piece[1]):
            if kind is Kind.TEXT:
                joined.append(next(pieces))
            elif kind is not Kind.CONTENT:
                joined += pieces
        return joined

    def _begin(self, kind: Kind) -> None:
        line, column = self.getpos()
        kind = Kind.CONTENT if self._is_inside_kept else kind
        self.starts.append((self.line_starts[line - 1] + column, kind))

    @property
    def _is_inside_kept(self) -> bool:
        return bool(self.open) and self.open[-1][1]

    def _pop(self) -> str:
        tag, _ = self.open.pop()
        self.num_open[tag] -= 1
        return tag

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begins a token, and adds the element to the open elements."""
        is_inside = _is_inside(tag)
        if tag in VOID:
            self._begin(Kind.EMPTY if is_inside else Kind.APART)
            return
        is_kept = _is_kept(tag, dict(attrs))
        kind = Kind.KEPT if is_kept else Kind.OPEN
        self._begin(kind if is_inside else Kind.APART)
        if tag in _CLOSED_BY_THE_NEXT and self.open and self.open[-1][0] == tag:
            self._pop()
        self.open.append((tag, self._is_inside_kept or is_kept))
        self.num_open[tag] += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begins a token for an element without content."""
        self._begin(Kind.EMPTY if _is_inside(tag) else Kind.APART)

    def handle_endtag(self, tag: str) -> None:
        """Begins a token, and closes the element and all open elements inside it."""
        if self.open and self.open[-1][0] == tag:
            self._begin(Kind.CLOSE if _is_inside(tag) else Kind.APART)
            self._pop()
            return
        while self.num_open[tag] and self._pop() != tag:
            pass
        self._begin(Kind.APART)

    def handle_data(self, data: str) -> None:
        """Begins a text token."""
        self._begin(Kind.TEXT)

    def handle_comment(self, data: str) -> None:
        """Begins a token for a comment."""
        self._begin(Kind.EMPTY)

    def handle_decl(self, decl: str) -> None:
        """Begins a token for a declaration."""
        self._begin(Kind.APART)

    def handle_pi(self, data: str) -> None:
        """Begins a token for a processing instruction."""
        self._begin(Kind.EMPTY)

    def parse_comment(self, i: int, report: bool = True) -> int:
        """Reads a comment, which extends to the end of the page if it is not closed.

        HTMLParser would search the rest of the page at each comment that is not closed.

        Source: HTML, section 13.2.5 (tokenization), comment states.
        """
        self._begin(Kind.EMPTY)
        found = _EMPTY_COMMENT.match(self.rawdata, i) or _COMMENT_END.search(self.rawdata, i + 4)
        self.is_in_comment = found is None
        return found.end() if found else len(self.rawdata)


def _set_language(written: str, language: str) -> str:
    """Returns a page whose root element states the language.

    A page whose root element has no `lang` attribute is not changed.
    """
    return _ROOT_LANGUAGE.sub(
        lambda match: f"{match[1]}{match[2]}{language}{match[2]}", written, count=1
    )
