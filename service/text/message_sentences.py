"""Makes sentences of patterns of ICU MessageFormat, and reads the translations of the sentences.

A model cannot read arguments. In a sentence, a number stands for `#` and for the argument that a
plural counts. A stand-in such as `{4}`, which is a protected span, stands for any other argument,
and for a choice whose branches are translated alone. Tags stay as they are.
"""

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape, unescape
from itertools import count

from babel import Locale, UnknownLocaleError

from service.text.letters import has_letters
from service.text.messages import (
    MARKUP_TAG,
    Choice,
    Kept,
    Kind,
    Message,
    Node,
    Pattern,
    Text,
    are_balanced,
    is_tag,
    tag_name,
    walk,
)

# Numbers that may stand for an argument, in the order in which they are tried. Numbers of two
# digits come first, because models write some smaller numbers as words.
CARDINALS = (25, 47, 36, 1, 2, 3, 5, 0, 11, 21, 22)
ORDINALS = (24, 47, 21, 22, 23, 1, 2, 3, 4, 5, 0, 8, 11)

_NUMBER = re.compile(r"\d+")
_STAND_IN = re.compile(r"\{(\d{1,9})\}")
_ENTITY = re.compile(r"&\#?\w+;")
_WORD = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"

Branch = tuple[Choice, int]
"""A choice and the index of one of its branches."""

APART = -1

Chosen = Mapping[Choice, int]
"""The branches of choices in a sentence; APART if a choice stays in the sentence."""

Item = tuple[Node, Branch | None]
"""A node of a sentence, and the branch whose number the node shows."""


class Tag(str):
    """A tag in a translation."""

    __slots__ = ()


