"""Reads HTML as a text to translate. The tags become protected spans, which no model changes.

lxml parses the HTML and repairs it, so malformed HTML is translated too. The tags of blocks, such
as paragraphs and list items, end a sentence. Inline tags do not end a sentence. In the text to
translate, a marker (one private-use character) stands for each tag and each other protected span.
Opaque elements stay as they are: the elements in OPAQUE, and all elements with `translate="no"` or
the class `notranslate`.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from html import escape
from typing import Any

from lxml import etree, html

from service.errors import InvalidRequestError
from service.text.html.elements import (
    INLINE,
    OPAQUE,
    VOID,
    check_attributes,
    is_untranslated,
    new_parser,
    parse_fragment,
    without_controls,
)
from service.text.markup import Kind, MarkupText, Token, protect_markup

_DOCUMENT = re.compile(
    r"\s*+(?:(?><\?xml[^>]*>|<!--.*?-->)\s*+)*+<(?:!doctype|(?:html|head|body)\b)",
    re.IGNORECASE | re.DOTALL,
)
_MARK = "\ufeff"
"""Byte order mark. `_DOCUMENT` does not match a text that begins with this mark. If the mark
were not removed first, such a document would be parsed as a fragment."""

_LAST_TAGS = re.compile(
    r"<!--|<(?P<raw>script|style|textarea)\b|</(?:body|html)\s*>", re.IGNORECASE
)
_ENDS = {
    name: re.compile(rf"</{name}\b", re.IGNORECASE) for name in ("script", "style", "textarea")
}


def read_html(text: str) -> list[Token]:
    """Returns the tags and texts of an HTML document or fragment as tokens.

    Missing end tags are added, and the entities in texts are decoded. Control characters, which
    HTML does not allow, are left out. A text that the parser refuses is one opaque token.

    Raises:
        InvalidRequestError: The tags are nested so deeply that the parser would lose text, or a
            tag has very many attributes.
    """
    text = without_controls(text)
    mark = _MARK if text.startswith(_MARK) else ""
    text = _with_late_ends(text.removeprefix(_MARK))
    check_attributes(text)
    parser = new_parser()
    try:
        if _DOCUMENT.match(text):
            root = html.document_fromstring(text, parser=parser)
            doctype = root.getroottree().docinfo.doctype
            start = [Token(Kind.BLOCK, f"{mark}{doctype}\n")] if mark or doctype else []
            before, after = root.itersiblings(preceding=True), root.itersiblings()
            tokens = [*start, *_comments(reversed([*before])), *_tokens(root), *_comments(after)]
        else:
            tokens = list(_tokens(parse_fragment(mark + text, parser)))[1:-1]
    except (etree.ParserError, etree.XMLSyntaxError):
        return [Token(Kind.OPAQUE, mark + text)]
    if parser.error_log.filter_from_fatals():
        raise InvalidRequestError(
            "Invalid request: tags are nested more than 2,000 levels deep; send the text in parts"
        )
    return [token for token in tokens if token.source]


def _with_late_ends(text: str) -> str:
    """Returns a text without `</body>` and `</html>` if other text follows one of them.

    The parser would lose the text that follows. At the end of the document, the parser itself
    adds these end tags.
    """
    parts: list[str] = []
    begin = at = 0
    while found := _LAST_TAGS.search(text, at):
        at = found.end()
        if found[0] == "<!--":
            end = text.find("-->", at)
            at = end if end >= 0 else len(text)
        elif found["raw"]:
            end_tag = _ENDS[found["raw"].lower()].search(text, at)
            at = end_tag.start() if end_tag else len(text)
        else:
            parts.append(text[begin : found.start()])
            begin = at
    is_last = not "".join([*parts[1:], text[begin:]]).strip()
    return text if is_last else "".join([*parts, text[begin:]])


def _comments(siblings: Iterable[Any]) -> Iterator[Token]:
    """Yields the comments beside the root of a document."""
    for each in siblings:
        if each.tag is etree.Comment:
            yield Token(Kind.BLOCK, _source(each))


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
            yield Token(_kind(name, Kind.OPEN), f"<{name}{attributes}>")
            yield Token(Kind.TEXT, element.text or "")
        else:
            if event != "end":
                yield Token(Kind.EMPTY, _source(element))
            elif not _is_opaque(element) and name not in VOID:
                yield Token(_kind(name, Kind.CLOSE), f"</{name}>")
            if element is not root:
                yield Token(Kind.TEXT, element.tail or "")


def _is_opaque(element: Any) -> bool:
    return element.tag in OPAQUE or is_untranslated(element.attrib)


def _kind(name: str, inline: Kind) -> Kind:
    if name not in INLINE:
        return Kind.BLOCK
    return Kind.EMPTY if name in VOID else inline


def _opaque_kind(name: str) -> Kind:
    is_inside = name in INLINE or name in OPAQUE - {"script", "style"}
    return Kind.OPAQUE if is_inside else Kind.BLOCK


def _source(element: Any) -> str:
    source: str = etree.tostring(element, method="html", encoding="unicode", with_tail=False)
    return source


def plain_text(text: str) -> str:
    """Returns the words of an HTML text, without tags and opaque elements; decodes entities.

    Raises:
        InvalidRequestError: The tags are nested too deeply.
    """
    parts = (
        token.source if token.kind is Kind.TEXT else " "
        for token in read_html(text)
        if token.kind in (Kind.TEXT, Kind.BLOCK)
    )
    return "".join(parts)


def protect_html(text: str, unknown: Collection[str]) -> MarkupText:
    """Puts a marker in place of each tag and each protected span of an HTML text.

    Args:
        text: An HTML document or fragment.
        unknown: The characters of the text that the model's vocabulary does not have.

    Raises:
        InvalidRequestError: The text has too many tags, or they are nested too deeply.
    """
    return protect_markup(read_html(text), unknown)
