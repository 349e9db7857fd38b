"""Writes messages in ICU MessageFormat anew, with the translations of their sentences.

A branch is translated in its sentence. `You have {n, plural, one {# file} other {# files}} in {a}.`
has the sentences `You have 1 file in {4}.` and `You have 25 files in {4}.` The words that the
translations have in common at their starts and ends are written around the argument. The others are
written in its branches.

This fails if the number is missing in a translation. It also fails if an argument would move into a
branch or out of one. A stand-in in the sentence then replaces the argument whose branches do not
fit, and each of these branches is a sentence of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise

from service.text.letters import has_letters
from service.text.message_sentences import (
    APART,
    Branch,
    Chosen,
    Sentence,
    Sentences,
    Tag,
    Token,
    flat,
    has_words,
    items_of,
)
from service.text.messages import (
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
