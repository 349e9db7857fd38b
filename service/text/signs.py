"""Characters that are protected as signs: pictograms, and characters that a vocabulary replaces.

Most vocabularies normalise texts by NFKC. It replaces `m²` by `m2` and `№` by `No`. The characters
below are kept. The model reads the replacements of all others, such as ligatures and the digits of
East Asian widths. They have the meaning of their parts.
"""

import re

# Superscripts and subscripts, and the letters of phonetic scripts among them. An exponent or an
# index changes its value on the line.
SCRIPTS = (
    "\u00b2\u00b3\u00b9\u2070\u2071\u2074-\u208e\u2090-\u209c\u02b0-\u02b8\u02e0-\u02e4\u10fc"
    "\u1d2c-\u1d6a\u1d78\u1d9b-\u1dbf\u2c7c\u2c7d\u2d6f\ua69c\ua69d\ua770\ua7f1-\ua7f9\uab5c-\uab69"
    "\U00010780-\U000107bf"
)

_FRACTIONS = "\u00bc-\u00be\u2150-\u215f\u2189"  # the digits would join the number before it
MEASURES = _FRACTIONS + "\u2103\u2109\u2113\u3371-\u33df\u33ff"

_LETTERLIKE = "\u2100-\u214f"  # symbols, not words: №, ℃, ™ and ℓ
_NUMERALS = "\u2160-\u2188\u218a\u218b"  # the letters may be read as a word: Ⅰ as I
_MATHEMATICS = "\u2033-\u2037\u2057\u222c-\u2230\u2a00-\u2aff"
_ENCLOSED = "\u2460-\u24ff\u3200-\u3370\u33e0-\u33fe\U0001f100-\U0001f2ff"  # marks of lists, eras

# A short run of styled or wide letters is a variable or a name. A longer run is a plain word.
_STYLED = "\U0001d400-\U0001d7ff\U0001ee00-\U0001eeff\U0001fbf0-\U0001fbf9"
_WIDE = "\uff21-\uff3a\uff41-\uff5a"

_SYMBOLS = (
    "\u2190-\u2211\u2213-\u23ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff\ue000-\uf8ff"
    f"\U000f0000-\U0010fffd{_FRACTIONS}{_LETTERLIKE}{_NUMERALS}{_MATHEMATICS}{_ENCLOSED}"
    "\u3371-\u33df\u33ff"
)
JOINERS = "\ufe0f\u200d\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"

_DIRECTIONS = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069"
_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
MAX_STYLED_CHARS = 4

# Signs, the ellipsis and no-break spaces. Most texts of European languages have none of the
# characters of the first pattern, which is faster.
_MAYBE = re.compile("[\u00a0\u00bc-\u00be\u0100-\U0010ffff]")
_SOME = re.compile(f"[{_SYMBOLS}{_STYLED}{_WIDE}{_DIRECTIONS}…\u00a0\u202f]")

# Arrows, emoji, private-use characters, and the kept kinds above. No model copies them. The marks
# of directions are part of the spelling beside the letters of a script that they belong to.
SIGNS = re.compile(
    f"[{_SYMBOLS}][{_SYMBOLS}{JOINERS}]*"
    rf"|(?<!\w)(?:[{_STYLED}]{{1,{MAX_STYLED_CHARS}}}|[{_WIDE}]{{1,{MAX_STYLED_CHARS}}})(?!\w)"
    f"|(?<![{_RIGHT_TO_LEFT}])[{_DIRECTIONS}]+(?![{_RIGHT_TO_LEFT}])"
)


def has_signs(text: str) -> bool:
    """Returns whether a text may have a sign, an ellipsis or a no-break space."""
    if text.isascii() or not _MAYBE.search(text):
        return False
    return _SOME.search(text) is not None
