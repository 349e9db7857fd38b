"""Finds the source terms of a glossary in a sentence, and their target terms in a translation.

A term matches whole words only. If several terms match, the longest one is taken. A part of a
compound, such as `mail` in `e-mail`, is not a whole word. A term without capitals also matches
words in capitals, and words with a capital first letter, as at the start of a sentence. A term with
capitals matches only words that are spelled the same, or that are all in capitals.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.text.letters import UNSPACED, words_start

_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+|(?P<symbol>[^\w\s])|_")
_JOINERS = "_-\u2010\u2011"
_NEGATION = re.compile(r"(?<=n)['\u2019]t\b")


@dataclass(frozen=True, slots=True)
class Match:
    """A source term in a sentence.

    Attributes:
        start: Index of its first character.
        end: Index after its last character.
        target: The target term; `_target` explains its capitals.
    """

    start: int
    end: int
    target: str


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int

    @property
    def folded(self) -> str:
        """The token in lower case."""
        return self.text.casefold()


@dataclass(frozen=True, slots=True)
class _Term:
    source: tuple[str, ...]
    target: str


def is_lower(words: Iterable[str]) -> bool:
    """Returns whether words have no capital letter."""
    return all(word == word.lower() for word in words)


class Terms:
    """Pairs of source terms and target terms.

    Args:
        entries: Maps each source term to its target term.
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._by_words: dict[tuple[str, ...], list[_Term]] = {}  # keys: words in lower case
        lengths: dict[str, set[int]] = {}
        for source, target in entries.items():
            words = tuple(token.text for token in _tokens(source))
            if words:
                folded = tuple(word.casefold() for word in words)
                self._by_words.setdefault(folded, []).append(_Term(words, target))
                lengths.setdefault(folded[0], set()).add(len(words))
        for terms in self._by_words.values():
            # The first term that matches is taken. Terms with capitals come first, because they
            # match fewer spellings.
            terms.sort(key=lambda term: is_lower(term.source))
        # Numbers of words of the terms that begin with a word, the largest first.
        self._lengths = {word: sorted(found, reverse=True) for word, found in lengths.items()}

    def find(self, sentence: str) -> list[Match]:
        """Returns the terms of a sentence, in order; they do not overlap."""
        tokens = _tokens(sentence)
        folded = tuple(token.folded for token in tokens)
        first = words_start(sentence)
        found: list[Match] = []
        at = 0
        while at < len(tokens):
            match = self._match(sentence, tokens, folded, at, first)
            if match is None:
                at += 1
                continue
            found.append(match)
            while at < len(tokens) and tokens[at].start < match.end:
                at += 1
        return found

    def _match(
        self,
        sentence: str,
        tokens: Sequence[_Token],
        folded: tuple[str, ...],
        at: int,
        first: int,
    ) -> Match | None:
        """Returns the longest term at a token.

        Args:
            sentence: The sentence.
            tokens: Tokens of the sentence.
            folded: The tokens in lower case.
            at: Index of the first token of the term.
            first: Place of the sentence's first letter or digit.
        """
        for length in self._lengths.get(folded[at], ()):
            given = tokens[at : at + length]
            for term in self._by_words.get(folded[at : at + length], ()):
                is_first = given[0].start <= first
                target = _target(term, [token.text for token in given], is_first)
                if target is not None and _is_whole(sentence, given[0].start, given[-1].end):
                    return Match(given[0].start, given[-1].end, target)
        return None


def lacking(matches: Sequence[Match], translation: str) -> list[Match]:
    """Returns the matches whose target terms are not in a translation, or not often enough.

    A word of the translation counts for one match only. The longest target terms count first.
    """
    words = [token.folded for token in _tokens(translation)]
    targets = [tuple(token.folded for token in _tokens(match.target)) for match in matches]
    starts: defaultdict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(words):
        starts[word].append(place)
    places = {target: _places(words, target, starts) for target in targets}
    is_free = [True] * len(words)
    missing = []
    for index in sorted(range(len(targets)), key=lambda index: -len(targets[index])):
        size = len(targets[index])
        for place in places[targets[index]]:
            if all(is_free[place : place + size]):
                is_free[place : place + size] = [False] * size
                break
        else:
            missing.append(index)
    return [matches[index] for index in sorted(missing)]


def _places(
    words: Sequence[str], term: tuple[str, ...], starts: Mapping[str, Sequence[int]]
) -> Iterator[int]:
    """Yields the index of each word where a term begins; `starts` has the indices of each word."""
    found = starts.get(term[0], ()) if term else ()
    return (place for place in found if tuple(words[place : place + len(term)]) == term)


def capitalized(term: str) -> str:
    """Returns a term with a capital as its first letter."""
    return term[:1].upper() + term[1:]


def _tokens(text: str) -> list[_Token]:
    """Returns the words and symbols of a text.

    Combining marks, such as the vowel signs of Hindi, belong to their words.
    """
    tokens: list[_Token] = []
    was_mark = False
    for found in _TOKEN.finditer(text):
        start, end = found.span()
        is_mark = found["symbol"] is not None and unicodedata.category(found[0])[0] == "M"
        if tokens and tokens[-1].end == start and (is_mark or was_mark):
            start = tokens.pop().start
        tokens.append(_Token(text[start:end], start, end))
        was_mark = is_mark
    return tokens


def _target(term: _Term, given: Sequence[str], is_first: bool) -> str | None:
    """Returns the target term with capitals like the given words.

    The result is None if the given words do not match the source term. The docstring of this module
    has the rules for capitals in the source term. A capital letter at the start of a sentence does
    not change the target term.
    """
    source = list(term.source)
    if [*given] == source:
        return term.target
    if [word.casefold() for word in given] != [word.casefold() for word in source]:
        return None
    is_lower = all(word == word.lower() for word in source)
    if is_lower and [*given] == [capitalized(source[0]), *source[1:]]:
        return term.target if is_first else capitalized(term.target)
    if [*given] == [word.upper() for word in source]:
        return term.target.upper()
    if is_lower and [*given] == [capitalized(word) for word in source]:
        return capitalized(term.target)
    return None


def _is_whole(sentence: str, start: int, end: int) -> bool:
    """Returns whether a part of a sentence consists of whole words.

    The result is False if a hyphen or an underscore joins the part to the word before or after it.
    It is also False for the start of a negation, such as `can` in `can't`.
    """
    before = sentence[max(0, start - 2) : start][::-1]
    is_joined = _joins(before) or _joins(sentence[end : end + 2])
    return not is_joined and _NEGATION.match(sentence, end) is None


def _joins(pair: str) -> bool:
    """Returns whether two characters are a hyphen or underscore, and then a letter or digit."""
    return len(pair) == 2 and pair[0] in _JOINERS and pair[1].isalnum()
