"""Gives a translation the case of its source: ALL CAPS, Title Case, or the first letter's case.

A model has seen few sentences in ALL CAPS and leaves their words untranslated. The model therefore
gets such a sentence in sentence case: lower case with a capital first letter. The translation is
then put into ALL CAPS. The markers of protected spans are private-use characters, which have no
case.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from babel import Locale, UnknownLocaleError

SMALL_WORDS = frozenset(
    "a an and as at by for from if in into nor of off on or per the to up via vs with".split()
)
"""Words that English Title Case leaves in lower case."""

MIN_TITLE_CHARS = 4
"""Length of the shortest word that gets a capital letter if a translation is put into Title Case.

Shorter words are mostly articles and prepositions. The first word gets a capital letter at any
length.
"""

MAX_TITLE_CHARS = 100
"""Largest number of characters of a text that counts as Title Case."""

NOUN_CAPITALS = ("de", "lb")
"""Languages that write every noun with a capital letter."""

DOTTED = ("az", "tr")
"""Languages in which the capital letter of i is İ."""

_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_FIRST = re.compile("[\\w\U000f0000-\U0010fffd]['’\\w-]*")


def is_all_caps(text: str) -> bool:
    """Returns whether a text has two letters or more, and all of them are capital letters."""
    if not text.isupper():
        return False
    letters = [char for char in text if char.isalpha()]
    return len(letters) > 1 and all(map(str.isupper, letters))


def sentence_case(text: str, language: str, is_known: Callable[[str], bool]) -> str:
    """Converts a sentence in ALL CAPS to lower case with a capital first letter.

    A sentence of one or two letters, such as `OK`, stays as it is.

    Args:
        text: A sentence in ALL CAPS.
        language: Code of its language, without a region.
        is_known: Returns whether a word stays in capital letters, such as the acronym `USB`.
    """
    if sum(map(str.isalpha, text)) < 3:
        return text

    def replaced(word: re.Match[str]) -> str:
        return word[0] if is_known(word[0]) else lower_case(word[0], language)

    lowered = _WORD.sub(replaced, text)
    return _WORD.sub(lambda word: _capitalized(word[0], language), lowered, count=1)


def with_case(source: str, translation: str, languages: tuple[str, str]) -> str:
    """Returns a translation with the case of its source.

    Args:
        source: The sentence as the client wrote it.
        translation: Its translation.
        languages: Codes of the source language and the target language.
    """
    target_code = languages[1].partition("-")[0]
    if is_all_caps(source):
        return _upper(translation, target_code)
    if is_title_case(source) and languages[0].partition("-")[0] not in NOUN_CAPITALS:
        translation = _title(translation, target_code)
    if _begins_with_capital(source) and _begins_with_capital(translation):
        return translation  # as in most sentences
    given, found = _FIRST.search(source), _FIRST.search(translation)
    if given is None or found is None:
        return translation
    word = _like(given[0], found[0], target_code)
    return translation[: found.start()] + word + translation[found.end() :]


def _begins_with_capital(text: str) -> bool:
    """Returns whether the first character of a text is a capital letter."""
    return text[:1].isupper() and text[0].isalpha()


def is_title_case(text: str) -> bool:
    """Returns whether a text is in Title Case.

    At least two words must begin with a capital letter. Every word that begins with a lower-case
    letter must be in SMALL_WORDS and come after a capitalised word. A text that ends with one full
    stop is not in Title Case, because it is probably a sentence that contains names. A text of more
    than MAX_TITLE_CHARS characters is not in Title Case either.
    """
    is_sentence = text.endswith(".") and not text.endswith("..")
    if is_sentence or len(text) > MAX_TITLE_CHARS:
        return False
    num_capitals = 0
    for word in text.split():
        first = word.lstrip("\"'“‘([")[:1]
        if first.isupper():
            num_capitals += 1
        elif first.islower() and (not num_capitals or word not in SMALL_WORDS):
            return False
    return num_capitals > 1


def _like(given: str, found: str, language: str) -> str:
    """Returns the first word of a translation in the case of the first word of its source.

    Only the first letter changes. A word with a capital letter inside stays as it is, and so does a
    word that always begins with a capital letter.

    Args:
        given: First word of the source.
        found: First word of the translation.
        language: Code of the translation's language.
    """
    if not found[0].isalpha() or not found[1:].islower() and len(found) > 1:
        return found
    if given[0].isupper() and found[0].islower():
        return _upper(found[0], language) + found[1:]
    is_lower = given.islower() and given[0].isalpha()
    if not is_lower or not found[0].isupper() or not _is_common(found, language):
        return found
    return lower_case(found[0], language) + found[1:]


def _is_common(word: str, language: str) -> bool:
    """Returns whether a capitalised word would begin with a small letter inside a sentence."""
    if language in NOUN_CAPITALS or (language == "en" and re.split("['\u2019]", word)[0] == "I"):
        return False
    return word not in _names(language)


@lru_cache(maxsize=256)
def _names(language: str) -> frozenset[str]:
    """Returns the capitalised words in the names of days, months, languages and countries."""
    try:
        locale = Locale(language)
    except (UnknownLocaleError, ValueError):
        return frozenset()
    calendars = (locale.days["format"]["wide"], locale.months["format"]["wide"])
    tables = (*calendars, locale.languages, locale.territories)
    words = (word for table in tables for name in table.values() for word in _WORD.findall(name))
    return frozenset(word for word in words if word[0].isupper())


def _title(text: str, language: str) -> str:
    def replaced(word: re.Match[str]) -> str:
        return word[0] if len(word[0]) < MIN_TITLE_CHARS else _capitalized(word[0], language)

    return _WORD.sub(replaced, text)


def _capitalized(word: str, language: str) -> str:
    return _dotted(word[0], language).title() + word[1:]


def _upper(text: str, language: str) -> str:
    return _dotted(text, language).upper()


def _dotted(text: str, language: str) -> str:
    return text.replace("i", "İ") if language in DOTTED else text


def lower_case(text: str, language: str) -> str:
    """Returns a text in lower case. `language` is a code without a region."""
    if language in DOTTED:
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()
