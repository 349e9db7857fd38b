"""HTML (.html) and the XHTML of e-books: text is translated, and every other byte is kept.

The tokenizer of the standard library reads HTML, because it accepts every page. A tree of `lxml` or
`html5lib` would be written with other quotes, other entities and added elements.
"""

import html
import re
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import groupby

from service.documents.base import decode, has_words, split_margins
from service.documents.markup.inline import Block, Element
from service.documents.markup.xml import BlockReader, local_name
from service.documents.plain.passages import Passage, PassageDocument

VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
KEPT = frozenset("script style code pre kbd samp var math svg textarea iframe template".split())
"""Elements whose content is not translated."""

BLOCKS = frozenset(
    "address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption "
    "figure footer form h1 h2 h3 h4 h5 h6 head header hr html legend li main nav ol optgroup "
    "option p section summary table tbody td tfoot th thead title tr ul".split()
)
_CLOSED_BY_THE_NEXT = frozenset("p li td th tr dt dd option".split())
_ROOT_LANGUAGE = re.compile(r"(<html\b[^<>]*?\slang=)([\"']?)[\w-]*\2(?=[\s>/])", re.IGNORECASE)
_LINE_START = re.compile(r"\n|$")


def read_html(data: bytes) -> PassageDocument:
    """Reads a page or a fragment of a page; broken nesting is accepted.

    Raises:
        DocumentError: The file is not UTF-8.
    """
    tokenizer = _Tokenizer(decode(data))
    return PassageDocument(tokenizer.parts(), _set_language)


def read_xhtml(root: Element) -> list[Block]:
    """Returns the blocks of a well-formed page."""
    return BlockReader(
        is_block=lambda element: local_name(element) in BLOCKS,
        is_kept=lambda element: _is_kept(local_name(element), dict(element.attrib)),
    ).read(root)


def _is_kept(tag: str, attributes: dict[str, str | None]) -> bool:
    classes = (attributes.get("class") or "").split()
    return tag in KEPT or attributes.get("translate") == "no" or "notranslate" in classes


class _Tokenizer(HTMLParser):
    """Cuts a page into kept pieces and texts.

    Args:
        page: Content of the file.
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.page = page
        self.line_starts = [0, *(match.end() for match in _LINE_START.finditer(page))]
        self.open: list[tuple[str, bool]] = []  # tag, and whether its content is kept
        self.num_open: Counter[str] = Counter()
        self.pieces: list[tuple[int, bool]] = []

    def parts(self) -> list[str | Passage]:
        """Returns the kept strings and the passages of the page."""
        end = self.page.rfind(">") + 1  # An unclosed tag after it would take quadratic time.
        self.feed(self.page[:end])
        self.close()
        if end < len(self.page):
            self.pieces.append((end, "<" not in self.page[end:] and not self._is_inside_kept))
        starts = [(0, False)]
        for is_text, pieces in groupby(self.pieces, key=lambda piece: piece[1]):
            starts.append((next(pieces)[0], is_text))
        ends = [start for start, _ in starts[1:]] + [len(self.page)]
        parts: list[str | Passage] = []
        for (start, is_text), end in zip(starts, ends, strict=True):
            parts += _parts(self.page[start:end], is_text)
        return parts

    def _begin(self, is_text: bool) -> None:
        line, column = self.getpos()
        start = self.line_starts[line - 1] + column
        self.pieces.append((start, is_text and not self._is_inside_kept))

    @property
    def _is_inside_kept(self) -> bool:
        return bool(self.open) and self.open[-1][1]

    def _pop(self) -> str:
        tag, _ = self.open.pop()
        self.num_open[tag] -= 1
        return tag

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begins a kept piece, and adds the element to the open elements."""
        self._begin(is_text=False)
        if tag in VOID:
            return
        if tag in _CLOSED_BY_THE_NEXT and self.open and self.open[-1][0] == tag:
            self._pop()
        self.open.append((tag, self._is_inside_kept or _is_kept(tag, dict(attrs))))
        self.num_open[tag] += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps an element without content."""
        self._begin(is_text=False)

    def handle_endtag(self, tag: str) -> None:
        """Begins a kept piece, and closes the element and all open elements inside it."""
        self._begin(is_text=False)
        while self.num_open[tag] and self._pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Begins a text."""
        self._begin(is_text=True)

    def handle_entityref(self, name: str) -> None:
        """Begins a text."""
        self._begin(is_text=True)

    def handle_charref(self, name: str) -> None:
        """Begins a text."""
        self._begin(is_text=True)

    def handle_comment(self, data: str) -> None:
        """Keeps a comment."""
        self._begin(is_text=False)

    def handle_decl(self, decl: str) -> None:
        """Keeps a declaration."""
        self._begin(is_text=False)

    def handle_pi(self, data: str) -> None:
        """Keeps a processing instruction."""
        self._begin(is_text=False)

    def unknown_decl(self, data: str) -> None:
        """Keeps an unknown declaration."""
        self._begin(is_text=False)


def _parts(source: str, is_text: bool) -> Sequence[str | Passage]:
    """Returns the parts of a piece: a passage and the white space around it, or a kept string."""
    value = html.unescape(source)
    if not is_text or not has_words(value):
        return [source]
    before, core, after = split_margins(source)
    text = " ".join(html.unescape(core).split())

    def place(translation: str) -> str:
        return core if translation == text else html.escape(translation, quote=False)

    return [before, Passage(text, place), after]


def _set_language(written: str, language: str) -> str:
    """Returns a page with the language in its root element, if the element has the attribute."""
    return _ROOT_LANGUAGE.sub(
        lambda match: f"{match[1]}{match[2]}{language}{match[2]}", written, count=1
    )
