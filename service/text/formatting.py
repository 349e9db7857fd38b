"""Gives translations the case and the final punctuation of their sources.

A model has seen few sentences in ALL CAPS and leaves their words untranslated. The model therefore
gets such a sentence in lower case with a capital first letter, and its translation is put into
ALL CAPS. The markers of protected spans are private-use characters, which have no case.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from model.tokenization.tokenizer import Tokenizer
from service.text.chunking import ChunkedText
from service.text.language_codes import known_locale
from service.text.letters import has_ascii_digit
from service.text.protection import FIRST_MARKER
from service.text.typography import with_nested_quotes

# Words that English Title Case leaves in lower case.
SMALL_WORDS = frozenset(
    "a an and as at by for from if in into nor of off on or per the to up via vs with".split()
)

# Length of the shortest word that gets a capital letter if a translation is put into Title Case.
# Shorter words are mostly articles and prepositions.
MIN_TITLE_CHARS = 4

MAX_TITLE_CHARS = 100

# Languages that write every noun with a capital letter, and have no Title Case.
NOUN_CAPITALS = frozenset({"de", "lb"})

# Languages in which the capital letter of i is İ.
DOTTED = ("az", "tr")

_MARKER = chr(FIRST_MARKER)
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_WORD_WITH_TAGS = re.compile("(?<!\\w)[^\\W\\d_](?:[\\w'’-]|[\U000f0000-\U0010fffd]++(?=\\w))*")
_FIRST = re.compile("[\\w\U000f0000-\U0010fffd]['’\\w-]*")

# Maps each final mark in its plain form to its forms in all scripts.
FORMS = {
    ".": ".。．｡।॥۔։።",
    "?": "?？؟",
    "!": "!！",
    ",": ",，、،",
    ";": ";；؛",
    ":": ":：",
    "…": "…",
    "-": "-–—",
}

# Characters that may follow the final mark of a sentence.
CLOSING = "\"'”’»›)]}）」』】"

# Maps a script with marks of its own to a table that replaces plain marks by these marks, or
# removes them.
SCRIPTS: Mapping[str, Mapping[int, int | None]] = {
    "CJK": str.maketrans(".?!,;:", "。？！，；："),
    "HIRAGANA": str.maketrans(".?!,;:", "。？！、；："),
    "KATAKANA": str.maketrans(".?!,;:", "。？！、；："),
    "ARABIC": str.maketrans("?,;", "؟،؛"),
    "DEVANAGARI": str.maketrans(".", "।"),
    "BENGALI": str.maketrans(".", "।"),
    "GREEK": str.maketrans("?", ";"),
    "THAI": str.maketrans("", "", "."),
    "LAO": str.maketrans("", "", "."),
}

_MARKS = {form: mark for mark, forms in FORMS.items() for form in forms}
_ENDING = "".join(_MARKS) + " \t\u00a0\u202f\u3000"
_TAIL = _ENDING + CLOSING
_ABBREVIATION = re.compile(r"\w\.\s?\w+\.$|\b\w\.$")

_TIGHT_HYPHEN = re.compile(r"(?<![^\W_])([^\W_]{1,32})-(?=([^\W_]{1,32}))")
_SPACED_HYPHEN = re.compile(r"(?<![^\W_])([^\W_]{1,32}) - (?=([^\W_]{1,32}))")

# A text with one mark of a key, `&` or `_`, inside a word.
_KEY = re.compile(
    r"([^&_]*?)((?<![\w;])[A-Z][a-z]{0,20})([&_])([a-z]{1,20}(?![\w;]))([^&_]*)", re.DOTALL
)

_TO_SIGNS = str.maketrans("oa", "ºª")
_ORDINAL = re.compile(r"(?<![\d.,])(\d{1,9})\.?([ºªoa])(?!\w)")
_NUMBERED = re.compile(r"(?<!\w)[Nn]\.?º\.?\s?(\d{1,9})")
_FOLDED_SIGN = re.compile(r"(?<!\w)[Nn]\.?o(?=\s?(\d{1,9}))")  # not the English "No. 5"

# Languages that write ordinals with `º` and `ª`, which few vocabularies have.
_ORDINAL_LANGUAGES = frozenset("ca es gl it pt".split())
_PLAIN_ORDINAL = re.compile(r"(?<![\w.,])(?:\d{1,4}(?=[oa](?!\w))|[Nn]\.(?=o\s?\d))[oa]")

# A text in brackets, without other brackets inside.
_IN_BRACKETS = re.compile(r"([(\[（［])([^()\[\]（）［］]+)([)\]）］])")

# A last word of at most three characters in brackets. Models add such words to short texts: the
# ending of the other gender, such as ` (a)`.
_GENDER = re.compile(r"\s\(\w{1,3}\)$")


def formatted(
    source: str, translation: str, languages: tuple[str, str], terms: Collection[str] = ()
) -> str:
    """Returns a translation with the case, quotes and final punctuation of its source sentence.

    Markers of tags at the ends of the translation stay there. A missing final mark follows them.

    Args:
        languages: Codes of source and target.
        terms: Words of a glossary that keep their capital letters.
    """
    translation = with_nested_quotes(source, translation.strip())
    if " -" in translation or " /" in translation or "/ " in translation:
        translation = _with_tight_marks(source, translation)
    if "º" in source or "ª" in source:
        translation = with_ordinals(source, translation)
    elif has_ascii_digit(translation):
        translation = _with_ordinal_signs(source, translation, languages[1])
    # The markers of tags are not in the source.
    first, last = 0, len(translation)
    while first < last and (char := translation[first]) >= _MARKER and char not in source:
        first += 1
    while first < last and (char := translation[last - 1]) >= _MARKER and char not in source:
        last -= 1
    head, body, tail = translation[:first], translation[first:last], translation[last:]
    ended = with_ending(source, body)
    is_added = ended.startswith(body) and body[-1:] not in _MARKS
    added = ended[len(body) :] if is_added else ""
    cased = with_case(source, ended.removesuffix(added), languages, terms)
    return head + cased + tail + added


def _with_tight_marks(source: str, translation: str) -> str:
    """Removes the spaces around slashes and hyphens that have none in the source.

    A word beside the hyphen must be in the source, as in `12-A`. Others may stand for a dash.
    """
    if not re.search(r"\s/|/\s", source):
        translation = re.sub(r"(?<=\S) ?/ ?(?=\S)", "/", translation)

    tight = _TIGHT_HYPHEN.findall(source)
    before, after = {left for left, _ in tight}, {right for _, right in tight}

    def joined(found: re.Match[str]) -> str:
        return f"{found[1]}-" if found[1] in before or found[2] in after else found[0]

    return _SPACED_HYPHEN.sub(joined, translation) if tight else translation


def with_key_first(text: str, tokenizer: Tokenizer) -> str:
    """Moves the mark of a key inside a word to its start: `Sa&ve` to `&Save`.

    `Drag&drop` stays, because the vocabulary has no token that contains the end of the first word
    and the start of the second one.
    """
    if ("&" not in text and "_" not in text) or len(text) > MAX_TITLE_CHARS:
        return text
    if (found := _KEY.fullmatch(text)) is None:
        return text
    before, start, mark, end, after = found.groups()
    word = tokenizer.tokenize(start + end)
    if any(first == len(start) for first, _ in word.offsets):
        return text
    return f"{before}{mark}{start}{end}{after}"


def lower_capitals(chunked: ChunkedText, tokenizer: Tokenizer, limit: int, language: str) -> None:
    """Changes sentences in ALL CAPS to sentence case, because models know few words in capitals.

    A word such as `USB`, which has fewer tokens in capitals, stays. A sentence stays if it would
    have more than `limit` tokens, or another number of characters: its tags must keep their places.
    In other sentences, words are changed whose capital letters the vocabulary does not have.
    """
    has_unknown = tokenizer.unk_id in chain.from_iterable(chunked.sources)
    if not (has_unknown or any(map(str.isupper, chunked.segments.sentences))):
        return
    language = language.partition("-")[0]

    def is_known(word: str) -> bool:
        lowered = _lower_case(word, language)
        return len(tokenizer.encode(word)) < len(tokenizer.encode(lowered))

    sentences = list(chunked.segments.sentences)
    for index, sentence in enumerate(sentences):
        lowered = sentence
        if is_all_caps(sentence):
            lowered = sentence_case(sentence, language, is_known)
        if has_unknown:
            lowered = tokenizer.lowered(lowered)
        if lowered != sentence:
            ids = tokenizer.encode(lowered)
            if len(ids) <= limit and len(lowered) == len(sentence):
                sentences[index], chunked.sources[index] = lowered, ids
    chunked.segments = replace(chunked.segments, sentences=tuple(sentences))


def is_all_caps(text: str) -> bool:
    """Returns whether a text has two letters or more, and all of them are capital letters."""
    if not text.isupper():
        return False
    letters = [char for char in text if char.isalpha()]
    return len(letters) > 1 and all(map(str.isupper, letters))


def sentence_case(text: str, language: str, is_known: Callable[[str], bool]) -> str:
    """Converts a sentence in ALL CAPS to lower case with a capital first letter.

    A sentence of one or two letters, such as `OK`, stays as it is, and so do known words.
    """
    if sum(map(str.isalpha, text)) < 3:
        return text

    def replaced(word: re.Match[str]) -> str:
        return word[0] if is_known(word[0]) else _lower_case(word[0], language)

    lowered = _WORD.sub(replaced, text)
    return _WORD.sub(lambda word: _capitalized(word[0], language), lowered, count=1)


def lower_titles(text: str, language: str) -> str:
    """Converts a text in Title Case to sentence case; other texts stay as they are.

    A word with a capital letter inside stays, such as `USB`.
    """
    if not is_title_case(text) or language.partition("-")[0] in NOUN_CAPITALS:
        return text
    first = _WORD.search(text)
    start = len(text) if first is None else first.end()

    def lowered(word: re.Match[str]) -> str:
        return _lower_case(word[0], language) if word[0][1:].islower() else word[0]

    return text[:start] + _WORD.sub(lowered, text[start:])


def with_case(
    source: str, translation: str, languages: tuple[str, str], terms: Collection[str] = ()
) -> str:
    """Returns a translation with the case of its source. The arguments are those of `formatted`."""
    target_code = languages[1].partition("-")[0]
    if source.isupper() and is_all_caps(source):
        return _upper(translation, target_code)
    source_code = languages[0].partition("-")[0]
    if is_title_case(source) and not NOUN_CAPITALS.intersection((source_code, target_code)):
        translation = _WORD_WITH_TAGS.sub(
            lambda word: _capitalized(word[0], target_code, MIN_TITLE_CHARS), translation
        )
    first, begin = source[:1], translation[:1]
    if first.isupper() and begin.isupper() and (first + begin).isalpha():
        return translation  # as in most sentences
    given, found = _FIRST.search(source), _FIRST.search(translation)
    while found and (char := found[0][0]) >= _MARKER and char not in source:  # of a tag
        found = _FIRST.search(translation, found.start() + 1)
    if given is None or found is None or found[0] in terms:
        return translation
    word = _like(given[0], found[0], target_code)
    return translation[: found.start()] + word + translation[found.end() :]


def is_title_case(text: str) -> bool:
    """Returns whether a text has two capitalised words, and SMALL_WORDS only after the first one.

    A text that ends with one full stop is probably a sentence that contains names.
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
    """Gives the first word of a translation the case of its source, unless capitals are inside."""
    if not found[0].isalpha() or not found[1:].islower() and len(found) > 1:
        return found
    if given[0].isupper() and found[0].islower():
        return _upper(found[0], language) + found[1:]
    is_lower = given.islower() and given[0].isalpha()
    if not is_lower or not found[0].isupper() or not _is_common(found, language):
        return found
    return _lower_case(found[0], language) + found[1:]


