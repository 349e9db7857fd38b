"""Tells values that are code, or that code names, from values that are prose."""

import re
from collections.abc import Iterator

from service.text.letters import has_letters

# Half of a character, as in `"\ud83d"`; no model reads it.
_SURROGATE = re.compile("[\ud800-\udfff]")

# Values that are code: those without white space, and the others.
_WORD_OF_CODE = re.compile(
    r"[a-z][a-z0-9+.-]*:(?://)?\S+|[\w.+-]+@[\w.-]+|\S*[\\^=$|]\S*|\S+\(\)"
    r"|[#.][\w-]+|true|false|null|undefined|NaN|[a-z]{2}[-_][A-Z]{2}"
    r"|(?=\D*\d)[\w.:/%+-]+|\w+(?:[._\\]\w+)+|[./~]\S*/\S*"
    r"|(?:application|audio|font|image|text|video)/[\w.+-]+|[\w.-]+(?:/[\w.-]+){2,}"
    r"|[a-z]+(?:[A-Z][a-z0-9]*)+|[a-z0-9]+(?:-[a-z0-9]+){2,}"
)
MAX_CODE_CHARS = 300
_CODE = re.compile(
    r"(?:rgba?|hsla?|calc|var|url|translate\w*|rotate|scale|min|max|clamp|[a-z]+-gradient"
    r"|cubic-bezier)\(.*\)"
    r"|\d{4}-\d\d-\d\d[T ][\d:.]+ ?(?:Z|[+-]\d\d:?\d\d)?"  # timestamps
    r"|(?=.*\d(?:px|r?em|vh|vw|pt|fr|deg))-?[\d.]+\w{0,3}%?(?: [a-z0-9#.,%()-]+){0,6}"  # lengths
    r"|([a-z]+)(?: [a-z-]+){0,6}? \1-[a-z0-9-]+(?: [a-z0-9-]+){0,9}"  # classes as `fa fa-home`
    r"|(?:%-?[a-zA-Z][-/:., ]*)+"  # patterns of dates
    r"|(?=.*(?:yyyy|YYYY|MM|DD|HH|dd\W|\Wmm))(?:[yYMDdHhmsSaAEZz]{1,4}|[-/:., '\[\]T])+"
)
# Keys of values that are code if they are one word in small letters.
_KEYS_OF_CODE = frozenset(
    "id class classname icon color colour type src href url path file lang locale slug".split()
)

# A text in a formula, and an operator at its start, as in "<>Open".
_CONSTANT = re.compile(r'"([^"]*(?:""[^"]*)*)"')
_OPERATOR = re.compile("^(?:<>|[<>]=?|=)")
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")


def is_prose(value: str, key: str = "") -> bool:
    """Reports whether a value of a catalogue is a text for people."""
    words = value.strip()
    if not has_letters(words) or _SURROGATE.search(words):
        return False
    if key.lower() in _KEYS_OF_CODE and words == words.lower() and not re.search(r"\s", words):
        return False
    if len(words) > MAX_CODE_CHARS:
        return True
    return not (_CODE.fullmatch(words) or _WORD_OF_CODE.fullmatch(words))


def constants(formula: str) -> Iterator[str]:
    """Yields the texts in a formula of a workbook, and the parts of a list such as "Yes,No"."""
    for found in _CONSTANT.findall(formula):
        text = _OPERATOR.sub("", found.replace('""', '"'))
        yield text
        yield from text.split(",")


def as_compared(text: str) -> str:
    """Returns a text of a cell in the form in which a workbook compares it."""
    decoded = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    return " ".join(decoded.split()).casefold()
