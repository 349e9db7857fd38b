"""Kinds of the tokens of markup, in short."""

from collections.abc import Iterable

from service.text.markup import Kind, Token

LETTERS = {
    **{Kind.TEXT: "t", Kind.OPEN: "o", Kind.CLOSE: "c"},
    **{Kind.EMPTY: "e", Kind.BLOCK: "B", Kind.OPAQUE: "x"},
}


def kinds(tokens: Iterable[Token]) -> str:
    """A letter for the kind of each token."""
    return "".join(LETTERS[token.kind] for token in tokens)
