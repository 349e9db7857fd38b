"""Reads HTML as a text to translate. The tags become protected spans, which no model changes.

lxml parses the HTML and repairs it, so malformed HTML is translated too. The tags of blocks, such
as paragraphs and list items, end a sentence. Inline tags do not end a sentence. Opaque elements
stay as they are: the elements in OPAQUE, and all elements with `translate="no"` or the class
`notranslate`. An element with `translate="yes"` in such an element is translated. It is then a
block, and so are the tags and texts around it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from lxml import etree, html

from service.errors import InvalidRequestError
from service.text.attributes import VALUE, mark, read_attributes, values_in
from service.text.entities import unescaped
from service.text.markup import Kind, Token, with_line_ends

# Elements inside a sentence.
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins label mark math meter nobr "
    "output progress q ruby s samp small span strike strong sub sup svg time tt u var wbr".split()
)

# Elements whose content is not translated. Of these, `script` and `style` end a sentence.
OPAQUE = frozenset(
    "code kbd samp var math svg script style textarea pre noscript template object iframe "
    "notranslate".split()
)

# Elements that end a sentence. An element that HTML does not have is inside a sentence if its
# parent element has words of its own.
BLOCKS = frozenset(
    "address area article aside audio base basefont bgsound blockquote body br button canvas "
    "caption center col colgroup dd details dialog dir div dl dt embed fieldset figcaption figure "
    "footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html input keygen legend "
    "li link listing main map marquee menu menuitem meta nav noframes ol optgroup option p param "
    "picture plaintext search section select slot source summary table tbody td tfoot th thead "
    "title tr track ul video xmp".split()
)

# Elements without an end tag.
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())

# Largest number of attributes of a tag. The parser compares each attribute with all others.
MAX_ATTRIBUTES = 1_000

# Characters that XML does not allow.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_REFERENCE = re.compile(r"&#(?:[0-9]+|[xX][0-9a-fA-F]+);?")

# The start of a document, which a fragment does not have: all characters before the root element.
_PROLOG = re.compile(
    r"""
      \ufeff? \s*+ (?: (?> <\?xml[^>]*> | <!--.*?--> ) \s*+ )*+
      (?: <!doctype [^>\[]*+ (?: \[ [^\]]*+ \] [^>]*+ )? > \s*+ (?: <!--.*?--> \s*+ )*+
        | (?= <(?:html|head|body)\b ) )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)

_LAST_TAG = re.compile("</(?:body|html)", re.IGNORECASE)

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

    def marked(self, names: Set[str]) -> str:
        """Returns the source of a tag, with marks around the values of some attributes."""
        parts: list[str] = []
        end = 0
        for found in _ATTRIBUTE.finditer(self.attributes):
            group = found.lastindex or 1
            if group > 1 and found[1].lower() in names:
                first, last = found.span(group)
                is_quoted = group < 4
                first, last = first - is_quoted, last + is_quoted
                parts += (self.attributes[end:first], mark(self.attributes[first:last]))
                end = last
        place = len(f"<{self.name}")
        head, rest = self.source[:place], self.source[place + len(self.attributes) :]
        return "".join([head, *parts, self.attributes[end:], rest])


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


def without_controls(text: str) -> str:
    """Returns a text without the characters that XML does not allow, and their references."""

    def kept(reference: re.Match[str]) -> str:
        return "" if _CONTROLS.match(unescaped(reference[0]) or "\0") else reference[0]

    return _REFERENCE.sub(kept, _CONTROLS.sub("", text))


def says_translated(attributes: Mapping[str, str | None]) -> bool | None:
    """Returns whether an element's attributes say that it is translated; None if they do not say.

    Source: HTML, attribute `translate`; DeepL and browsers also respect the class `notranslate`.
    """
    value = attributes.get("translate")
    if value == "no" or "notranslate" in (attributes.get("class") or "").split():
        return False
    return True if value == "yes" else None


def plain_text(text: str) -> str:
    """Returns the words of an HTML text and of its attributes, without tags; decodes entities."""
    tokens = read_html(text)
    parts = [
        token.source if token.kind is Kind.TEXT else " "
        for token in tokens
        if token.kind in (Kind.TEXT, Kind.BLOCK)
    ]
    values = values_in(token.source for token in tokens if token.kind is not Kind.TEXT)
    return "\n".join(["".join(parts), *values])


def read_html(text: str) -> list[Token]:
    """Returns the tags and texts of an HTML document or fragment as tokens.

    Missing end tags are added, and the entities in texts are decoded. Control characters, which
    HTML does not allow, are left out. A text that the parser refuses is one opaque token. A text is
    refused if its tags are nested so deeply that the parser would lose text.
    """
    given = text = without_controls(text)
    prolog = _PROLOG.match(text)
    start = prolog[0] if prolog else ""
    text, end = text.removeprefix(start), ""
    if len(text) > MAX_ATTRIBUTES or _LAST_TAG.search(text):
        text, end = _checked(text)
    # By default, the parser would lose text that is nested more than 256 levels deep, and it would
    # add a doctype to a document.
    parser = html.HTMLParser(huge_tree=True, default_doctype=False)
    try:
        if prolog:
            root = html.document_fromstring(text, parser=parser)
            comments = _comments(root.itersiblings())
            tokens = [Token(Kind.BLOCK, start), *_tokens(root), *comments, Token(Kind.BLOCK, end)]
        else:
            # `fragment_fromstring` would drop white space at the start of a fragment, and the head
            # of a fragment that begins with a doctype.
            page = f"<html><body>{text}{end}</body></html>"
            body = html.document_fromstring(page, parser=parser).find("body")
            tokens = list(_tokens(body))[1:-1]
    except (etree.ParserError, etree.XMLSyntaxError):
        return [Token(Kind.OPAQUE, start + text + end)]
    if parser.error_log.filter_from_fatals():
        raise InvalidRequestError(
            "Invalid request: tags are nested more than 2,000 levels deep; send the text in parts"
        )
    return [token for token in with_line_ends(tokens, given) if token.source]