Token = str | Kept | Choice


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence to translate."""

    text: str  # with numbers and stand-ins
    numbers: Mapping[str, Sequence[Kept]]  # the kept parts for which each number stands
    stand_ins: Counter[str]
    tags: Sequence[str]  # names, in order


class Sentences:
    """Makes the sentences of one message. `language` is the source language."""

    def __init__(self, message: Message, language: str) -> None:
        self.message = message
        self.language = language.partition("-")[0]
        nodes = [*walk(message.root)]
        others = [node for node in nodes if not (isinstance(node, Text) or is_tag(node))]
        self.by_stand_in = dict(zip(_stand_ins(nodes), others, strict=False))
        self.stand_in = {id(node): name for name, node in self.by_stand_in.items()}
        self.token = _token_pattern(message, nodes)

    def shown(self, node: Node) -> str:
        """Returns a node as a sentence has it if no number stands for it."""
        if isinstance(node, Text):
            return escape(node.value, quote=False) if self.message.has_xml_tags else node.value
        return node.source if is_tag(node) else self.stand_in[id(node)]

    def make(self, items: Sequence[Item], has_numbers: bool = True) -> Sentence:
        """Returns the sentence of some nodes, by default with numbers where they can stand."""
        texts = [node.value for node, _ in items if isinstance(node, Text)]
        numbers = _Numbers(self.language, {n for text in texts for n in _NUMBER.findall(text)})
        stand_ins, tags, parts = Counter[str](), list[str](), list[str]()
        for node, counted in items:
            number = ""
            if has_numbers and counted is not None and isinstance(node, Kept):
                number = numbers.find(node, counted)
            parts.append(number or self.shown(node))
            if is_tag(node):
                tags.append(tag_name(node.source, self.message.is_markup))
            elif not (number or isinstance(node, Text)):
                stand_ins[parts[-1]] += 1
        return Sentence("".join(parts), numbers.kept, stand_ins, tags)

    def read(self, sentence: Sentence, translation: str) -> list[Token] | None:
        """Returns the tokens of a translation; None unless it has all parts and tags once."""
        numbers = {name: deque(kept) for name, kept in sentence.numbers.items()}
        stand_ins, tags = Counter(sentence.stand_ins), list[str]()
        tokens: list[Token] = []
        for found in self.token.finditer(translation):
            token = found[0]
            if found["tag"] is not None:
                tags.append(tag_name(token, self.message.is_markup))
                tokens.append(Tag(token))
            elif token in stand_ins:
                stand_ins[token] -= 1
                tokens.append(self.by_stand_in[token])
            elif token in numbers:
                if not numbers[token]:
                    return None
                tokens.append(numbers[token].popleft())
            else:
                is_entity = self.message.has_xml_tags and token.startswith("&")
                tokens.append(unescape(token) if is_entity else token)
        is_whole = not any([*stand_ins.values(), *numbers.values()])
        return tokens if is_whole and have_same_tags(sentence.tags, tags) else None

    def fit(self, tokens: Sequence[Token], nodes: Sequence[Node]) -> bool:
        """Returns whether tokens have the parts and tags of nodes, and words if these have some."""
        is_markup = self.message.is_markup
        kept = {id(node) for node in nodes if not (isinstance(node, Text) or is_tag(node))}
        tags = [tag_name(node.source, is_markup) for node in nodes if is_tag(node)]
        found = [tag_name(token, is_markup) for token in tokens if isinstance(token, Tag)]
        has_word = any(type(token) is str and has_letters(token) for token in tokens)
        return (
            {id(token) for token in tokens if not isinstance(token, str)} == kept
            and have_same_tags(tags, found)
            and (has_word or not any(map(has_words, nodes)))
        )


class _Numbers:
    """Chooses the numbers of a sentence; `kept` has the parts for which each number stands."""

    def __init__(self, language: str, taken: set[str]) -> None:
        self.language = language
        self.taken = taken
        self.names: dict[Branch, str] = {}
        self.kept: dict[str, list[Kept]] = {}

    def find(self, node: Kept, counted: Branch) -> str:
        """Returns the number that stands for a part; "" if none can.

        All parts with one number have the same source, because a translation may change their
        order.
        """
        name = self.names.get(counted) or next(self._free(counted), "")
        parts = self.kept.setdefault(name, []) if name else []
        if not name or (parts and parts[0].source != node.source):
            return ""
        self.names[counted] = name
        self.taken.add(name)
        parts.append(node)
        return name

    def _free(self, counted: Branch) -> Iterator[str]:
        choice, index = counted
        selector = choice.selectors[index].removeprefix("=")
        found = _examples(self.language, choice.kind == "selectordinal", selector)
        if selector.isdigit():
            found = (int(selector) - choice.offset,)
        return (str(number) for number in found if number >= 0 and str(number) not in self.taken)


@lru_cache(maxsize=256)
def _examples(language: str, is_ordinal: bool, category: str) -> tuple[int, ...]:
    """Returns numbers of a plural category, or others if the language has none in it.

    An unknown language has the categories of English.
    """
    try:
        locale = Locale.parse(language)
    except (UnknownLocaleError, ValueError):
        locale = Locale.parse("en")
    rule = locale.ordinal_form if is_ordinal else locale.plural_form
    numbers = ORDINALS if is_ordinal else CARDINALS
    found = [tuple(n for n in numbers if rule(n) == each) for each in (category, "other")]
    return found[0] or found[1] or numbers


def items_of(
    pattern: Pattern, within: Sequence[Branch], chosen: Chosen | None = None
) -> list[Item]:
    """Returns the nodes of a sentence.

    Args:
        within: The branches around the pattern.
        chosen: The branches that replace their choices; choices that are not in it have their
            default branches. With None, the choices stay in the sentence.
    """
    found = [*flat(pattern, chosen, within)]
    plurals = [*within, *(branch for _, branches in found for branch in branches)]
    by_name = {branch[0].name: branch for branch in plurals if branch[0].is_plural}
    items: list[Item] = []
    for node, branches in found:
        counted = None
        if isinstance(node, Kept) and node.kind is Kind.NUMBER:
            counted = next(each for each in reversed(branches) if each[0].is_plural)
        elif isinstance(node, Kept) and node.name in by_name:
            named = by_name[node.name]
            counted = None if named[0].offset else named
        items.append((node, counted))
    return items


def flat(
    pattern: Pattern, chosen: Chosen | None, within: Sequence[Branch] = ()
) -> Iterator[tuple[Node, Sequence[Branch]]]:
    """Yields the nodes of a sentence with the branches around them; arguments as in `items_of`."""
    for node in pattern.nodes:
        number = APART
        if isinstance(node, Choice) and chosen is not None:
            number = chosen.get(node, node.default)
        if isinstance(node, Choice) and number != APART:
            yield from flat(node.branches[number], chosen, [*within, (node, number)])
        else:
            yield node, within


def have_same_tags(source: Sequence[str], translation: Sequence[str]) -> bool:
    """Returns whether a translation has the tags of its source, and is balanced if that is."""
    is_nested = are_balanced(translation) or not are_balanced(source)
    return Counter(source) == Counter(translation) and is_nested


def has_words(node: Node) -> bool:
    return isinstance(node, Text) and has_letters(_ENTITY.sub("", node.value))


def _stand_ins(nodes: Sequence[Node]) -> Iterator[str]:
    """Yields stand-ins that are in no text."""
    texts = [node.value for node in nodes if isinstance(node, Text)]
    taken = {int(number) for text in texts for number in _STAND_IN.findall(text)}
    return (f"{{{number}}}" for number in count(1) if number not in taken)


def _token_pattern(message: Message, nodes: Sequence[Node]) -> re.Pattern[str]:
    tag, entity = MARKUP_TAG if message.is_markup else r"<[^<>]*>", _ENTITY.pattern
    if not (message.is_markup or message.has_xml_tags):
        sources = {node.source for node in nodes if is_tag(node)}
        tag, entity = "|".join(map(re.escape, sorted(sources))) or "(?!)", "(?!)"
    parts = (rf"(?P<tag>{tag})", _STAND_IN.pattern, entity, _WORD, r"\d+", r"\s+", ".")
    return re.compile("|".join(parts), re.DOTALL)
