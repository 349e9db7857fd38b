"""What the rows and columns of an attention matrix stand for: tokens, or words."""

from collections.abc import Sequence
from dataclasses import dataclass

from model.tokenization.tokenizer import Span, TokenizedText
from service.tasks.attention.words import text_span


@dataclass(frozen=True, slots=True)
class Labels:
    """One side of a translation, token by token or word by word.

    Attributes:
        text: All of it.
        tokens: The vocabulary's spelling of each token, or each word as it stands in the text.
        ids: The vocabulary id of each token, or the list of those of each word.
        offsets: Where each lies in `text`, [start, end) in code points, without the white space
            around it; EOS at the end.
        special: Whether each is a sign to the model (EOS) and not text.
        input_tokens: Of a target: what is put into the decoder where `tokens` are predicted, the
            same one place later. None of a source.
    """

    text: str
    tokens: list[str]
    ids: list[int] | list[list[int]]
    offsets: list[Span]
    special: list[bool]
    input_tokens: list[str] | None = None


def token_labels(side: TokenizedText, start: str | None = None) -> Labels:
    """The tokens of a text.

    Args:
        side: Source or target.
        start: Of a target: what its decoder starts from, the spelling of a token or "" for the
            zero vector.
    """
    inputs = None if start is None else [start, *side.pieces[:-1]]
    return Labels(side.text, side.pieces, side.ids, side.offsets, side.special, inputs)


def word_labels(side: TokenizedText, words: Sequence[Span], start: str | None = None) -> Labels:
    """The words of a text, found by `word_spans`; `start` as for `token_labels`."""
    offsets = [text_span(side, word) for word in words]
    special = [side.special[first] for first, _ in words]
    tokens = [
        side.pieces[first] if is_special else side.text[slice(*offset)]
        for (first, _), is_special, offset in zip(words, special, offsets, strict=True)
    ]
    ids = [side.ids[first:end] for first, end in words]
    inputs = None if start is None else [start, *tokens[:-1]]
    return Labels(side.text, tokens, ids, offsets, special, inputs)
