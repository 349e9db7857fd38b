"""The guards: checks that find translations which are probably wrong.

A guard reads one sentence and its translation. `service.tasks.translation.fidelity` decodes a
sentence again if a guard rejects its translation. Most translations pass all guards. Each check
therefore begins with a test that takes about a microsecond and passes most translations.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import eq
from typing import Annotated

from pydantic import Field

from model.sequence import Hypothesis
from service.text.letters import UNSPACED_LETTER, has_ascii_digit, words_of

MIN_REPEATED_TOKENS = 6
"""Smallest number of tokens in the repetitions of a loop, without the first occurrence.

A loop is a phrase that occurs three or more times in a row. A token that occurs seven times in a
row has six repetitions.
"""

MAX_PERIOD = 16
"""Largest number of tokens of the phrase that a loop repeats."""

TOKENS_PER_SOURCE_TOKEN = 2
MORE_TOKENS = 12
"""A translation with more than `TOKENS_PER_SOURCE_TOKEN * n + MORE_TOKENS` tokens is too long.

`n` is the number of source tokens.
"""

MIN_COPIED_LETTERS = 20
"""Smallest number of letters of a copied sentence. A shorter sentence may be a name."""

MAX_SHORT_CHARS = 80
MAX_SHORT_WORDS = 6
"""Limits of a short phrase, whose translation must not have brackets or words of its own."""

MORE_WORDS = 1
"""A translation of a short phrase may have twice as many words as the phrase, and MORE_WORDS."""

MIN_LONG_WORD = 4
"""Smallest number of letters of a word that a translation rarely repeats, unlike an article."""

MIN_SMALL_WORDS = 3
"""Smallest number of words with a small first letter in a copied phrase that is not a name."""

BRACKETS = "()[]{}\uff08\uff09\uff3b\uff3d\u3010\u3011"

NUMBER = re.compile("\\d(?:\\d{0,2}(?:[.,'\u2019 \u00a0\u202f]\\d{3})+(?!\\d)|\\d*)")
"""A number, with the separators between its groups of three digits."""

MIXED = re.compile(r"\d([.,])\d{3}\1\d{1,2}(?!\d)")
"""A number with one separator for its groups and its decimals: `1,234,5` for `1,234.5`."""

MAX_CHANGED_NUMBERS = 40
"""Largest number of differing numbers that are compared one by one. More of them are wrong."""

CLOCK = re.compile(r"\d ?[ap]\.? ?m\b", re.IGNORECASE)
"""A time on a clock of twelve hours, such as `5 p.m.`."""

ROMAN_ONES = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")


@dataclass(slots=True)
class Reading:
    """One sentence and its translation, as the guards read them."""

    source_ids: Sequence[int]  # EOS included
    source: str  # as the model reads it
    hypothesis: Hypothesis
    text: str  # the decoded hypothesis
    eos_id: int  # of the target


@dataclass(frozen=True, slots=True)
class GuardWarning:
    """The warning that a guard has rejected the translation of a sentence.

    A guard is a check for wrong translations.
    """

    sentence: Annotated[int, Field(description="Index of the sentence in its text.")]
    guard: Annotated[
        str,
        Field(
            description="`loop`, `length`, `copy`, `digits`, `bracket`, `repeat`, `words`, "
            "`unsure` or `placeholder`."
        ),
    ]


def is_short(source: str) -> bool:
    """Returns whether a sentence has at most MAX_SHORT_WORDS words."""
    return len(source) <= MAX_SHORT_CHARS and len(words_of(source)) <= MAX_SHORT_WORDS


def loops(reading: Reading) -> bool:
    """Returns whether the translation repeats a phrase, and the source does not repeat any."""
    tokens = reading.hypothesis.tokens
    if len(tokens) - len(set(tokens)) < MIN_REPEATED_TOKENS:
        return False
    # A loop of n repeated tokens has at least n - 1 repeated pairs of neighbouring tokens. There
    # are thus at least n - 1 fewer different pairs than pairs. There is also one pair fewer than
    # there are tokens. Therefore there are at least n fewer different pairs than tokens.
    if len(tokens) - len({*pairwise(tokens)}) < MIN_REPEATED_TOKENS:
        return False
    return has_loop(tokens) and not has_loop(reading.source_ids)


def has_loop(tokens: Sequence[int]) -> bool:
    """Returns whether a phrase of at most MAX_PERIOD tokens occurs three or more times in a row.

    The repetitions after the first occurrence must have at least MIN_REPEATED_TOKENS tokens in all.
    """
    for period in range(1, MAX_PERIOD + 1):
        needed = max(MIN_REPEATED_TOKENS, 2 * period)
        equal = [*map(eq, tokens, tokens[period:])]
        if sum(equal) >= needed and any(
            is_equal and len([*run]) >= needed for is_equal, run in groupby(equal)
        ):
            return True
    return False


def is_too_long(reading: Reading) -> bool:
    """Returns whether the translation is much longer than the source, or does not end with EOS."""
    tokens = reading.hypothesis.tokens
    if tokens and tokens[-1] != reading.eos_id:  # cut by the length limit
        return True
    return len(tokens) > TOKENS_PER_SOURCE_TOKEN * len(reading.source_ids) + MORE_TOKENS


def is_copied(reading: Reading) -> bool:
    """Returns whether the translation is the source itself, apart from upper and lower case.

    A short source may be a name, unless it has some words with a small first letter.
    """
    source, text = reading.source, reading.text
    if len(source) != len(text) or source.casefold() != text.casefold():
        return False
    if sum(map(str.isalpha, source)) >= MIN_COPIED_LETTERS:
        return True
    words = words_of(source)
    return len(words) > MIN_SMALL_WORDS and sum(map(_is_small, words)) >= MIN_SMALL_WORDS


def _is_small(word: str) -> bool:
    return word[0].islower()


def adds_brackets(reading: Reading) -> bool:
    """Returns whether a short phrase has more brackets in its translation, or half of a pair."""
    source, text = reading.source, reading.text
    if any(text.count(each) > source.count(each) for each in BRACKETS):
        return True
    for opening, closing in zip(BRACKETS[::2], BRACKETS[1::2], strict=True):
        missing = source.count(opening) - text.count(opening)
        if missing and missing != source.count(closing) - text.count(closing):
            return True
    return False


def repeats_words(reading: Reading) -> bool:
    """Returns whether the translation of a short phrase repeats more words than the phrase."""
    repeated = _num_repeated(reading.text)
    return repeated > 0 and repeated > _num_repeated(reading.source)


def _num_repeated(text: str) -> int:
    """Counts the words that occur again: short words at the next place, long ones anywhere.

    Letters of scripts without spaces are not counted.
    """
    words = [word.casefold() for word in words_of(text)]
    words = [word for word in words if len(word) > 1 or not UNSPACED_LETTER.match(word)]
    long = [word for word in words if len(word) >= MIN_LONG_WORD]
    doubled = sum(one == other and len(one) < MIN_LONG_WORD for one, other in pairwise(words))
    return len(long) - len({*long}) + doubled


def adds_words(reading: Reading) -> bool:
    """Returns whether the translation of a short phrase has far more words than the phrase."""
    source, text = len(words_of(reading.source)), len(words_of(reading.text))
    # One word of a language with compounds has several tokens, and may become several words.
    return text > max(2 * source + MORE_WORDS, len(reading.source_ids))


def invents_number(reading: Reading) -> bool:
    """Returns whether the translation of a phrase without digits has a number beside its words.

    An example is `404 - Not found`. A number that the source has in words leaves fewer words.
    """
    if not has_ascii_digit(reading.text) or not is_short(reading.source):
        return False
    if not any(map(_is_exact, NUMBER.findall(reading.text))):
        return False
    texts = (reading.source, reading.text)
    source, text = (sum(word[0].isalpha() for word in words_of(each)) for each in texts)
    return text >= source


def changes_numbers(reading: Reading) -> bool:
    """Returns whether the translation has not exactly the numbers of the source.

    A number is compared as a whole, without its separators: `1,500` is `1.500`, but `5` is not
    `15`. Some numbers are written in another way, and pass: see `_is_same`. A number that only the
    translation has is wrong if it has three digits before its final zeros, because `a hundred` may
    become `100`.
    """
    if reading.source.isascii() and not has_ascii_digit(reading.source):
        return invents_number(reading)
    found = NUMBER.findall(reading.source)
    if not found:
        return invents_number(reading)
    written = NUMBER.findall(reading.text)
    if MIXED.search(reading.text) and not MIXED.search(reading.source):
        return True
    if found == written:
        return False
    source, target = _counted(found), _counted(written)
    if source == target:
        return False
    added = [each for each in target if each not in source]
    missing = [*(source - target).elements()]
    if max(len(missing), len(added)) > MAX_CHANGED_NUMBERS:
        return True
    missing = [each for each in missing if not _has_numeral(reading.text, each)]
    is_clock = CLOCK.search(f"{reading.source}\n{reading.text}") is not None
    invented = [*filter(_is_exact, added)]
    return bool(_unmatched(missing, added, is_clock) or _unmatched(invented, missing, is_clock))


def _is_exact(number: str) -> bool:
    """Returns whether a number is hardly a word of the source, as `hundred` is."""
    return len(number.rstrip("0")) > 2


def _counted(numbers: Sequence[str]) -> Counter[str]:
    """Counts numbers, without separators and leading zeros; zero is left out."""
    # The numbers stay strings, because int() refuses numbers of more than 4,300 digits.
    digits = (each if each.isdigit() else re.sub(r"\D", "", each) for each in numbers)
    return Counter(filter(None, (_ascii_digits(each).lstrip("0") for each in digits)))


def _has_numeral(text: str, number: str) -> bool:
    """Returns whether a text has the Roman numeral of a number: `século XIX` for `19th century`."""
    numeral = roman(number)
    return numeral != number and re.search(rf"\b{numeral}\b", text) is not None


def _unmatched(numbers: Sequence[str], others: Sequence[str], is_clock: bool) -> list[str]:
    """Returns the numbers that are not the same as any of the others.

    Numbers may also be parts of one number: `1.5 million` has two, and `1,500,000` has one.
    """
    if any(_is_same("".join(numbers), other, is_clock) for other in others):
        return []
    candidates = [*others, "".join(others)]
    return [
        number
        for number in numbers
        if not any(_is_same(number, other, is_clock) for other in candidates)
    ]


def _is_same(number: str, other: str, is_clock: bool) -> bool:
    """Returns whether two different numbers may be the same in two languages.

    Examples are `24,000` and `24 mil`, `1990s` and `anos 90`, and on a clock `5 p.m.` and `17:00`.
    """
    short, long = sorted((number, other), key=len)
    if not short:
        return False
    if len(long) > len(short) + 2 and long.startswith(short):
        return not long[len(short) :].strip("0")
    if len(long) == 4 and long[-1] == "0" and long[2:] == short:
        return True
    return is_clock and len(long) <= 2 and abs(int(short) - int(long)) == 12


def _ascii_digits(number: str) -> str:
    return number if number.isascii() else "".join(str(int(digit)) for digit in number)


def roman(number: str) -> str:
    """Returns the Roman numeral of a number from 1 to 39, and other numbers as they are."""
    if len(number) > 2 or int(number) >= 40:
        return number
    tens, ones = divmod(int(number), 10)
    return "X" * tens + ROMAN_ONES[ones]


Guard = Callable[[Reading], bool]

GUARDS: Mapping[str, Guard] = {
    "loop": loops,
    "length": is_too_long,
    "copy": is_copied,
    "digits": changes_numbers,
}
"""The guards of all sentences by name. A guard returns True if it rejects a translation."""

SHORT_GUARDS: Mapping[str, Guard] = {
    "bracket": adds_brackets,
    "repeat": repeats_words,
    "words": adds_words,
}
"""More guards, of sentences for which `is_short` is true."""

PLACEHOLDER = "placeholder"
"""Name of the guard that checks protected spans. `fidelity.complete` makes this check even if
REGARD_GUARD_BEAM_SIZE is 0, so the guard is not in GUARDS."""

UNSURE = "unsure"
"""Name of the guard that checks the probability of a short phrase's translation. Only `phrases`
knows this probability, so the guard is not in GUARDS."""


def rejecting(reading: Reading) -> list[str]:
    names = []
    for name, rejects in GUARDS.items():
        if rejects(reading):
            names.append(name)
    if is_short(reading.source):
        names += [name for name, rejects in SHORT_GUARDS.items() if rejects(reading)]
    return names
