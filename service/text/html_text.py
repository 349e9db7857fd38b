"""Reads HTML as a text to translate. The tags become protected spans, which no model changes.

lxml parses the HTML and repairs it, so malformed HTML is translated too. The tags of blocks, such
as paragraphs and list items, end a sentence. Inline tags do not end a sentence. Opaque elements
stay as they are: the elements in OPAQUE, and all elements with `translate="no"` or the class
`notranslate`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape, unescape
from typing import Any, NamedTuple

from lxml import etree, html

from service.errors import InvalidRequestError
from service.text.markup import Kind, Token

# Elements inside a sentence. All elements outside INLINE and OPAQUE end a sentence.
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins label mark math meter nobr "
    "output progress q ruby s samp small span strike strong sub sup svg time tt u var wbr".split()
)

# Elements whose content is not translated. Of these, `script` and `style` end a sentence.
OPAQUE = frozenset(
    "code kbd samp var math svg script style textarea pre noscript template object iframe".split()
)

# Elements without an end tag.
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())

# Largest number of attributes of a tag. The parser compares each attribute with all others.
MAX_ATTRIBUTES = 1_000

# Characters that XML does not allow.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_REFERENCE = re.compile(r"&#(?:[0-9]+|[xX][0-9a-fA-F]+);?")
_TOO_LARGE = re.compile(r"&#(?:0*+[0-9]{8,}|[xX]0*+[0-9a-fA-F]{7,});?")

# A document, and not a fragment.
_DOCUMENT = re.compile(
    r"\s*+(?:(?><\?xml[^>]*>|<!--.*?-->)\s*+)*+<(?:!doctype|(?:html|head|body)\b)",
    re.IGNORECASE | re.DOTALL,
)

_LAST_TAG = re.compile("</(?:body|html)", re.IGNORECASE)

# Byte order mark. A document that begins with it would be parsed as a fragment.
_MARK = "\ufeff"

_VALUE = r"""=\s*+(?:"[^"]*+"|'[^']*+')"""

