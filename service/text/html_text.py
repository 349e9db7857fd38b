"""Reads HTML: cuts it into pieces, and joins pieces to the tokens of a text to translate.

The tags of blocks, such as paragraphs and list items, end a sentence. Inline tags do not end a
sentence. Kept elements stay as they are: those in KEPT, and all elements with `translate="no"` or
the class `notranslate`. An element with `translate="yes"` in such an element is translated. It is
then a block, and so are the tags and texts around it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Generic, NamedTuple, TypeVar

from service.text.attributes import VALUE, read_attributes, values_in
from service.text.entities import unescaped
from service.text.markup import Kind, Token

T = TypeVar("T")

# Elements inside a sentence.
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins label mark math meter nobr "
    "output progress q ruby s samp small span strike strong sub sup svg time tt u var wbr".split()
)

# Elements inside a sentence whose content is not translated, and all such elements.
KEPT_INSIDE = frozenset("code kbd samp var math svg notranslate".split())
KEPT = KEPT_INSIDE | frozenset("script style pre textarea iframe template".split())

# Elements that end a sentence.
BLOCKS = frozenset(
    "address area article aside audio base basefont bgsound blockquote body br button canvas "
    "caption center col colgroup dd details dialog dir div dl dt embed fieldset figcaption figure "
    "footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe input keygen "
    "legend li link listing main map marquee menu menuitem meta nav noframes noscript object ol "
    "optgroup option p param picture plaintext pre script search section select slot source style "
    "summary table tbody td template textarea tfoot th thead title tr track ul video xmp".split()
)

_KNOWN = INLINE | KEPT_INSIDE | BLOCKS | {""}

# Elements without an end tag.
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())

# Maps the name of an element to the elements that end where it starts in them.
# Source: HTML, section 13.1.2.4 (optional tags).
_ENDED_BY = {
    **{name: frozenset((name,)) for name in ("p", "option")},
    "optgroup": frozenset(("option", "optgroup")),
    "li": frozenset(("p", "li")),
    **dict.fromkeys(("dt", "dd"), frozenset(("p", "dt", "dd"))),
    **dict.fromkeys(("td", "th"), frozenset(("p", "td", "th"))),
    "tr": frozenset(("p", "td", "th", "tr")),
    **dict.fromkeys(
        ("thead", "tbody", "tfoot"),
        frozenset(("p", "td", "th", "tr", "thead", "tbody", "tfoot", "colgroup")),
    ),
}

# Characters that XML does not allow.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_REFERENCE = re.compile(r"&#(?:[0-9]+|[xX][0-9a-fA-F]+);?")

_VALUE = r"""=\s*+(?:"[^"]*+"|'[^']*+')"""

