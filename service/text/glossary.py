"""Glossaries: reads and writes their entries, and finds their terms in texts.

A term matches whole words only, and the longest term is taken. A term without capitals also matches
words in capitals, and words with a capital first letter. A term with capitals matches only words
that are spelled the same, or that are all in capitals.
"""

import csv
import io
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from service.errors import SHOWN_CHARS, InvalidRequestError, counted
from service.text.characters import cleaned
from service.text.letters import UNSPACED, has_words, words_start

EntriesFormat = Literal["tsv", "csv"]

# Largest size of a term in UTF-8. DeepL has the same limit.
MAX_TERM_BYTES = 1024

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\U000f0000-\U0010ffff]")
_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+|(?P<symbol>[^\w\s])|_")
_JOINERS = "_-\u2010\u2011"
_NEGATION = re.compile(r"(?<=n)['\u2019]t\b")


def read_entries(text: str, entries_format: EntriesFormat) -> dict[str, str]:
    """Returns the target term of each source term. White space around a term is removed.

    The text has one entry a line; lines without content are skipped. A line of `csv` may have two
    more columns for the languages, which are ignored.
    """
    entries: dict[str, str] = {}
    for number, columns in _rows(text, entries_format):
        terms = [column.strip() for column in columns]
        source, target = (*terms, "", "")[:2]
        if len(terms) not in ((2, 4) if entries_format == "csv" else (2,)):
            fault = f"it has {counted(len(terms), 'column')}; send source term and target term"
        elif source in entries:
            fault = f"the source term {source[:SHOWN_CHARS]} is there twice"
        else:
            fault = _fault(source) or _fault(target)
        if fault:
            raise _invalid(f"line {number}: {fault}")
        entries[source] = target
    if not entries:
        raise _invalid("there is no entry; send at least one")
    return entries


def write_tsv(entries: Mapping[str, str]) -> str:
    return "\n".join(f"{source}\t{target}" for source, target in entries.items())


def _rows(text: str, entries_format: EntriesFormat) -> Iterable[tuple[int, list[str]]]:
    if entries_format == "tsv":
        lines = re.split(r"\r\n|\r|\n", text)
        return [(n, line.split("\t")) for n, line in enumerate(lines, 1) if line.strip()]
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return [(reader.line_num, columns) for columns in reader if any(columns)]
    except csv.Error as error:
        raise _invalid(f"line {reader.line_num}: {error}") from None


def _fault(term: str) -> str:
    """Returns the reason why a term is invalid; "" if it is valid."""
    if not term:
        return "a term is empty"
    if _FORBIDDEN.search(term):
        return f"{term[:SHOWN_CHARS]!a} has a control or private-use character"
    if (size := len(term.encode())) > MAX_TERM_BYTES:
        return f"a term has {size} bytes in UTF-8; the limit is {MAX_TERM_BYTES}"
    return ""


def _invalid(reason: str) -> InvalidRequestError:
    return InvalidRequestError("Invalid glossary entries provided", details=reason)


@dataclass(frozen=True, slots=True)
class Match:
    """A source term in a sentence, and its target term with the capitals for this place.

    If `is_exact`, a translation must have the same capitals: the term of the glossary has some.
    """

    start: int
    end: int
    target: str
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int


