"""Tables of signs: pictograms, and the characters that the normaliser of a vocabulary replaces.

Most vocabularies normalise texts by NFKC. It replaces `m²` by `m2` and `№` by `No`. For each kind
of such characters, COMPATIBILITY says whether they are protected, and why.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compatibility:
    """One kind of characters that NFKC replaces.

    Attributes:
        characters: The characters, as in a character class.
        is_kept: Whether the characters are protected. If not, the model reads the replacement.
    """

    characters: str
    is_kept: bool
    reason: str


# Superscripts and subscripts, and the letters of phonetic scripts among them.
SCRIPTS = (
    "\u00b2\u00b3\u00b9\u2070\u2071\u2074-\u208e\u2090-\u209c\u02b0-\u02b8\u02e0-\u02e4\u10fc"
    "\u1d2c-\u1d6a\u1d78\u1d9b-\u1dbf\u2c7c\u2c7d\u2d6f\ua69c\ua69d\ua770\ua7f1-\ua7f9\uab5c-\uab69"
    "\U00010780-\U000107bf"
)

_FRACTIONS = "\u00bc-\u00be\u2150-\u215f\u2189"
MEASURES = _FRACTIONS + "\u2103\u2109\u2113\u3371-\u33df\u33ff"

_LETTERLIKE = "\u2100-\u214f"
_NUMERALS = "\u2160-\u2188\u218a\u218b"
_MATHEMATICS = "\u2033-\u2037\u2057\u222c-\u2230\u2a00-\u2aff"
_ENCLOSED = "\u2460-\u24ff\u3200-\u3370\u33e0-\u33fe\U0001f100-\U0001f2ff"
_STYLED = "\U0001d400-\U0001d7ff\U0001ee00-\U0001eeff\U0001fbf0-\U0001fbf9"
_WIDE = "\uff21-\uff3a\uff41-\uff5a"

COMPATIBILITY = (
    Compatibility(SCRIPTS, True, "An exponent or an index changes its value on the line."),
    Compatibility("ªº", False, "Models translate ordinals; the sign is restored afterwards."),
    Compatibility(_FRACTIONS, True, "The digits of a fraction would join the number before it."),
    Compatibility(_LETTERLIKE, True, "Signs such as №, ℃, ™ and ℓ are symbols, not words."),
    Compatibility(_NUMERALS, True, "The letters of a numeral may be read as a word: Ⅰ as I."),
    Compatibility(_MATHEMATICS, True, "An operator of a formula has no words."),
    Compatibility(_ENCLOSED + "\u3371-\u33df\u33ff", True, "Marks of lists, eras, units, signs."),
    Compatibility(_STYLED, True, "A styled letter is a variable; a longer run is a plain word."),
    Compatibility(_WIDE, True, "A short run is a name; beside East Asian letters, it is a word."),
    Compatibility(
        "\u3000\uff01-\uff20\uff3b-\uff40\uff5b-\uff60\uffe0-\uffe6\uff61-\uffdc\uffe8-\uffee",
        False,
        "Digits, marks and Kana of East Asian widths are ordinary text.",
    ),
    Compatibility(
        "\u0132\u0133\u013f\u0140\u0149\u017f\u01c4-\u01cc\u01f1-\u01f3\u1e9a\ufb00-\ufb06\ufb13-\ufb17"
        "\ufb20-\ufb29\ufb4f\u0587",
        False,
        "A ligature is a matter of fonts; it has the meaning of its letters.",
    ),
    Compatibility(
        "\ufb50-\ufdff\ufe70-\ufefc\ufe10-\ufe19\ufe30-\ufe6b\u0675-\u0678\u309f\u30ff",
        False,
        "The form of a letter in its word, or in vertical text, has no meaning of its own.",
    ),
    Compatibility(
        "\u00a0\u2000-\u200a\u202f\u205f\u0f0c\u2011",
        False,
        "White space and hyphens tell where a line may break; the translation has other lines.",
    ),
    Compatibility(
        "\u2024-\u2026\u203c\u2047-\u2049\u2017\u203e\u00a8\u00af\u00b4\u00b8\u02d8-\u02dd\u037a\u0384"
        "\u1fbd-\u1fc0\u1ffe\u309b\u309c\u3036",
        False,
        "Marks that have the meaning of their parts; the ellipsis is restored afterwards.",
    ),
    Compatibility(
        "\u00b5\u03d0-\u03d6\u03f0-\u03f5\u03f9\u0e33\u0eb3\u0edc\u0edd\u0f77\u0f79\u20a8\u2e9f\u2ef3"
        "\u2f00-\u2fd5\u3038-\u303a\u3131-\u318e\u3192-\u319f",
        False,
        "Letters of a script, with the meaning of their usual forms.",
    ),
)

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