# Any piece of HTML. A tag or a comment that is not closed extends to the end of the text.
# Source: HTML, section 13.2.5 (tokenization).
_PIECE = re.compile(
    rf"""
      (?P<mark> \A\ufeff )
    | (?P<text> (?: [^<]++ | <(?![a-z/!?]) )++ )
    | (?P<comment> <!--(?:-?>|.*?--!?>) | <(?!!doctype|!--)[!?][^>]*+> | </(?![a-z])[^>]*+> )
    | (?P<tag> <(?P<slash>/?)(?P<name>[a-z][^\s/>]*+)
        (?P<attributes>(?: [^>"'=]++ | {_VALUE} | [="'] )*+)> )
    | (?P<other> <!doctype[^>]*+> | <.*+ )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_KINDS = {"mark": Kind.BLOCK, "text": Kind.TEXT, "comment": Kind.EMPTY, "other": Kind.BLOCK}
_RAW_END = {
    name: re.compile(rf"</{name}\b|\Z", re.IGNORECASE) for name in ("script", "style", "textarea")
}
# A slash that ends the value of the last attribute, as in `<b class=a/>`.
_UNQUOTED_END = re.compile(r"""=\s*+[^\s"'=]*/\Z""")
_ATTRIBUTE = re.compile(
    r"""([^\s/>="'][^\s/>=]*+)(?:\s*+=[\s=]*+(?:"([^"]*+)"|'([^']*+)'|([^>\s"']\S*+)?))?"""
)
# Part of the attribute `translate` and of the class `notranslate`.
_TRANSLATE = re.compile("translate", re.IGNORECASE)


class Piece(NamedTuple):
    """A piece of HTML. The content of a script, a style sheet or a textarea is in its start tag.

    The kind is BLOCK for a byte order mark and a document type. It is also BLOCK for a tag or a
    comment that is not closed, with the rest of the text. The kind of a tag does not depend on its
    name.
    """

    kind: Kind
    source: str
    name: str = ""  # of a tag, in lower case
    attributes: str = ""

    def attribute_values(self) -> dict[str, str | None]:
        """Returns the attributes of a start tag by name, in lower case."""
        found = _ATTRIBUTE.findall(self.attributes)
        return {name.lower(): unescaped("".join(values)) for name, *values in reversed(found)}

    def says_translated(self) -> bool | None:
        """Returns whether the attributes say that an element is translated; None if they do not.

        Source: HTML, attribute `translate`; DeepL and browsers also know the class `notranslate`.
        """
        if not _TRANSLATE.search(self.attributes):
            return None
        values = self.attribute_values()
        value = values.get("translate")
        if value == "no" or "notranslate" in (values.get("class") or "").split():
            return False
        return True if value == "yes" else None

    def marked(self, names: Set[str]) -> str:
        """Returns the source of a tag, with marks around the values of some attributes."""

        def marked(found: re.Match[str]) -> str:
            group = found.lastindex or 1
            if group == 1 or found[1].lower() not in names:
                return found[0]
            size = len(found[group]) + 2 * (group < 4)  # with quotes
            return f"{found[0][:-size]}{VALUE}{found[0][-size:]}{VALUE}"

        place = len(f"<{self.name}")
        rest = self.source[place + len(self.attributes) :]
        return self.source[:place] + _ATTRIBUTE.sub(marked, self.attributes) + rest


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
            is_slash_end = attributes.endswith("/") and not _UNQUOTED_END.search(attributes)
            is_single = name in VOID or is_slash_end
            kind = Kind.CLOSE if slash else Kind.EMPTY if is_single else Kind.OPEN
            if kind is Kind.OPEN and name in _RAW_END:
                end = next(_RAW_END[name].finditer(text, end)).start()
            yield Piece(kind, text[place:end], name, attributes)
        place = end


def without_controls(text: str) -> str:
    """Returns a text without the characters that XML does not allow, and their references.

    A vertical tab or a form feed becomes a space, because words may be on both sides of it.
    """

    def kept(reference: re.Match[str]) -> str:
        return "" if _CONTROLS.match(unescaped(reference[0]) or "\0") else reference[0]

    spaced = text.replace("\v", " ").replace("\f", " ")
    return _REFERENCE.sub(kept, _CONTROLS.sub("", spaced))


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
    """Returns the tokens of an HTML document or fragment, with decoded entities in the texts.

    Missing end tags are added, and end tags without a start tag are left out. So are control
    characters, which HTML does not allow.
    """
    found = tokens_of(_balanced([*pieces(without_controls(text))]), marks_values=True)
    return [
        Token(Kind.TEXT, unescaped(token.source)) if token.kind is Kind.TEXT else token
        for token in found
    ]


class OpenElements(Generic[T]):
    """The elements around a place in HTML, each with a value."""

    def __init__(self, outside: T) -> None:
        self._stack = [("", outside)]
        self._numbers: defaultdict[str, int] = defaultdict(int)

    @property
    def inner(self) -> T:
        """The value of the innermost element; `outside` if there is none."""
        return self._stack[-1][1]

    @property
    def name(self) -> str:
        return self._stack[-1][0]

    def begin(self, name: str, value: T) -> None:
        self._stack.append((name, value))
        self._numbers[name] += 1

    def end_before(self, name: str) -> list[tuple[str, T]]:
        """Closes the elements that end where an element starts, and returns them as `end` does."""
        closed: list[tuple[str, T]] = []
        ended = _ENDED_BY.get(name, ())
        while self.name in ended:
            closed += self.end(self.name)
        return closed

    def end(self, name: str) -> list[tuple[str, T]]:
        """Closes the innermost element with a name, if there is one, and all elements inside it.

        Returns the names and the values of the closed elements, the innermost one first.
        """
        closed: list[tuple[str, T]] = []
        while self._numbers[name] and not (closed and closed[-1][0] == name):
            closed.append(self._stack.pop())
            self._numbers[closed[-1][0]] -= 1
        return closed


def _balanced(found: Sequence[Piece]) -> Iterator[Piece]:
    """Yields pieces with the missing end tags, and without end tags that have no start tag.

    The tag `</br>` stays, because browsers show a line break for it.
    """
    num_blocks = 0  # that have started
    around = OpenElements(num_blocks)
    rest = found[-1:] if found and found[-1].kind is Kind.BLOCK else []  # a tag without its end
    for piece in found[: len(found) - len(rest)]:
        if piece.kind is Kind.OPEN:
            yield from _end_tags(around.end_before(piece.name), num_blocks)
            num_blocks += piece.name in BLOCKS
            around.begin(piece.name, num_blocks)
            yield piece
        elif piece.kind is Kind.CLOSE:
            closed = around.end(piece.name)
            yield from _end_tags(closed[:-1], num_blocks)
            yield from [piece] if closed or piece.name == "br" else []
        else:
            yield piece
    while around.name:
        yield from _end_tags(around.end(around.name), num_blocks)
    yield from rest


def _end_tags(closed: Iterable[tuple[str, int]], num_blocks: int) -> Iterator[Piece]:
    """Yields the end tags of elements, with the number of blocks when each one started.

    A block ends a paragraph. A later `</p>` would be another paragraph, so it is not added.
    """
    for name, number in closed:
        if name != "p" or number == num_blocks:
            yield Piece(Kind.CLOSE, f"</{name}>", name)


class _Open(NamedTuple):
    """An element whose content is being read."""

    is_kept: bool = False  # with its content
    may_translate: bool = False  # whether `translate="yes"` in it counts; not in `<code>`
    is_inside: bool = False  # whether it is inside a sentence
    has_words: bool = False  # of its own, and not only in its child elements


def tokens_of(found: Iterable[Piece], marks_values: bool = False) -> list[Token]:
    """Joins pieces to tokens. The token of a kept element has its content.

    With `marks_values`, the values of attributes that people read get marks.
    """
    found = [*found]
    names = {piece.name for piece in found}
    worded = set() if names <= _KNOWN else _with_words(found)
    around = OpenElements(_Open(has_words=-1 in worded))
    tokens: list[Token] = []
    last, sources = Kind.TEXT, list[str]()
    for number, piece in enumerate(found):
        kind = _kind(piece, number in worded, around)
        if kind is None:
            sources.append(piece.source)
            continue
        if sources:
            tokens.append(Token(last, "".join(sources)))
        last, sources = kind, [_marked(piece) if marks_values else piece.source]
    if sources:
        tokens.append(Token(last, "".join(sources)))
    return tokens


def _with_words(found: Sequence[Piece]) -> set[int]:
    """Returns the indices of the start tags of elements that have words of their own.

    The index -1 stands for the whole text.
    """
    around = OpenElements(-1)
    worded: set[int] = set()
    for number, piece in enumerate(found):
        if piece.kind is Kind.TEXT and not piece.source.isspace():
            worded.add(around.inner)
        elif piece.kind is Kind.OPEN:
            around.end_before(piece.name)
            around.begin(piece.name, number)
        elif piece.kind is Kind.CLOSE:
            around.end(piece.name)
    return worded


def _marked(piece: Piece) -> str:
    """Returns the source of a piece, with marks around the values that people read."""
    if piece.kind not in (Kind.OPEN, Kind.EMPTY) or not piece.attributes.strip():
        return piece.source
    names = read_attributes(piece.name, piece.attribute_values())
    return piece.marked(names) if names and piece.says_translated() is not False else piece.source


def _kind(piece: Piece, has_words: bool, around: OpenElements[_Open]) -> Kind | None:
    """Returns the kind of a piece's token; None if the piece is in a kept element.

    An element that HTML does not have is inside a sentence if the element around it is, or has
    words of its own.
    """
    if piece.kind is Kind.CLOSE:
        return _closing_kind(piece.name, around)
    if piece.kind is Kind.OPEN:
        around.end_before(piece.name)
    outer = around.inner
    name = piece.name.rpartition(":")[2]  # XHTML may have prefixes
    is_inside = name in INLINE or name in KEPT_INSIDE
    is_inside = is_inside or (piece.name not in BLOCKS and (outer.is_inside or outer.has_words))
    kind: Kind | None = piece.kind if is_inside or not name else Kind.BLOCK
    if piece.kind is not Kind.OPEN:
        return None if outer.is_kept else kind
    says = piece.says_translated()
    is_kept, may_translate = says is False or name in KEPT, outer.may_translate
    if may_translate and says and not is_kept:
        kind, may_translate, is_inside = Kind.BLOCK, False, False
    elif outer.is_kept:
        kind, is_kept, may_translate = None, True, may_translate and name not in KEPT
    elif is_kept:
        kind, may_translate = Kind.OPAQUE if is_inside else Kind.BLOCK, name not in KEPT
    around.begin(piece.name, _Open(is_kept, may_translate, is_inside, has_words))
    return kind


def _closing_kind(name: str, around: OpenElements[_Open]) -> Kind | None:
    ended, is_innermost = around.inner, around.name == name
    around.end(name)
    is_translated = not around.inner.is_kept
    if not ended.is_kept:
        return Kind.CLOSE if is_innermost and is_translated and ended.is_inside else Kind.BLOCK
    return Kind.BLOCK if is_translated and not is_innermost else None
