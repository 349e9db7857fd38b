"""Joins indices with their bases, and separates words that only tags separate.

A model reads a sentence without its tags. It would read `106` for `10<sup>6</sup>`, and one word
for `<x>big</x><y>red</y>`.
"""

import re
from collections.abc import Callable, Sequence
from html import escape

from service.text.letters import UNSPACED_LETTER, has_words
from service.text.markup import Kind, Token

_SIGN = "[-+\u2212]"

# The text of an exponent, an index or the mark of a footnote: `6`, `n+1`, `i,j`, `1.5`, `[2]`, `*`.
_INDEX = re.compile(
    rf"{_SIGN}?[^\W_]{{1,4}}(?:{_SIGN}[^\W_]{{0,2}}|[.,/][^\W_]{{1,3}})?"
    r"|\[\w{1,4}\]|[*\u2020\u2021\u00a7\u00b6\u2032\u2033]{1,3}"
)
_LONG_INDEX = re.compile(r"[^\W\d_]{5,8}")  # only of a letter or two: `P<sub>total</sub>`

_BASE = re.compile(
    r"(?<![^\W_])(?:[^\W\d_]=)?(?:(?:\d[\d.,]*\s?[×x·⋅*]\s?)?\d[\d.,]*|[^\W\d_]{1,2})$"
)
_SUBSCRIPT_BASE = re.compile(rf"{_BASE.pattern}|(?<![^\W_])[^\W\d_]{{1,8}}$")
MAX_BASE_CHARS = 64
_AFTER_INDEX = re.compile(r"[^\W_]{1,2}(?![^\W_])")
_SCRIPT_TAG = re.compile(r"<[^\s>]*?su(?P<is_sub>b)?(?(is_sub)|p)", re.IGNORECASE)

_ORDINAL_ENDINGS = "oaeºª"  # of one letter; others, such as `1<sup>st</sup>`, are longer

MAX_NESTED = 3
"""Largest number of elements around an index: a link in `<sup>`, for example."""

# Tags inside a word: comments, processing instructions, places where a long word may be broken.
_INSIDE_WORD = re.compile(r"<(?:[!?]|wbr\b)", re.IGNORECASE)

MAX_WORD_CHARS = 64
_LAST_WORD = re.compile(r"[^\W_]+$")
_FIRST_WORD = re.compile(r"[^\W_]+")


def join_indices(tokens: Sequence[Token]) -> list[Token]:
    """Returns tokens in which each index and its base are one opaque token.

    In `theory<sup>1</sup>` the element alone becomes opaque, because the word must be translated.
    """
    joined: list[Token] = []
    place = 0
    while place < len(tokens):
        before = _text_before(joined)
        end = place + _index_length(before, tokens, place)
        if end == place:
            joined.append(tokens[place])
            place += 1
            continue
        base, rest = _taken_base(joined, tokens[place:end]), ""
        if base:
            end, rest = _end_of_index(tokens, end)
        joined.append(_opaque([*base, *tokens[place:end], Token(Kind.TEXT, rest)]))
        place = end
        if rest:
            joined.append(Token(Kind.TEXT, tokens[end].source.removeprefix(rest)))
            place += 1
    return joined


def _opaque(tokens: Sequence[Token]) -> Token:
    return Token(
        Kind.OPAQUE,
        "".join(
            escape(each.source, quote=False) if each.kind is Kind.TEXT else each.source
            for each in tokens
        ),
    )


def _text_before(tokens: Sequence[Token]) -> str:
    """Returns the text that the next tag touches, also across one end tag."""
    if not tokens:
        return ""
    last = tokens[-2] if tokens[-1].kind is Kind.CLOSE and len(tokens) > 1 else tokens[-1]
    return last.source if last.kind in (Kind.TEXT, Kind.OPAQUE) else ""


def _index_length(before: str, tokens: Sequence[Token], place: int) -> int:
    """Returns the number of tokens of the index or footnote mark at a place; 0 if none is there.

    It is short, and touches the text `before` it. Its element may have any name if the index has a
    digit, because documents use other names than `sup` and `sub`.
    """
    depth = 0
    for token in tokens[place : place + MAX_NESTED]:
        if token.kind is not Kind.OPEN:
            break
        depth += 1
    middle, length = place + depth, 2 * depth + 1
    kinds = [token.kind for token in tokens[middle : place + length]]
    if not depth or kinds != [Kind.TEXT, *[Kind.CLOSE] * depth]:
        return 0
    script = _script(tokens[place:middle])
    return length if _is_index(before, tokens[middle].source, script) else 0


