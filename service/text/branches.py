"""Writes messages in ICU MessageFormat anew, with the translations of their sentences.

A branch is translated in its sentence. `You have {n, plural, one {# file} other {# files}} in {a}.`
has the sentences `You have 1 file in {4}.` and `You have 25 files in {4}.` The words that the
translations have in common at their starts and ends are written around the argument. The others are
written in its branches.

This fails if the number is missing in a translation. It also fails if an argument would move into a
branch or out of one. A stand-in in the sentence then replaces the argument whose branches do not
fit, and each of these branches is a sentence of its own.

A model cannot read arguments. In a sentence, a number stands for `#` and for the argument that a
plural counts. A stand-in such as `{4}`, which is a protected span, stands for any other argument,
and for a choice whose branches are translated alone. Tags stay as they are.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape, unescape
from itertools import count, groupby, pairwise

from babel import Locale

from service.text.language_codes import known_locale
from service.text.letters import has_letters
from service.text.messages import (
    MARKUP_TAG,
    QUOTED,
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
from service.text.segmentation import Segments

# Largest number of characters of the sentences with branches of a pattern, as a multiple of its
# texts. MIN_CHARS is added to their length.
MAX_GROWTH = 8
MIN_CHARS = 20

Find = Callable[[str], str | None]
"""Returns the translation of a sentence; None if it is not translated yet."""

Split = Callable[[str], Segments]
"""Splits a text into sentences."""

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
    __slots__ = ()


Token = str | Kept | Choice


@dataclass(frozen=True, slots=True)
class Sentence:
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
    locale = known_locale(language) or Locale("en")
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


class _MissingError(Exception):
    """A sentence is not translated yet."""


class Composer:
    """Writes a message anew.

    Args:
        language: Source language.

    Attributes:
        missing: The sentences that must be translated before `write` can return the message.
        used: The sentences whose translations the message has.
    """

    def __init__(self, message: Message, language: str, find: Find, split: Split) -> None:
        self.message = message
        self.sentences = Sentences(message, language)
        self.find = find
        self.split = split
        self.missing: dict[str, None] = {}
        self.used: list[str] = []

    def write(self) -> str | None:
        """Returns the message; None if `missing` has sentences."""
        self.missing, self.used = {}, []
        written = self._translated(self.message.root, (), False)
        return None if self.missing else written

    def _translated(self, pattern: Pattern, within: Sequence[Branch], in_plural: bool) -> str:
        """Translates a pattern that is no part of a sentence. The branches `within` contain it."""
        if not any(map(has_words, walk(pattern))):
            return self.written(pattern.nodes, within, in_plural)
        units = self._units(pattern) if self._needs_context(pattern) else [pattern]
        return "".join(self._unit(unit, within, in_plural) for unit in units)

    def _units(self, pattern: Pattern) -> list[Pattern]:
        """Returns the sentences of a pattern, or the pattern if a tag extends over several."""
        if self.message.is_markup:
            return [pattern]
        show = self.sentences.shown
        shown = [n.value if isinstance(n, Text) else show(n) for n in pattern.nodes]
        segments = self.split("".join(shown))
        units = _cut(pattern.nodes, shown, segments.starts(segments.sentences)[1:])
        tags = [[tag_name(node.source, False) for node in unit if is_tag(node)] for unit in units]
        return [*map(Pattern, units)] if all(map(are_balanced, tags)) else [pattern]

    def _unit(self, pattern: Pattern, within: Sequence[Branch], in_plural: bool) -> str:
        try:
            num_used, apart = len(self.used), list[Choice]()
            while self._needs_context(pattern) and len(apart) < len(pattern.choices):
                attempt = _InContext(self, pattern, within, apart)
                written = attempt.write(in_plural)
                if written is not None:
                    return written
                del self.used[num_used:]
                if attempt.failed is None:
                    break
                apart.append(attempt.failed)
            return self._alone(pattern, within, in_plural)
        except _MissingError:
            return ""

    def _needs_context(self, pattern: Pattern) -> bool:
        """Returns whether a pattern has choices that are parts of a sentence.

        In markup, the tags beside a choice may say that its words are not translated.
        """
        names = {choice.name for choice in pattern.choices}
        is_after_choice = False
        for node in pattern.nodes if names else ():
            if has_words(node) or (isinstance(node, Kept) and node.name in names):
                return True
            if self.message.is_markup and is_tag(node):
                return True
            if is_after_choice and isinstance(node, Choice):
                return True
            is_space = isinstance(node, Text) and node.value.isspace()
            is_after_choice = isinstance(node, Choice) or (is_after_choice and is_space)
        return False

    def _alone(self, pattern: Pattern, within: Sequence[Branch], in_plural: bool) -> str:
        """Translates the text around the choices as a sentence, and each branch as another one."""
        if any(map(has_words, pattern.nodes)):
            for has_numbers in (True, False):
                sentence = self.sentences.make(items_of(pattern, within), has_numbers)
                if (tokens := self.tokens(sentence)) is not None:
                    self.used.append(sentence.text)
                    return self.written(tokens, within, in_plural)
                if not sentence.numbers:
                    break
        return self.written(pattern.nodes, within, in_plural)

    def written(
        self, nodes: Sequence[Token | Text], within: Sequence[Branch], in_plural: bool
    ) -> str:
        """Returns a pattern as it is written; its choices are translated."""
        tokens: list[Token] = []
        for node in nodes:
            if isinstance(node, Choice):
                branches = [
                    self._translated(branch, [*within, (node, number)], node.is_plural)
                    for number, branch in enumerate(node.branches)
                ]
                tokens.append(Tag(node.write(branches)))
            else:
                tokens.append(node.value if isinstance(node, Text) else node)
        return self._joined(tokens, in_plural)

    def _joined(self, tokens: Sequence[Token], in_plural: bool) -> str:
        """Returns tokens without choices as they are written in a pattern."""
        parts: list[str] = []
        for is_text, group in groupby(map(_quoted, tokens), lambda token: type(token) is str):
            text = "".join(each.source if isinstance(each, Kept) else str(each) for each in group)
            parts.append(self.message.escape(text, in_plural) if is_text else text)
        return "".join(parts)

    def tokens(self, sentence: Sentence) -> list[Token] | None:
        """Returns the tokens of the translation of a sentence; None if the translation is wrong."""
        translation = self.find(sentence.text) if has_letters(sentence.text) else sentence.text
        if translation is None:
            self.missing[sentence.text] = None
            raise _MissingError
        return self.sentences.read(sentence, translation)


class _InContext:
    """Translates a pattern whose choices are inside a sentence.

    Args:
        within: The branches around the pattern.
        apart: Choices of the pattern that stay in the sentences. Their branches are translated
            alone.
    """

    def __init__(
        self,
        composer: Composer,
        pattern: Pattern,
        within: Sequence[Branch],
        apart: Sequence[Choice],
    ) -> None:
        self.composer = composer
        self.pattern = pattern
        self.within = within
        self.apart = dict.fromkeys(apart, APART)
        self.translated: dict[frozenset[Branch], list[Token]] = {}
        self.failed: Choice | None = None  # a choice that does not fit into the sentences

    def write(self, in_plural: bool) -> str | None:
        """Returns the translated pattern; None if its sentences do not give one."""
        sentences = self._sentences()
        is_missing = False
        for chosen, sentence in sentences.items():
            try:
                tokens = self.composer.tokens(sentence)
            except _MissingError:
                is_missing = True
                continue
            if tokens is None:
                own = {choice for choice, number in chosen if number != APART}
                self.failed = next((each for each in self.pattern.choices if each in own), None)
                return None
            self.translated[chosen] = tokens
        if is_missing:
            raise _MissingError
        if not sentences:
            return None
        self.composer.used += dict.fromkeys(sentence.text for sentence in sentences.values())
        span = (0, len(self._tokens(self.apart)))
        return self._built(self.pattern, self.apart, span, in_plural)

    def _sentences(self) -> dict[frozenset[Branch], Sentence]:
        """Returns the sentence of each choice of branches; none if they are too long together."""
        sizes = (len(node.value) for node in walk(self.pattern) if isinstance(node, Text))
        room = MAX_GROWTH * (MIN_CHARS + sum(sizes))
        sentences = {}
        for chosen in (self.apart, *_choices(self.pattern, self.apart)):
            items = items_of(self.pattern, self.within, chosen)
            sentence = self.composer.sentences.make(items)
            room -= len(sentence.text)
            if room < 0:
                return {}
            sentences[frozenset(chosen.items())] = sentence
        return sentences

    def _tokens(self, chosen: Chosen) -> list[Token]:
        return self.translated[frozenset(chosen.items())]

    def _built(
        self, pattern: Pattern, chosen: Chosen, span: tuple[int, int], in_plural: bool
    ) -> str | None:
        """Returns a pattern from a span of the translation with the chosen branches."""
        tokens, (at, end) = self._tokens(chosen), span
        parts: list[str] = []
        for choice in pattern.choices:
            if choice in self.apart:
                continue
            family = [self._tokens({**chosen, choice: n}) for n in range(len(choice.branches))]
            first, after = _common(family)
            last = len(tokens) - after
            is_inside = at <= first and last <= end
            written = self._choice(choice, chosen, first, after) if is_inside else None
            if written is None:
                self.failed = choice
                return None
            parts += (self._written(tokens[at:first], chosen, in_plural), written)
            at = last
        return "".join([*parts, self._written(tokens[at:end], chosen, in_plural)])

    def _written(self, tokens: Sequence[Token], chosen: Chosen, in_plural: bool) -> str:
        around = [branch for branch in chosen.items() if branch[1] != APART]
        return self.composer.written(tokens, [*self.within, *around], in_plural)

    def _choice(self, choice: Choice, chosen: Chosen, first: int, after: int) -> str | None:
        """Returns a choice whose branches have the tokens but the `first` and `after` ones."""
        branches: list[str] = []
        for number, branch in enumerate(choice.branches):
            inner = {**chosen, choice: number}
            tokens = self._tokens(inner)
            span = first, len(tokens) - after
            nodes = [node for node, _ in flat(branch, inner)]
            if not self.composer.sentences.fit(tokens[slice(*span)], nodes):
                return None
            written = self._built(branch, inner, span, choice.is_plural)
            if written is None:
                return None
            branches.append(written)
        return choice.write(branches)


def _choices(pattern: Pattern, chosen: Chosen) -> Iterator[dict[Choice, int]]:
    """Yields, for each branch, the branches around it and itself, added to `chosen`."""
    for choice in [each for each in pattern.choices if each not in chosen]:
        for number, branch in enumerate(choice.branches):
            inner = {**chosen, choice: number}
            yield inner
            yield from _choices(branch, inner)


def _common(family: Sequence[Sequence[Token]]) -> tuple[int, int]:
    """Returns the numbers of tokens that lists have in common at their starts and at their ends."""
    shortest = min(map(len, family))
    before = after = 0
    while before < shortest and _are_same([each[before] for each in family]):
        before += 1
    while after < shortest - before and _are_same([each[-1 - after] for each in family]):
        after += 1
    while before and any(_is_joined(*each[before - 1 : before + 1]) for each in family):
        before -= 1
    while after and any(_is_joined(*each[-after - 1 :][:2][::-1]) for each in family):
        after -= 1
    return before, after


def _are_same(tokens: Sequence[Token]) -> bool:
    return all(each == tokens[0] for each in tokens)  # a kept part is equal only to itself


def _is_joined(word: Token, beside: Token = " ") -> bool:
    """Returns whether a word touches another word, or a kept part as in `#th`."""
    return _is_word(word) and (isinstance(beside, Kept) or _is_word(beside))


def _is_word(token: Token) -> bool:
    return type(token) is str and token[0].isalnum()


def _cut(
    nodes: Sequence[Node], shown: Sequence[str], places: Sequence[int]
) -> list[tuple[Node, ...]]:
    """Cuts nodes at places in the text that they show. Only texts are cut inside."""
    units: list[list[Node]] = [[]]
    end = 0
    for node, text in zip(nodes, shown, strict=True):
        start, end = end, end + len(text)
        inside = [place - start for place in places if start <= place < end]
        if 0 in inside:
            units.append([])
        if not isinstance(node, Text):
            units[-1].append(node)
            continue
        edges = [0, *filter(None, inside), len(text)]
        first, *others = [Text(text[a:b]) for a, b in pairwise(edges)]
        units[-1].append(first)
        units += [[other] for other in others]
    return [tuple(unit) for unit in units if unit]


def _quoted(token: Token) -> Token:
    if isinstance(token, Kept) and token.kind is Kind.QUOTE:
        return QUOTED % token.quoted
    return token
