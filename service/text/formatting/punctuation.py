"""Gives a translation the final punctuation of its source, in the script of the translation.

The module also restores `º` and `ª`.
"""

import re
import unicodedata
from collections.abc import Mapping

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
"""Maps each final mark in its plain form to its forms in all scripts."""

CLOSING = "\"'”’»›)]}）」』】"
"""Characters that may follow the final mark of a sentence."""

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
"""Maps a script with marks of its own to a table that replaces plain marks by these marks.

In a table, None removes a mark.
"""

_MARKS = {form: mark for mark, forms in FORMS.items() for form in forms}
_SPACE = " \t\u00a0\u202f\u3000"
_ENDING = "".join(_MARKS) + _SPACE
_TAIL = _ENDING + CLOSING
_ABBREVIATION = re.compile(r"\w\.\s?\w+\.$|\b\w\.$")

_ORDINAL = re.compile(r"(?<![\d.,])(\d{1,9})\.?([ºªoa])(?!\w)")
_NUMBERED = re.compile(r"(?<!\w)[Nn]\.?º\.?\s?(\d{1,9})")
_FOLDED_SIGN = re.compile(r"(?<!\w)[Nn]\.?o(?=\s?(\d{1,9}))")  # not the English "No. 5"

_GENDER = re.compile(r"\s\(\w{1,3}\)$")
"""A last word of at most three characters in brackets.

Models add such words to short texts: the ending of the other gender, such as ` (a)`.
"""


def with_ending(source: str, translation: str) -> str:
    """Returns a translation that ends with the punctuation of its source.

    If source and translation end with the same marks, only the spelling of an ellipsis may change.
    If one of them ends with an abbreviation, no mark changes. A mark before a closing quote or
    bracket does not change either, because languages differ in the order of mark and quote.
    A last word of at most three characters in brackets is removed, unless the source has an opening
    bracket. Such a word is usually the ending of the other gender, as in ` (a)`.

    Args:
        source: The sentence as the client wrote it.
        translation: Its translation.
    """
    if translation.endswith(")") and not set("(\uff08[\uff3b") & set(source):
        translation = _GENDER.sub("", translation)
    if _ends_plainly(source) and _ends_plainly(translation) and source[-1] == translation[-1]:
        return translation
    wanted, found = _marks(source), _marks(translation)
    if wanted == found:
        return _with_ellipsis(source, translation)
    if _is_abbreviation(source) or _is_abbreviation(translation):
        return translation
    body = translation.rstrip(_ENDING)
    if not body or (wanted and (source[-1] in CLOSING or body[-1] in CLOSING)):
        return translation
    return _with_ellipsis(source, body + _in_script(wanted, body))


def with_ordinals(source: str, translation: str) -> str:
    """Restores the `º` and `ª` of ordinals such as `2º` and `nº 5`.

    Normalisers of vocabularies replace them by `o` and `a`. An ordinal in another form, such as
    `2nd`, stays.
    """
    if "º" not in source and "ª" not in source:
        return translation
    ordinals, numbers = set(_ORDINAL.findall(source)), set(_NUMBERED.findall(source))

    def ordinal(found: re.Match[str]) -> str:
        digits, sign = found[1], {"o": "º", "a": "ª"}.get(found[2], found[2])
        return digits + sign if (digits, sign) in ordinals else found[0]

    def numbered(found: re.Match[str]) -> str:
        return f"{found[0][0]}º" if found[1] in numbers else found[0]

    return _FOLDED_SIGN.sub(numbered, _ORDINAL.sub(ordinal, translation))


def has_ending(text: str) -> bool:
    """Returns whether a text ends with a mark."""
    return text[-1:] in _MARKS


def _is_abbreviation(text: str) -> bool:
    """Returns whether the end of a text is an abbreviation, such as `p.m.`."""
    return text.endswith(".") and _ABBREVIATION.search(text) is not None


def _ends_plainly(text: str) -> bool:
    """Returns whether a text ends with at most one mark, and not with a semicolon.

    A semicolon may be a Greek question mark.
    """
    return text[-2:-1].isalnum() and text[-1] != ";"


def _marks(text: str) -> str:
    """Returns the final marks of a text without closing characters, in their plain form."""
    tail = text[len(text.rstrip(_TAIL)) :]
    if len(tail) < 2:
        marks = _MARKS.get(tail, "")
    else:
        marks = "".join(_MARKS.get(char, "") for char in tail)
        marks = re.sub("…+", "…", marks.replace("...", "…"))
    if ";" in marks and _script(text) == "GREEK":
        marks = marks.replace(";", "?")
    return marks


def _with_ellipsis(source: str, translation: str) -> str:
    """Returns a translation whose final ellipsis is spelled like the ellipsis of the source."""
    for spelling, other in (("...", "…"), ("…", "...")):
        if source.endswith(spelling) and translation.endswith(other):
            return translation.removesuffix(other) + spelling
    return translation


def _in_script(marks: str, body: str) -> str:
    """Returns plain marks in the form that the script of a text uses."""
    return marks.translate(SCRIPTS.get(_script(body), {}))


def _script(text: str) -> str:
    """Returns the script of the last letter of a text, such as LATIN; "" without a letter."""
    letter = next((char for char in reversed(text) if char.isalpha()), "")
    return unicodedata.name(letter, "").partition(" ")[0] if letter else ""
