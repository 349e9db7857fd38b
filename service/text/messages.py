"""Reads messages in ICU MessageFormat, such as `{n, plural, one {# file} other {# files}}`.

A pattern is a text with arguments. A choice is a `plural`, `selectordinal` or `select` argument; it
has a pattern for each selector. Everything but the literal text of the patterns is kept exactly.

The syntax is that of ICU 4.8 and later, where a single apostrophe is text unless it is before a
brace. Tags (`<b>`) and double braces (`{{name}}`), which some libraries add to ICU, are kept too.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeGuard

from service.text.html_text import VOID

PLURALS = frozenset(("plural", "selectordinal"))
CATEGORIES = frozenset(("zero", "one", "two", "few", "many", "other"))

# Limits on a message. A text over a limit is an ordinary text.
MAX_CHARS = 20_000
MAX_DEPTH = 8
MAX_BRANCHES = 200

# Each message has a match. Few other texts have one.
_TRIGGER = re.compile(r",[\s\u200e\u200f]*(?:plural|select(?:ordinal)?)[\s\u200e\u200f]*,")

_RESERVED = re.compile(r"[\x02\x03]")

_SPACE = r"(?:[\s\u200e\u200f]|<br>)*+"
_NAME = r"[^\s{}<>,'#|]++"
_ARGUMENT = re.compile(
    rf"\{{{_SPACE}(?P<name>{_NAME}){_SPACE}(?:\}}|,{_SPACE}(?P<type>[A-Za-z]++){_SPACE}(?P<end>[,}}]))"
)
_STYLE = re.compile(r"(?:[^{}']++|'[^']*+')*+([{}])")
_OFFSET = re.compile(rf"{_SPACE}offset:{_SPACE}(\d{{1,9}})(?![\w.])")
_SELECTOR = re.compile(rf"{_SPACE}(=-?\d++(?:\.\d++)?|[^\s{{}}<>,'#|=]++){_SPACE}\{{")
_END = re.compile(rf"{_SPACE}\}}")

_PARTS = r"""
      (?P<quote> '%s(?:[^']++|'')*+(?:(?P<close>')|\Z) | '<[^'\s]*+(?P<close_tag>') )
    | (?P<apostrophe> ''? )
    | (?P<tag> %s )
    | (?P<braces> \{\{[^{}]*+\}\} )
    | (?P<argument> \{ )
    | (?P<end> \} )
    | (?P<number> \# )
    | (?P<text> [^{}'\#<&]++ | [<&] )
"""
_PLAIN_TAG = r"</?[A-Za-z][\w.:-]*+(?:\s[^<>{}]*+(?:\{[^<>{}]*+\}[^<>{}]*+)*+)?/?>|</?\d++\s*+/?>"

# Tags of markup, and the tags of a text that is in markup.
MARKUP_TAG = r"<[^<>]*+>|&lt;/?[A-Za-z][^&<>{}]*+&gt;"


def _parts(quoted: str, tag: str) -> re.Pattern[str]:
    return re.compile(_PARTS % (quoted, tag), re.VERBOSE | re.DOTALL)


# Patterns for the parts of a text, by whether it is markup, and whether it is in a plural.
_PART = {
    (is_markup, in_plural): _parts(quoted, tag)
    for is_markup, tag in ((False, _PLAIN_TAG), (True, MARKUP_TAG))
    for in_plural, quoted in ((False, "[{}]"), (True, "[{}#]"))
}

_APOSTROPHE = re.compile("&(?:#0*39|#[xX]0*27|apos);")
_TAG_NAME = re.compile(r"(?:<|&lt;)(/?)([\w.:-]+)")
_XML_TAG = re.compile(  # no two attributes have the same name
    r"""</?[A-Za-z][\w.-]*+(?:\s+([A-Za-z][\w.-]*+)="[^"<>&]*"(?![^<>]*\s\1=))*+\s*+/?>""", re.ASCII
)
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

# Characters around the content of a quote in a text to escape. No message contains them.
QUOTED = "\x02%s\x03"
_QUOTED = r"\x02[^\x03]*+\x03"

# Characters beside which an apostrophe is written twice.
_SYNTAX = "'{}#<>|\x02\x03"

# Quotes and characters of the syntax, with the apostrophes after and between them; an apostrophe.
_ESCAPED = {
    in_plural: re.compile(rf"(?:{_QUOTED}|[{syntax}])(?:{_QUOTED}|[{syntax}'])*+|'")
    for in_plural, syntax in ((False, "{}"), (True, "{}#"))
}


class Kind(Enum):
    """The kind of a kept part of a pattern."""

    ARGUMENT = "argument"  # {name}, {0, number, percent}, {{name}}
    NUMBER = "number"  # # in a plural
    QUOTE = "quote"  # '{name}'
    TAG = "tag"


@dataclass(frozen=True, slots=True)
class Text:
    """Literal text, without the apostrophes that quote it."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A part of a pattern that is kept exactly."""

    kind: Kind
    source: str
    name: str = ""  # of an argument without a type, or with the type `number`

    @property
    def quoted(self) -> str:
        """The text that a quote shows."""
        return self.source[1:-1].replace("''", "'")


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A `plural`, `selectordinal` or `select` argument.

    `around` is the source before, between and after the branches.
    """

    kind: str
    name: str
    offset: int
    selectors: tuple[str, ...]
    branches: tuple["Pattern", ...]
    around: tuple[str, ...]

    @property
    def is_plural(self) -> bool:
        return self.kind in PLURALS

    @property
    def default(self) -> int:
        """The index of the branch `other`, or of the last branch."""
        last = len(self.selectors) - 1
        return self.selectors.index("other") if "other" in self.selectors else last

    def write(self, branches: Sequence[str]) -> str:
        first, *after = self.around
        return first + "".join(map(str.__add__, branches, after))


Node = Text | Kept | Choice


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """The content of a message or of a branch."""

    nodes: tuple[Node, ...]

    @property
    def choices(self) -> list[Choice]:
        return [node for node in self.nodes if isinstance(node, Choice)]


@dataclass(frozen=True, slots=True)
class Message:
    """A message with at least one choice."""

    root: Pattern
    is_markup: bool  # whether the texts are HTML or XML
    has_xml_tags: bool  # whether the texts are plain, with tags that are well-formed XML
    doubles: bool  # whether each apostrophe in a text is written twice; ICU reads both spellings

    @property
    def words(self) -> str:
        """The literal texts, from which a language can be detected."""
        return " ".join(node.value for node in walk(self.root) if isinstance(node, Text))

    def escape(self, text: str, in_plural: bool) -> str:
        """Returns literal text, and quotes in the form of QUOTED, as a pattern has them."""

        def escaped(found: re.Match[str]) -> str:
            if found[0] != "'":
                content = found[0].replace("\x02", "").replace("\x03", "")
                return "'" + content.replace("'", "''") + "'"
            beside = text[max(0, found.start() - 1) : found.end() + 1]
            is_plain = len(beside) == 3 and beside[0] not in _SYNTAX and beside[2] not in _SYNTAX
            return "'" if is_plain and not self.doubles else "''"

        return _ESCAPED[in_plural].sub(escaped, text)


def walk(pattern: Pattern) -> Iterator[Node]:
    """Yields the nodes of a pattern and of its branches."""
    for node in pattern.nodes:
        yield node
        if isinstance(node, Choice):
            for branch in node.branches:
                yield from walk(branch)


def is_tag(node: Node) -> TypeGuard[Kept]:
    return isinstance(node, Kept) and node.kind is Kind.TAG


def tag_name(tag: str, is_markup: bool) -> str:
    """Returns the name of a tag, with a slash before that of an end tag.

    The name of a tag that is no start tag of an element with an end tag has a slash at its end.
    """
    found = _TAG_NAME.match(tag)
    if found is None:
        return "/"  # a comment
    name = found[2].lower() if is_markup else found[2]
    is_single = tag.endswith(("/>", "/&gt;")) or (is_markup and name in VOID)
    return found[1] + name + "/" * is_single


def are_balanced(names: Sequence[str]) -> bool:
    """Returns whether each start tag has an end tag; `names` are those of `tag_name`."""
    opened: list[str] = []
    for name in names:
        if name.endswith("/"):
            continue
        if not name.startswith("/"):
            opened.append(name)
        elif not opened or opened.pop() != name[1:]:
            return False
    return not opened


def read_message(text: str, is_markup: bool = False) -> Message | None:
    """Returns a message; None if the text is no message, or has no choice.

    Args:
        is_markup: Whether the text is HTML or XML. Its tags are then kept, and each branch must
            have the end tags of its start tags.
    """
    if len(text) > MAX_CHARS or not _TRIGGER.search(text) or _RESERVED.search(text):
        return None
    reader = _Reader(_APOSTROPHE.sub("'", text) if is_markup else text, is_markup)
    try:
        root = reader.pattern(0)
    except _SyntaxError:
        return None
    if not any(isinstance(node, Choice) for node in root.nodes):
        return None
    tags = reader.has_tags and reader.is_xml and not _NOT_XML.search(text)
    return Message(root, is_markup, tags and not is_markup, not reader.has_single_apostrophe)


def without_syntax(text: str, is_markup: bool = False) -> str:
    """Returns the literal texts of a message; another text stays as it is."""
    message = read_message(text, is_markup)
    return text if message is None else message.words


class _SyntaxError(Exception):
    """The text is no message."""


class _Reader:
    """Reads a message from left to right."""

    def __init__(self, text: str, is_markup: bool) -> None:
        self.text = text
        self.is_markup = is_markup
        self.at = 0
        self.num_branches = 0
        self.has_single_apostrophe = self.has_tags = False
        self.is_xml = True

    def pattern(self, depth: int, in_plural: bool = False) -> Pattern:
        """Reads up to the end of a branch, or of the whole text if the depth is 0."""
        nodes, words = list[Node](), list[str]()
        part = _PART[self.is_markup, in_plural]
        while found := part.match(self.text, self.at):
            if found.lastgroup == "end" and depth:
                break
            node = self._node(found, depth, in_plural)
            if isinstance(node, str):
                words.append(node)
                continue
            if words:
                nodes.append(Text("".join(words)))
                words = []
            nodes.append(node)
        if words:
            nodes.append(Text("".join(words)))
        self._check_tags([node.source for node in nodes if is_tag(node)])
        return Pattern(tuple(nodes))

    def _node(self, found: re.Match[str], depth: int, in_plural: bool) -> str | Kept | Choice:
        """Returns literal text, or another node."""
        kind, source = found.lastgroup, found[0]
        if kind == "argument":
            return self._argument(depth)
        self.at = found.end()
        if kind == "quote":
            if found["close"] is None and found["close_tag"] is None:
                raise _SyntaxError
            has_words = any(map(str.isspace, source))
            is_text = has_words and not ("<" in source or _TRIGGER.search(source))
            kept = Kept(Kind.QUOTE, source)
            return kept.quoted if is_text else kept
        if kind == "apostrophe":
            self.has_single_apostrophe |= source == "'"
            return "'"
        if kind == "tag":
            return Kept(Kind.TAG, source)
        if kind == "braces":
            return Kept(Kind.ARGUMENT, source, source.strip("{} \t\n"))
        if kind == "number" and in_plural:
            return Kept(Kind.NUMBER, source)
        return source

    def _argument(self, depth: int) -> Kept | Choice:
        start = self.at
        found = _ARGUMENT.match(self.text, start)
        if found is None:
            raise _SyntaxError
        self.at = found.end()
        if found["end"] == ",":
            if found["type"] in PLURALS or found["type"] == "select":
                return self._choice(found["type"], found["name"], start, depth + 1)
            self._skip_style()
        elif found["type"] in PLURALS or found["type"] == "select":
            raise _SyntaxError
        name = found["name"] if found["type"] in (None, "number") else ""
        return Kept(Kind.ARGUMENT, self.text[start : self.at], name)

    def _skip_style(self) -> None:
        level = 1
        while level:
            found = _STYLE.match(self.text, self.at)
            if found is None:
                raise _SyntaxError
            level += 1 if found[1] == "{" else -1
            self.at = found.end()

    def _choice(self, kind: str, name: str, start: int, depth: int) -> Choice:
        is_plural = kind in PLURALS
        offset = _OFFSET.match(self.text, self.at) if is_plural else None
        self.at = offset.end() if offset else self.at
        selectors, branches, around = list[str](), list[Pattern](), list[str]()
        while found := _SELECTOR.match(self.text, self.at):
            selector = found[1]
            self.num_branches += 1
            is_valid = (
                selector.startswith("=") or selector in CATEGORIES
                if is_plural
                else "=" not in selector
            )
            if not is_valid or depth > MAX_DEPTH or self.num_branches > MAX_BRANCHES:
                raise _SyntaxError
            self.at = found.end()
            selectors.append(selector)
            around.append(self.text[start : self.at])
            branches.append(self.pattern(depth, is_plural))
            start = self.at
            if not self.text.startswith("}", start):
                raise _SyntaxError
            self.at += 1
        end = _END.match(self.text, self.at)
        if end is None or not branches:
            raise _SyntaxError
        self.at = end.end()
        around.append(self.text[start : self.at])
        number = int(offset[1]) if offset else 0
        return Choice(kind, name, number, tuple(selectors), tuple(branches), tuple(around))

    def _check_tags(self, tags: Sequence[str]) -> None:
        """Notes whether a pattern has tags, and whether they are well-formed XML."""
        names = [tag_name(tag, self.is_markup) for tag in tags if tag.startswith("<")]
        is_balanced = are_balanced(names)
        if self.is_markup and not is_balanced:
            raise _SyntaxError
        self.has_tags |= bool(tags)
        self.is_xml &= is_balanced and all(map(_XML_TAG.fullmatch, tags))
