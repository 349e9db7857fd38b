"""Writes quotes, dashes and ellipses plainly for a model, and as in the source in its translation.

Few vocabularies have typographic quotes and dashes. The model would lose them, so plain characters
replace them. In the translation they are put back in their order. If it has fewer or more of them,
they are put back if the source has a single style.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Self

_DOUBLE = "“”„‟«»"
_SINGLE = "‘’‚‛‹›´ʼ"
DASHES = "–—−‒―"

FOLDED = {
    **dict.fromkeys(_DOUBLE, '"'),
    **dict.fromkeys(_SINGLE, "'"),
    **dict.fromkeys(DASHES + "‐\u2011", "-"),
}
"""Maps each typographic character to the plain character that replaces it."""

_PLAIN = str.maketrans(FOLDED | {"\u00a0": " ", "\u202f": " "})

# A dash between words without spaces, but not in `5—7`. A hyphen in its place would join the words.
_TIGHT = re.compile(r"(?<=\w)[—―](?=\w)(?!(?<=\d.)\d)")

# A no-break space between two words. A number, or a name, is found again in the translation.
_NO_BREAK = re.compile("([^\\s\"'(«“‘]{1,32})([\u00a0\u202f])(?=([^\\s\"')»”’.,;:!?]{1,32}))")

# A dash inside a name, such as `Paris–London`. One of its words is found again in the translation.
_JOINT = re.compile("(?<![^\\W_])([^\\W_]{1,32})([–−‒‐\u2011])(?=([^\\W_]{1,32}))")

# Each is searched in every sentence of the translation.
MAX_JOINTS = 32

_DASH = re.compile(rf"{_TIGHT.pattern}|(?<!\S)[{DASHES}-](?![^\s.,;:!?)])")
_PLAIN_DASH = re.compile(r"(?<!\S)-(?![^\s.,;:!?)])")
_RANGE = re.compile(rf"(?<=[\d%])[{DASHES}-](?=[\d$€£¥])")
_MINUS = re.compile(rf"(?<![^\s(])[{DASHES}-](?=\d)")
_DASH_PLACES = (_RANGE, _MINUS)

_QUOTES = {
    '"': re.compile(f'[{_DOUBLE}"]'),
    "'": re.compile(rf"(?<!\w)[{_SINGLE}']|[{_SINGLE}'](?!\w)"),
}
_QUOTE = re.compile("|".join(pattern.pattern for pattern in _QUOTES.values()))
_SINGLE_MARK = re.compile(f"[{_SINGLE}']")
_CLOSING = {'"': re.compile('"'), "'": re.compile(r"(?<!\w)'|'(?!\w)")}
_APOSTROPHE = re.compile(rf"(?<=\w)[{_SINGLE}'](?=\w)")
# A quote beside another one begins a word, or closes after it: `“‘Yes,’ he said”`.
_OPENING = {
    each: re.compile(
        rf"(?<![^\s(\[{{<\-/]){each}(?=\S)|(?<=[{_DOUBLE}{_SINGLE}\"']){each}(?=[\w¿¡])"
    )
    for each in "\"'"
}


def plain(text: str) -> str:
    """Returns a text of the same length without typographic quotes, dashes and spaces."""
    return text.translate(_PLAIN)


def folded(text: str, unknown: Collection[str], keeps_length: bool) -> str:
    """Returns a text in which plain characters replace unknown typographic characters.

    Spaces are added around a dash between words, unless the text must keep its length. In that
    case such a dash stays as it is.
    """
    table = {ord(each): FOLDED[each] for each in unknown if each in FOLDED}
    if not table:
        return text
    parts: list[str] = []
    end = 0
    for dash in _TIGHT.finditer(text):
        spaced = f" {dash[0].translate(table)} "
        parts += (text[end : dash.start()].translate(table), dash[0] if keeps_length else spaced)
        end = dash.end()
    return "".join([*parts, text[end:].translate(table)])


def with_nested_quotes(source: str, translation: str) -> str:
    """Returns a translation with single quotes in the places that they have in its source.

    Models write `"` for all quotes. A translation with fewer or more quotes stays.
    """
    if not _SINGLE_MARK.search(source):
        return translation
    given, written = _QUOTE.findall(source), _QUOTE.findall(translation)
    kinds = [FOLDED.get(quote, quote) for quote in given]
    written_kinds = [FOLDED.get(quote, quote) for quote in written]
    if len(given) != len(written) or sorted(kinds) == sorted(written_kinds):
        return translation
    rows = zip(given, kinds, written, written_kinds, strict=True)
    quotes = (own if own_kind == kind else quote for quote, kind, own, own_kind in rows)
    return _QUOTE.sub(lambda _: next(quotes), translation)


@dataclass(frozen=True, slots=True)
class Typography:
    """The style of a source text; "" stands for a plain character.

    Attributes:
        quotes: Maps each plain quote to the quotes in its place, in order.
        apostrophe: Apostrophe inside a word.
        alone: Dashes between words, in order.
        dashes: Dashes between digits, and dashes in front of a digit, in order.
        ellipsis: Ellipsis.
        joints: No-break spaces and dashes inside names, each with the words before and after it.
    """

    quotes: dict[str, tuple[str, ...]]
    apostrophe: str
    alone: tuple[str, ...]
    dashes: tuple[tuple[str, ...], ...]
    ellipsis: str
    joints: tuple[tuple[str, str, str], ...]

    @classmethod
    def of(cls, text: str) -> Self:
        quotes = {}
        for plain, pattern in _QUOTES.items():
            found = [each[0] for each in pattern.finditer(text)]
            if any(each != plain for each in found):
                quotes[plain] = tuple(found)
        if "'" in quotes and '"' not in text:
            quotes.setdefault('"', quotes["'"])  # models may write the other quotes
        # Translators replace an en dash between spaces by a hyphen more often than not.
        alone = tuple(each[0].replace("–", "-") for each in _DASH.finditer(text))
        dashes = tuple(tuple(place.findall(text)) for place in _DASH_PLACES)
        ellipsis = "…" if "…" in text and "..." not in text else ""
        apostrophes = {each[0] for each in _APOSTROPHE.finditer(text)}
        found_joints = chain(_NO_BREAK.findall(text), _JOINT.findall(text))
        joints = tuple(islice(found_joints, MAX_JOINTS))
        return cls(quotes, _style(apostrophes), alone, dashes, ellipsis, joints)

    def applied(self, translation: str) -> str:
        """Returns a translation in the style of the source."""
        if self.apostrophe:
            translation = _APOSTROPHE.sub(self.apostrophe, translation)
        for plain, quotes in self.quotes.items():
            if plain in translation:
                translation = _with_quotes(translation, plain, quotes)
        for place, dashes in zip(_DASH_PLACES, self.dashes, strict=True):
            if any(dash != "-" for dash in dashes):
                style = _style({*dashes})
                in_order = _in_order(place, dashes, translation)
                translation = in_order or (place.sub(style, translation) if style else translation)
        translation = self._with_dashes(translation)
        for before, joint, after in self.joints:
            beside = _beside_space if FOLDED.get(joint) != "-" else _beside_dash
            translation = re.sub(beside(before, after), joint, translation, count=1)
        return re.sub(r"\.{3}(?!\.)", self.ellipsis, translation) if self.ellipsis else translation

    def _with_dashes(self, translation: str) -> str:
        """Replaces the dashes between spaces: by the same dash, or in the order of the source."""
        if not (found := len(_PLAIN_DASH.findall(translation))) or not self.alone:
            return translation
        is_same = found == len(self.alone)
        if not is_same and len({*self.alone}) > 1:
            return translation
        dashes = iter(self.alone if is_same else self.alone[:1] * found)
        return _PLAIN_DASH.sub(lambda _: next(dashes), translation)


def _with_quotes(translation: str, plain: str, quotes: Sequence[str]) -> str:
    """Puts the quotes of the source into a translation; if it has fewer or more, the first pair."""
    in_order = _in_order(_QUOTES[plain], quotes, translation)
    if in_order or plain in quotes:
        return in_order or translation
    opening, closing, *_ = (*quotes, quotes[0])
    return _CLOSING[plain].sub(closing, _OPENING[plain].sub(opening, translation))


def _in_order(pattern: re.Pattern[str], marks: Sequence[str], translation: str) -> str | None:
    """Puts marks in the places of a pattern; None if there are fewer or more places."""
    if len(pattern.findall(translation)) != len(marks):
        return None
    in_order = iter(marks)
    return pattern.sub(lambda _: next(in_order), translation)


def _style(found: Collection[str]) -> str:
    """Returns the only character of a set; "" for several, and for a plain one."""
    (only,) = found if len(found) == 1 else ("",)
    return "" if only in "-'" else only


def _beside_space(before: str, after: str) -> str:
    """Returns a pattern of the space that stands between two words, or beside one of them."""
    left, right = rf"(?<=(?<!\w){re.escape(before)}) ", rf" (?={re.escape(after)}(?!\w))"
    return f"{left}(?={re.escape(after)})|{left if before[-1].isdigit() else right}"


def _beside_dash(before: str, after: str) -> str:
    """Returns a pattern of the hyphen between two words, or between one of them and another one."""
    left, right = rf"(?<=(?<!\w){re.escape(before)})-", rf"-(?={re.escape(after)}(?!\w))"
    return rf"{left}(?=\w)|(?<=\w){right}"
