"""Cleans texts: composes accents, and drops characters that no reader sees.

A model takes a letter with a separate accent for an unknown word, and a soft hyphen for the end of
a word. A joiner stays where a script or an emoji needs it. So do the marks of bidirectional text.
"""

import re
import unicodedata

from service.text.letters import UNSPACED, Span

# Control characters, except for white space; deprecated format characters; annotations.
_CONTROLS = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u206a-\u206f\ufff9-\ufffb"

# Soft hyphen, word joiner, invisible operators of formulas, and the byte order mark.
_INVISIBLE = "\u00ad\u2060-\u2064\ufeff"

# Letters beside which ZWJ and ZWNJ are part of the spelling: the Arabic, Indic, Mongolian and
# Indonesian scripts.
_JOINED = "\u0600-\u109f\u1780-\u18af\u1a00-\u1cff\ua800-\uabff\ufb50-\ufefc\U00010f00-\U00011fff"

# Characters that ZWJ may join in an emoji.
_EMOJI = "\u2190-\u2bff\ufe0f\u20e3\U0001f000-\U000e007f"

_DROPPED = re.compile(
    rf"[{_CONTROLS}{_INVISIBLE}]+"
    rf"|(?<![{UNSPACED}])\u200b+"  # ZWSP, which separates words in scripts without spaces
    rf"|(?<![{_JOINED}])\u200c+"
    rf"|(?<![{_JOINED}{_EMOJI}])\u200d+"
)

# A letter of a Korean syllable that NFC composes with the letter before it.
_KOREAN = re.compile("[\u1160-\u11ff]")


def cleaned(text: str) -> str:
    """Returns a text in NFC, without control characters and invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return unicodedata.normalize("NFC", _DROPPED.sub("", text))


def origins(text: str) -> list[Span]:
    """Returns the span in a text of each character of `cleaned(text)`."""
    dropped = {place for found in _DROPPED.finditer(text) for place in range(*found.span())}
    clusters: list[list[int]] = []
    for place, char in enumerate(text):
        if place in dropped:
            continue
        follows = unicodedata.category(char)[0] == "M" or _KOREAN.match(char)
        if clusters and follows:
            clusters[-1].append(place)
        else:
            clusters.append([place])
    spans = []
    for cluster in clusters:
        composed = unicodedata.normalize("NFC", "".join(text[place] for place in cluster))
        spans += [(cluster[0], cluster[-1] + 1)] * len(composed)
    return spans