def _is_common(word: str, language: str) -> bool:
    """Returns whether a capitalised word would begin with a small letter inside a sentence."""
    if language in NOUN_CAPITALS or (language == "en" and re.split("['\u2019]", word)[0] == "I"):
        return False
    return word not in _names(language)


@lru_cache(maxsize=256)
def _names(language: str) -> frozenset[str]:
    """Returns the capitalised words in the names of days, months, languages and countries."""
    if (locale := known_locale(language)) is None:
        return frozenset()
    calendars = (locale.days["format"]["wide"], locale.months["format"]["wide"])
    tables = (*calendars, locale.languages, locale.territories)
    words = (word for table in tables for name in table.values() for word in _WORD.findall(name))
    return frozenset(word for word in words if word[0].isupper())


def _capitalized(word: str, language: str, min_chars: int = 1) -> str:
    return _dotted(word[0], language).title() + word[1:] if len(word) >= min_chars else word


def _upper(text: str, language: str) -> str:
    return _dotted(text, language).upper()


def _dotted(text: str, language: str) -> str:
    return text.replace("i", "İ") if language in DOTTED else text


def _lower_case(text: str, language: str) -> str:
    if language in DOTTED:
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()


def with_ending(source: str, translation: str) -> str:
    """Returns a translation that ends with the punctuation of its source.

    If one of them ends with an abbreviation, no mark changes. A mark before a closing quote does
    not change either, because languages differ in the order of mark and quote. If the source has
    the same quote or bracket before its mark, the mark follows it. If both texts are
    in brackets, the mark is inside of them. A word of `_GENDER` is removed, unless the source has
    an opening bracket.
    """
    if translation.endswith(")") and not set("(\uff08[\uff3b") & set(source):
        translation = _GENDER.sub("", translation)
    before, mark = source[-2:-1], source[-1:]
    if before.isalnum() and translation[-2:-1].isalnum() and translation[-1] == mark != ";":
        return translation  # as in most sentences; no Greek question mark
    given, found = map(_IN_BRACKETS.fullmatch, (source, translation))
    if given and found:
        return found[1] + with_ending(given[2], found[2]) + found[3]
    wanted = _marks(source)
    if wanted == _marks(translation):
        return _with_ellipsis(source, translation)
    if _is_abbreviation(source) or _is_abbreviation(translation):
        return translation
    body = translation.rstrip(_ENDING)
    closes = body[-1:] in CLOSING and body[-1:] != source.rstrip(_ENDING)[-1:]
    if not body or (wanted and (source[-1] in CLOSING or closes)):
        return translation
    return _with_ellipsis(source, body + wanted.translate(SCRIPTS.get(_script(body), {})))


