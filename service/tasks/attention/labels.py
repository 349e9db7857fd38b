"""Labels of the rows and columns of an attention matrix: tokens or words."""

from collections.abc import Sequence
from dataclasses import dataclass

from model.tokenization.tokenizer import Span, TokenizedText
from service.tasks.alignment.words import text_span


@dataclass(frozen=True, slots=True)
class Labels:
    """The tokens or the words of one side of a translation.

    Attributes:
        text: The whole text.
        tokens: The vocabulary's spelling of each token, or each word as it is in the text.
        ids: Vocabulary id of each token, or list of the ids of each word.
        offsets: Place of each token or word in `text`, [start, end) in code points, without the
            white space around it. EOS has an empty place at the end.
        special: Whether each token or word is a special token, such as EOS, and not text.
        input_tokens: Decoder input from which each of `tokens` is predicted: the start token, then
            `tokens` without the last. None for a source.
    """

    text: str
    tokens: list[str]
    ids: list[int] | list[list[int]]
    offsets: list[Span]
    special: list[bool]
    input_tokens: list[str] | None = None


def token_labels(side: TokenizedText, start: str | None = None) -> Labels:
    """Labels the tokens of a text.

    Args:
        side: Source or target.
        start: Spelling of the start token; "" if the decoder starts with a zero vector. None for a
            source.
    """
    inputs = None if start is None else [start, *side.pieces[:-1]]
    return Labels(side.text, side.pieces, side.ids, side.offsets, side.special, inputs)


def word_labels(side: TokenizedText, words: Sequence[Span], start: str | None = None) -> Labels:
    """Labels the words of a text.

    Args:
        side: Source or target.
        words: Spans that `word_spans` has found.
        start: Spelling of the start token; "" if the decoder starts with a zero vector. None for a
            source.
    """
    offsets = [text_span(side, word) for word in words]
    special = [side.special[first] for first, _ in words]
    tokens = [
        side.pieces[first] if is_special else side.text[slice(*offset)]
        for (first, _), is_special, offset in zip(words, special, offsets, strict=True)
    ]
    ids = [side.ids[first:end] for first, end in words]
    inputs = None if start is None else [start, *tokens[:-1]]
    return Labels(side.text, tokens, ids, offsets, special, inputs)
