"""Reads HTML as a text to translate, with its tags as protected spans.

lxml parses the HTML and repairs it, so malformed HTML is translated too. The text of each block,
such as a paragraph or a list item, is translated as a whole; inline tags are markers in it. Some
elements stay as they are: `code`, `script` and the like, and elements with `translate="no"`.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import Any

from lxml import etree, html

from service.errors import InvalidRequestError
from service.text.protection import MARKER, MAX_SPANS, Marking, ProtectedText

BREAK = "\x1e"
"""Line break around the tags of blocks; HTML has no such character."""

INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins label mark math meter nobr "
    "output progress q ruby s samp small span strike strong sub sup svg time tt u var wbr".split()
)
"""Elements inside a sentence. All other elements end a sentence."""

OPAQUE = frozenset(
    "code kbd samp var math svg script style textarea pre noscript template object iframe".split()
)
"""Elements whose content is not translated."""

VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""Elements without an end tag."""

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_DOCUMENT = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_LINE_BREAKS = re.compile(r"[ \t]*[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+[ \t]*")


class Kind(Enum):
    """The kind of a token."""

    TEXT = "text"
    INLINE = "inline"
    BLOCK = "block"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class Token:
    """A part of an HTML text: characters without entities, a tag, or an element left as it is."""

    kind: Kind
    source: str


def read_html(text: str) -> list[Token]:
    """Returns the tokens of an HTML document or fragment; joined, they are well-formed HTML.

    Control characters, which HTML does not allow, are left out. A text that the parser refuses is
    one opaque token.

    Raises:
        InvalidRequestError: The tags are nested too deeply; the parser would lose text.
    """
    text = _CONTROLS.sub("", text)
    parser = html.HTMLParser(huge_tree=True)  # otherwise text below 256 levels would be lost
    try:
        if _DOCUMENT.match(text):
            root = html.document_fromstring(text, parser=parser)
            doctype = root.getroottree().docinfo.doctype
            start = [Token(Kind.BLOCK, f"{doctype}\n")] if doctype else []
            tokens = [*start, *_tokens(root)]
        else:
            root = html.fragment_fromstring(text, create_parent="div", parser=parser)
            tokens = list(_tokens(root))[1:-1]
    except (etree.ParserError, etree.XMLSyntaxError):
        return [Token(Kind.OPAQUE, text)]
    if parser.error_log.filter_from_fatals():
        raise InvalidRequestError(
            "Invalid request: tags are nested more than 2,000 levels deep; send the text in parts"
        )
    return [token for token in tokens if token.source]


def _tokens(root: Any) -> Iterator[Token]:
    """Yields the tokens of an element and of all elements in it."""
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        name = element.tag
        if event == "start" and _is_opaque(element):
            yield Token(_opaque_kind(name), _source(element))
            walk.skip_subtree()
        elif event == "start":
            attributes = "".join(f' {key}="{escape(value)}"' for key, value in element.items())
            yield Token(_kind(name), f"<{name}{attributes}>")
            yield Token(Kind.TEXT, element.text or "")
        else:
            if event != "end":
                yield Token(Kind.BLOCK, _source(element))
            elif not _is_opaque(element) and name not in VOID:
                yield Token(_kind(name), f"</{name}>")
            if element is not root:
                yield Token(Kind.TEXT, element.tail or "")


def _is_opaque(element: Any) -> bool:
    return element.tag in OPAQUE or element.get("translate") == "no"


def _kind(name: str) -> Kind:
    return Kind.INLINE if name in INLINE else Kind.BLOCK


def _opaque_kind(name: str) -> Kind:
    is_inside = name in INLINE or name in OPAQUE - {"script", "style"}
    return Kind.OPAQUE if is_inside else Kind.BLOCK


def _source(element: Any) -> str:
    source: str = etree.tostring(element, method="html", encoding="unicode", with_tail=False)
    return source


def plain_text(text: str) -> str:
    """Returns the words of an HTML text, without tags and entities."""
    return " ".join(token.source for token in read_html(text) if token.kind is Kind.TEXT)


class HtmlText(ProtectedText):
    """An HTML text whose tags and protected spans are replaced by markers."""

    def restore(self, text: str) -> str:
        """Returns the HTML of a text with markers."""
        parts = re.split(f"({MARKER.pattern})", text.replace(BREAK, ""))
        return "".join(
            self.span(part) if MARKER.match(part) else escape(part, quote=False) for part in parts
        )

    def may_move(self, marker: str) -> bool:
        """Returns whether a span may move from the end of a sentence to the separator."""
        return marker in self.ordered or super().may_move(marker)


def protect_html(text: str, unknown: Collection[str]) -> HtmlText:
    """Replaces the tags and the protected spans of an HTML text by markers.

    Args:
        text: An HTML document or fragment.
        unknown: The characters of the text that the vocabulary does not have.

    Raises:
        InvalidRequestError: The text has too many tags, or they are nested too deeply.
    """
    marking = Marking(unknown)
    parts: list[str] = []
    ordered: set[str] = set()
    tokens = read_html(text)
    left = sum(token.kind is not Kind.TEXT for token in tokens)
    if left > MAX_SPANS:
        raise InvalidRequestError(
            f"Invalid request: a text has {left} tags; the limit is {MAX_SPANS}. Send it in parts"
        )
    for index, token in enumerate(tokens):
        if token.kind is Kind.TEXT:
            first = len(marking.spans)
            marking.limit = MAX_SPANS - left  # so that there is a marker for each tag
            parts.append(marking.protect(_in_one_line(token.source, tokens, index)))
            marking.spans[first:] = [escape(span, quote=False) for span in marking.spans[first:]]
            continue
        left -= 1
        marker = marking.mark(token.source)
        is_block = token.kind is Kind.BLOCK
        parts.append(f"{BREAK}{marker}{BREAK}" if is_block else marker)
        if token.kind is Kind.INLINE:
            ordered.add(marker)
    return HtmlText("".join(parts), tuple(marking.spans), frozenset(ordered))


def _in_one_line(text: str, tokens: Sequence[Token], index: int) -> str:
    """Returns a text with a space for its line breaks, which end no sentence in HTML.

    White space next to the tag of a block stays as it is.
    """
    if text.isspace():
        around = tokens[max(0, index - 1) : index + 2]
        is_edge = len(around) < 3 or any(token.kind is Kind.BLOCK for token in around)
        return text if is_edge else _LINE_BREAKS.sub(" ", text)
    stripped = text.strip()
    start = text.index(stripped)
    inner = _LINE_BREAKS.sub(" ", stripped)
    before, after = text[:start], text[start + len(stripped) :]
    if index and tokens[index - 1].kind is not Kind.BLOCK:
        before = _LINE_BREAKS.sub(" ", before)
    if index + 1 < len(tokens) and tokens[index + 1].kind is not Kind.BLOCK:
        after = _LINE_BREAKS.sub(" ", after)
    return before + inner + after