def with_ordinals(source: str, translation: str) -> str:
    """Restores the `º` and `ª` of ordinals, which normalisers replace by `o` and `a`."""
    ordinals, numbers = set(_ORDINAL.findall(source)), set(_NUMBERED.findall(source))

    def ordinal(found: re.Match[str]) -> str:
        digits, sign = found[1], found[2].translate(_TO_SIGNS)
        return digits + sign if (digits, sign) in ordinals else found[0]

    def numbered(found: re.Match[str]) -> str:
        return f"{found[0][0]}º" if found[1] in numbers else found[0]

    return _FOLDED_SIGN.sub(numbered, _ORDINAL.sub(ordinal, translation))


def _with_ordinal_signs(source: str, translation: str, language: str) -> str:
    """Writes `1º` for `1o`, and `n.º 2` for `n.o 2`, unless the source has the letter too."""
    if language.partition("-")[0] not in _ORDINAL_LANGUAGES:
        return translation
    return _PLAIN_ORDINAL.sub(
        lambda found: found[0] if found[0] in source else found[0].translate(_TO_SIGNS),
        translation,
    )


def _is_abbreviation(text: str) -> bool:
    return text.endswith(".") and _ABBREVIATION.search(text) is not None


def _marks(text: str) -> str:
    """Returns the final marks of a text without closing characters, in their plain form.

    Marks before a space are left out: in `Hello, !`, a tag may have been between the two.
    """
    tail = text[len(text.rstrip(_TAIL)) :]
    if len(tail) < 2:
        marks = _MARKS.get(tail, "")
    else:
        marks = "".join(_MARKS.get(char, "") for char in (tail.split() or [""])[-1])
        marks = re.sub("…+", "…", marks.replace("...", "…"))
    if ";" in marks and _script(text) == "GREEK":
        marks = marks.replace(";", "?")
    return marks


def _with_ellipsis(source: str, translation: str) -> str:
    for spelling, other in (("...", "…"), ("…", "...")):
        if source.endswith(spelling) and translation.endswith(other):
            return translation.removesuffix(other) + spelling
    return translation


def _script(text: str) -> str:
    letter = next((char for char in reversed(text) if char.isalpha()), "")
    return unicodedata.name(letter, "").partition(" ")[0] if letter else ""