# Any piece of HTML. A comment extends to the end of the text if it is not closed.
# Source: HTML, section 13.2.5 (tokenization).
_PIECE = re.compile(
    rf"""
      (?P<text> (?: [^<]++ | <(?![a-z/!?]) )++ )
    | (?P<comment> <!--(?:-?>|.*?(?:--!?>|\Z)) | <(?!!doctype)[!?][^>]*+> | </(?![a-z])[^>]*+> )
    | (?P<tag> <(?P<slash>/?)(?P<name>[a-z][^\s/>]*+)
        (?P<attributes>(?: [^>"'=]++ | {_VALUE} | [="'] )*+)> )
    | (?P<other> <!doctype[^>]*+> | <.*+ )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_KINDS = {"text": Kind.TEXT, "comment": Kind.EMPTY, "other": Kind.BLOCK}
_RAW_END = {
    name: re.compile(rf"</{name}\b|\Z", re.IGNORECASE) for name in ("script", "style", "textarea")
}
_ATTRIBUTE = re.compile(
    r"""([^\s/>="'][^\s/>=]*+)(?:\s*+=[\s=]*+(?:"([^"]*+)"|'([^']*+)'|([^>\s"']\S*+)?))?"""
)


class Piece(NamedTuple):
    """A piece of HTML. The content of a script, a style sheet or a textarea is in its start tag.

    The kind is BLOCK for a document type, and for a tag that is not closed, with the rest of the
    text. The kind of a tag does not depend on its name.
    """

    kind: Kind
    source: str
    name: str = ""  # of a tag, in lower case
    attributes: str = ""

    def attribute_values(self) -> dict[str, str | None]:
        """Returns the attributes of a start tag by name, in lower case."""
        found = _ATTRIBUTE.findall(self.attributes)
        return {name.lower(): unescaped("".join(values)) for name, *values in reversed(found)}


def pieces(text: str) -> Iterator[Piece]:
    """Cuts HTML, which may be malformed, into pieces. The pieces, joined, equal the text."""
    place = 0
    while match := _PIECE.match(text, place):
        end = match.end()
        if kind := _KINDS.get(match.lastgroup or ""):
            yield Piece(kind, match[0])
        else:
            slash, name, attributes = match.group("slash", "name", "attributes")
            name = name.lower()
            is_single = name in VOID or _is_single(attributes)
            kind = Kind.CLOSE if slash else Kind.EMPTY if is_single else Kind.OPEN
            if kind is Kind.OPEN and name in _RAW_END:
                end = next(_RAW_END[name].finditer(text, end)).start()
            yield Piece(kind, text[place:end], name, attributes)
        place = end


def _is_single(attributes: str) -> bool:
    """Reports whether a tag ends with a slash that is no part of a value, as `<b class=a/>`."""
    if not attributes.endswith("/"):
        return False
    _, equals, value = re.sub(_VALUE, " ", attributes).rpartition("=")
    return not equals or len(value.split()) != 1


def unescaped(text: str) -> str:
    """Returns a text with decoded entities. A number beyond Unicode becomes U+FFFD.

    `html.unescape` fails on numbers of more than 4,300 digits.
    """
    return unescape(_TOO_LARGE.sub("\ufffd", text))


def without_controls(text: str) -> str:
    """Returns a text without the characters that XML does not allow, and their references."""

    def kept(reference: re.Match[str]) -> str:
        return "" if _CONTROLS.match(unescaped(reference[0]) or "\0") else reference[0]

    return _REFERENCE.sub(kept, _CONTROLS.sub("", text))


def is_untranslated(attributes: Mapping[str, str | None]) -> bool:
    """Returns whether an element's attributes say that its content is not translated.

    Source: HTML, attribute `translate`; DeepL and browsers also respect the class `notranslate`.
    """
    classes = (attributes.get("class") or "").split()
    return attributes.get("translate") == "no" or "notranslate" in classes


def plain_text(text: str) -> str:
    """Returns the words of an HTML text, without tags and opaque elements; decodes entities."""
    parts = (
        token.source if token.kind is Kind.TEXT else " "
        for token in read_html(text)
        if token.kind in (Kind.TEXT, Kind.BLOCK)
    )
    return "".join(parts)


def read_html(text: str) -> list[Token]:
    """Returns the tags and texts of an HTML document or fragment as tokens.

    Missing end tags are added, and the entities in texts are decoded. Control characters, which
    HTML does not allow, are left out. A text that the parser refuses is one opaque token. A text is
    refused if its tags are nested so deeply that the parser would lose text.
    """
    text = without_controls(text)
    mark = _MARK if text.startswith(_MARK) else ""
    text = text.removeprefix(_MARK)
    if len(text) > MAX_ATTRIBUTES or _LAST_TAG.search(text):
        text = _checked(text)
    # By default, the parser would lose text that is nested more than 256 levels deep, and it would
    # add a doctype to a document.
    parser = html.HTMLParser(huge_tree=True, default_doctype=False)
    try:
        if _DOCUMENT.match(text):
            root = html.document_fromstring(text, parser=parser)
            doctype = root.getroottree().docinfo.doctype
            start = [Token(Kind.BLOCK, f"{mark}{doctype}\n")] if mark or doctype else []
            before, after = root.itersiblings(preceding=True), root.itersiblings()
            tokens = [*start, *_comments(reversed([*before])), *_tokens(root), *_comments(after)]
        else:
            # `fragment_fromstring` would drop white space at the start of a fragment, and the head
            # of a fragment that begins with a doctype.
            page = f"<html><body>{mark}{text}</body></html>"
            body = html.document_fromstring(page, parser=parser).find("body")
            tokens = list(_tokens(body))[1:-1]
    except (etree.ParserError, etree.XMLSyntaxError):
        return [Token(Kind.OPAQUE, mark + text)]
    if parser.error_log.filter_from_fatals():
        raise InvalidRequestError(
            "Invalid request: tags are nested more than 2,000 levels deep; send the text in parts"
        )
    return [token for token in tokens if token.source]


def _checked(text: str) -> str:
    """Checks the attributes, and removes `</body>` and `</html>` if other text follows one of them.

    The parser would lose this text. At the end of the document, the parser adds these end tags.
    """
    before: list[str] = []
    after: list[str] = []
    kept = before
    for piece in pieces(text):
        is_unclosed = piece.kind is Kind.BLOCK and piece.source[1].isalpha()
        attributes = piece.source if is_unclosed else piece.attributes
        if len(attributes) > MAX_ATTRIBUTES:
            number = len(_ATTRIBUTE.findall(attributes))
            if number > MAX_ATTRIBUTES:
                raise InvalidRequestError(
                    f"Invalid request: a tag has {number} attributes; the limit is "
                    f"{MAX_ATTRIBUTES}. Remove some of them"
                )
        if piece.kind is Kind.CLOSE and piece.name in ("body", "html"):
            kept = after
        else:
            kept.append(piece.source)
    return "".join(before + after) if "".join(after).strip() else text


def _comments(siblings: Iterable[Any]) -> Iterator[Token]:
    for each in siblings:
        if each.tag is etree.Comment:
            yield Token(Kind.BLOCK, _source(each))


def _tokens(root: Any) -> Iterator[Token]:
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        name = element.tag
        if event == "start" and _is_opaque(element):
            is_inside = name in INLINE or name in OPAQUE - {"script", "style"}
            yield Token(Kind.OPAQUE if is_inside else Kind.BLOCK, _source(element))
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


def _source(element: Any) -> str:
    source: str = etree.tostring(element, method="html", encoding="unicode", with_tail=False)
    return source