class Terms:
    """The pairs of source terms and target terms of a glossary."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        # The words of each source term, in lower case, with the words as spelled and the target.
        self._by_words: dict[tuple[str, ...], list[tuple[list[str], str]]] = {}
        lengths: dict[str, set[int]] = {}
        for source, target in entries.items():
            words = [token.text for token in _tokens(cleaned(source))]
            if has_words(source):  # the target of `...` is stored, and no sentence gets it
                folded = _folded(words)
                self._by_words.setdefault(folded, []).append((words, target))
                lengths.setdefault(folded[0], set()).add(len(words))
        for terms in self._by_words.values():
            # The first term that matches is taken. Terms with capitals come first, because they
            # match fewer spellings.
            terms.sort(key=lambda term: _is_lower(term[0]))
        # Numbers of words of the terms that begin with a word, the largest first.
        self._lengths = {word: sorted(found, reverse=True) for word, found in lengths.items()}

    def find(self, sentence: str) -> list[Match]:
        """Returns the terms of a sentence, in order; they do not overlap."""
        tokens = _tokens(sentence)
        folded = _folded(token.text for token in tokens)
        first = words_start(sentence)
        found: list[Match] = []
        for at, token in enumerate(tokens):
            is_taken = found and token.start < found[-1].end
            if not is_taken and (match := self._match(sentence, tokens, folded, at, first)):
                found.append(match)
        return found

    def _match(
        self, sentence: str, tokens: Sequence[_Token], folded: tuple[str, ...], at: int, first: int
    ) -> Match | None:
        """Returns the longest term that begins with a token; `first` is where words start."""
        for length in self._lengths.get(folded[at], ()):
            given = tokens[at : at + length]
            start, end = given[0].start, given[-1].end
            for source, target in self._by_words.get(folded[at : at + length], ()):
                cased = _cased(source, target, [token.text for token in given], start <= first)
                if cased is not None and _is_whole(sentence, start, end):
                    return Match(start, end, cased, not target.islower())
        return None


def missing_terms(matches: Sequence[Match], translation: str) -> list[Match]:
    """Returns the matches whose target terms are not in a translation, or not often enough.

    A word of the translation counts for one match only. The longest target terms count first.
    """
    spelled = tuple(token.text for token in _tokens(translation))
    words = _folded(spelled)
    targets = []
    for match in matches:
        term = tuple(token.text for token in _tokens(match.target))
        targets.append(term if match.is_exact else _folded(term))
    starts: defaultdict[str, list[int]] = defaultdict(list)
    for place, (word, folded) in enumerate(zip(spelled, words, strict=True)):
        for each in {word, folded}:
            starts[each].append(place)
    # Equal targets share an iterator, so each takes places that the ones before have left.
    places = {
        target: _places(spelled if match.is_exact else words, target, starts)
        for match, target in zip(matches, targets, strict=True)
    }
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
    words: tuple[str, ...], term: tuple[str, ...], starts: Mapping[str, Sequence[int]]
) -> Iterator[int]:
    found = starts.get(term[0], ()) if term else ()
    return (place for place in found if words[place : place + len(term)] == term)


def capitalized(term: str) -> str:
    return term[:1].upper() + term[1:]


def _tokens(text: str) -> list[_Token]:
    """Returns words and symbols. Combining marks, such as vowel signs of Hindi, belong to words."""
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


def _folded(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word.casefold() for word in words)


def _is_lower(words: Iterable[str]) -> bool:
    return all(word == word.lower() for word in words)


def _cased(source: list[str], target: str, given: list[str], is_first: bool) -> str | None:
    """Returns a target term with capitals like the given words; None if they do not match.

    A capital letter at the start of a sentence does not change the target term.
    """
    if given == source:
        return target
    is_lower = _is_lower(source)
    if is_lower and given == [capitalized(source[0]), *source[1:]]:
        return target if is_first else capitalized(target)
    if given == [word.upper() for word in source]:
        return target.upper()
    if is_lower and given == [capitalized(word) for word in source]:
        return capitalized(target)
    return None


def _is_whole(sentence: str, start: int, end: int) -> bool:
    """Returns whether a part of a sentence is whole words, unlike `mail` in `e-mail` or `can't`."""
    before = sentence[max(0, start - 2) : start][::-1]
    is_joined = _joins(before) or _joins(sentence[end : end + 2])
    return not is_joined and _NEGATION.match(sentence, end) is None


def _joins(pair: str) -> bool:
    return len(pair) == 2 and pair[0] in _JOINERS and pair[1].isalnum()