def _checked(text: str) -> tuple[str, str]:
    """Checks the attributes, and removes `</body>` and `</html>` if other text follows one of them.

    The parser would lose this text. At the end of the document, the parser adds these end tags. It
    would also lose white space and comments after them, which are the second result.
    """
    parts: list[list[str]] = [[]]  # the pieces between the end tags
    is_end = True  # whether only white space and comments follow the last end tag
    for piece in pieces(text):
        _check_attributes(piece)
        if piece.kind is Kind.CLOSE and piece.name in ("body", "html"):
            is_end = True
            parts.append([])
        else:
            is_comment = piece.kind is Kind.EMPTY and not piece.name
            is_end = is_end and (is_comment or not piece.source.strip())
            parts[-1].append(piece.source)
    first, *others = map("".join, parts)
    if not others:
        return text, ""
    if is_end and not "".join(others[:-1]).strip():
        return text.removesuffix(others[-1]), others[-1]
    return "".join([first, *others]), ""


def _check_attributes(piece: Piece) -> None:
    is_unclosed = piece.kind is Kind.BLOCK and piece.source[1].isalpha()
    attributes = piece.source if is_unclosed else piece.attributes
    if len(attributes) > MAX_ATTRIBUTES:
        number = len(_ATTRIBUTE.findall(attributes))
        if number > MAX_ATTRIBUTES:
            raise InvalidRequestError(
                f"Invalid request: a tag has {number} attributes; the limit is "
                f"{MAX_ATTRIBUTES}. Remove some of them"
            )


def _comments(siblings: Iterable[Any]) -> Iterator[Token]:
    for each in siblings:
        if each.tag is etree.Comment:
            yield Token(Kind.BLOCK, _source(each))


@dataclass(slots=True)
class _Open:
    """An element whose content is being read."""

    element: Any
    has_words: bool = True  # whether its content is translated
    is_whole: bool = False  # whether it is one token
    is_inside: bool = False  # whether it is inside a sentence
    has_own_words: bool | None = None  # None until it is known

    def is_beside_words(self) -> bool:
        """Returns whether an element in this one is inside a sentence, if HTML does not have it."""
        if self.has_own_words is None:
            texts = (self.element.text, *(child.tail for child in self.element))
            self.has_own_words = any(text and not text.isspace() for text in texts)
        return self.is_inside or self.has_own_words

    def within(self, element: Any, is_divided: bool) -> "_Open":
        """Returns an element that starts in this one."""
        name = element.tag
        own = says_translated(element.attrib)
        has_words = self.has_words if own is None else own
        is_whole = name in OPAQUE or not (has_words or is_divided)
        is_inside = name in INLINE or (name not in BLOCKS and self.is_beside_words())
        if is_whole:
            is_inside = is_inside or name in OPAQUE - {"script", "style"}
        return _Open(element, has_words, is_whole, is_inside and (has_words or is_whole))

    def kind(self, inline: Kind) -> Kind:
        return inline if self.is_inside else Kind.BLOCK


def _tokens(root: Any) -> Iterator[Token]:
    divided = _divided(root)
    opened = [_Open(root)]
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        if event == "start":
            opened.append(opened[-1].within(element, element in divided))
            yield from _start(opened[-1])
            if opened[-1].is_whole:
                walk.skip_subtree()
            continue
        if event == "end":
            ended = opened.pop()
            if not ended.is_whole and element.tag not in VOID:
                yield Token(ended.kind(Kind.CLOSE), f"</{element.tag}>")
        else:
            yield Token(Kind.EMPTY if opened[-1].has_words else Kind.BLOCK, _source(element))
        if element is not root:
            yield _text(element.tail, opened[-1].has_words)


def _divided(root: Any) -> set[Any]:
    """Returns the elements with an element in them that has `translate="yes"`."""
    divided: set[Any] = set()
    for element in root.iterfind(".//*[@translate='yes']"):
        for around in element.iterancestors():
            if around in divided:
                break
            divided.add(around)
    return divided


def _text(text: str | None, has_words: bool) -> Token:
    """Returns a text, which stays as it is unless `has_words` is true."""
    if has_words:
        return Token(Kind.TEXT, text or "")
    return Token(Kind.BLOCK, escape(text or "", quote=False))


def _start(opened: _Open) -> Iterator[Token]:
    """Yields the start tag of an element and the text after it, or the whole element."""
    element = opened.element
    tag = _tag(element, opened.has_words)
    if not opened.is_whole:
        is_void = element.tag in VOID
        yield Token(opened.kind(Kind.EMPTY if is_void else Kind.OPEN), tag)
        yield _text(element.text, opened.has_words)
        return
    if VALUE not in tag:
        yield Token(opened.kind(Kind.OPAQUE), _source(element))
        return
    element.attrib.clear()
    rest = _source(element).removeprefix(f"<{element.tag}>")
    yield Token(opened.kind(Kind.OPAQUE), tag + rest)


def _tag(element: Any, has_words: bool) -> str:
    """Returns a start tag. If `has_words` is true, the values that people read are marked."""
    attributes = dict(element.items())
    read = read_attributes(element.tag, attributes) if has_words else ()
    parts = [f"<{element.tag}"]
    for key, value in attributes.items():
        quoted = f'"{escape(value)}"'
        parts.append(f" {key}={mark(quoted) if key in read else quoted}")
    return "".join([*parts, ">"])


def _source(element: Any) -> str:
    source: str = etree.tostring(element, method="html", encoding="unicode", with_tail=False)
    return source