def _script(tags: Sequence[Token]) -> re.Match[str] | None:
    return next(filter(None, (_SCRIPT_TAG.match(tag.source) for tag in tags)), None)


def _is_index(before: str, content: str, script: re.Match[str] | None) -> bool:
    last = before[-1:]
    if not last or last.isspace():
        return False
    if _LONG_INDEX.fullmatch(content):
        is_sub = script is not None and script["is_sub"] is not None
        return is_sub and _BASE.search(before[-MAX_BASE_CHARS:]) is not None
    if not _INDEX.fullmatch(content):
        return False
    if not content.isalpha():
        return script is not None or (last.isalnum() and has_words(content))
    is_ordinal = last.isdigit() and (len(content) > 1 or content in _ORDINAL_ENDINGS)
    return script is not None and last.isalnum() and not is_ordinal


def _taken_base(joined: list[Token], index: Sequence[Token]) -> list[Token]:
    """Removes the base of an index from the end of the tokens before it, and returns the base.

    The base may be an element, as in `<i>m</i><sup>3</sup>`. The mark of a footnote has no base.
    """
    script, content = _script(index), index[len(index) // 2].source
    if content.startswith("[") or not has_words(content):
        return []
    pattern = _SUBSCRIPT_BASE if script and script["is_sub"] else _BASE
    text = joined[-1].source
    if joined[-1].kind is Kind.TEXT:
        found = pattern.search(text, max(0, len(text) - MAX_BASE_CHARS))
        if found is None:
            return []
        joined[-1] = Token(Kind.TEXT, text[: found.start()])
        return [Token(Kind.TEXT, found[0])]
    base, is_inside = joined[-3:], _text_before(joined[-5:-3])[-1:].isalnum()
    kinds = [token.kind for token in base]
    if is_inside or script is None or kinds != [Kind.OPEN, Kind.TEXT, Kind.CLOSE]:
        return []
    if not pattern.fullmatch(base[1].source[-MAX_BASE_CHARS:]):
        return []
    del joined[-3:]
    return base


def _end_of_index(tokens: Sequence[Token], end: int) -> tuple[int, str]:
    """Returns the place after adjacent indices, and the start of the text that belongs to them.

    An example is the `O` in `C<sub>6</sub>H<sub>12</sub>O`.
    """
    while end < len(tokens):
        text = tokens[end].source if tokens[end].kind is Kind.TEXT else ""
        start = end + bool(text)
        length = _index_length(text or "0", tokens, start) if len(text) <= 2 else 0
        if not length:
            break
        end = start + length
    found = _AFTER_INDEX.match(text) if end < len(tokens) and text else None
    return end, found[0] if found else ""


def separated(tokens: Sequence[Token], count: Callable[[str], int] = len) -> list[Token]:
    """Puts a space between two words that only tags separate, as in `<x>big</x><y>red</y>`.

    A start tag alone, or an end tag alone, separates no words: `un<b>happy</b>`. Neither does a
    comment.

    Args:
        count: Returns the number of tokens of a text. Two parts are one word if the word has fewer
            tokens than the parts have together.
    """
    found: list[Token] = []
    between: list[Token] = []
    before = ""
    for token in tokens:
        if token.kind is not Kind.TEXT:
            between.append(token)
            continue
        gap = _gap(between) if between else None
        if gap is not None and _are_words(before, token.source, count):
            between.insert(gap, Token(Kind.TEXT, " "))
        found += (*between, token)
        between, before = [], token.source
    return [*found, *between]


def _gap(tags: Sequence[Token]) -> int | None:
    """Returns the index of the tag before which a new word begins; None if there is none."""
    is_closed = False
    found = None
    for number, tag in enumerate(tags):
        if tag.kind in (Kind.BLOCK, Kind.OPAQUE):
            return None
        is_closed = is_closed or tag.kind is Kind.CLOSE
        is_gap = tag.kind is Kind.OPEN and is_closed
        is_gap = is_gap or (tag.kind is Kind.EMPTY and not _INSIDE_WORD.match(tag.source))
        found = number if is_gap and found is None else found
    return found


def _are_words(before: str, after: str, count: Callable[[str], int]) -> bool:
    """Returns whether two texts that touch are two words, or two sentences."""
    left = _LAST_WORD.search(before[-MAX_WORD_CHARS:])
    right = _FIRST_WORD.match(after[:MAX_WORD_CHARS])
    if right is None or UNSPACED_LETTER.match(right[0]):
        return False
    if left is None:
        return before[-1:] in {*".,;:!?\u2026)"} and right[0][0].isalpha()
    return count(left[0] + right[0]) >= count(left[0]) + count(right[0])
