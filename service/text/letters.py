"""Finds letters, digits and white space in texts."""

import re

# Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Kana, Han. The string
# is used inside the brackets of a character class in regular expressions.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
Span = tuple[int, int]
"""Half-open range of code points of a text: [start, end)."""

# Line break that ends a sentence in every mode. HTML and XML do not allow this character, so the
# readers of markup put it where a block ends.
BREAK = "\x1e"

LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|$)")  # its characters and its end

UNSPACED_LETTER = re.compile(f"[{UNSPACED}]")
_LETTER = re.compile(r"[^\W\d_]")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+(?:['\u2019.&@-][^\W_{UNSPACED}]+)*")


def has_ascii_digit(text: str) -> bool:
    for digit in "0123456789":  # ten times as fast as a regular expression
        if digit in text:
            return True
    return False


def has_letters(text: str) -> bool:
    return _LETTER.search(text) is not None


def has_words(text: str) -> bool:
    return _LETTER_OR_DIGIT.search(text) is not None


def words_of(text: str) -> list[str]:
    """Returns the words of a text; each letter of a script without spaces counts as a word."""
    return _WORD.findall(text)


def words_start(text: str) -> int:
    """Returns the place of the first letter or digit of a text; its length if there is none."""
    found = _LETTER_OR_DIGIT.search(text)
    return len(text) if found is None else found.start()


def split_margins(text: str) -> tuple[str, str, str]:
    """Returns the white space before a text, the text, and the white space after it."""
    core = text.strip()
    start = len(text) - len(text.lstrip())
    return text[:start], core, text[start + len(core) :]
