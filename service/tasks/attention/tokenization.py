"""Tokenises texts that must each fit into one sequence."""

from collections.abc import Sequence

from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.errors import InvalidRequestError, RequestTooLargeError

LONG_CHARS = 16
"""If the limit is n tokens, a text with more than LONG_CHARS * n characters counts as very long.

The tokens of a very long text are counted first. If there are too many, the text is refused before
anything else is computed for it.
"""


def tokenize_one(text: str, tokenizer: Tokenizer, limit: int, name: str) -> TokenizedText:
    """Tokenises a text that is one sequence.

    Args:
        text: Text of the client.
        tokenizer: Tokenizer of the text's language.
        limit: Largest number of tokens of a sequence, prefix and EOS included.
        name: Name of the text in error messages.

    Raises:
        InvalidRequestError: The text has no tokens.
        RequestTooLargeError: The text has more tokens than the limit.
    """
    if number := count_long(text, tokenizer, limit):
        raise too_long(number, limit, name)
    tokenized = tokenizer.tokenize(text)
    if len(tokenized.ids) == len(tokenizer.prefix) + 1:  # only the prefix and EOS
        raise nothing_to_read(name)
    if len(tokenized.ids) > limit:
        raise too_long(len(tokenized.ids), limit, name)
    return tokenized


def count_long(text: str, tokenizer: Tokenizer, limit: int) -> int:
    """Returns the number of tokens if a very long text exceeds the limit; else 0.

    EOS is counted. The prefix is counted only if `encode` of the tokenizer adds it.
    Counting takes a tenth of the time of `tokenize`, which also finds each token's place.
    """
    if len(text) <= LONG_CHARS * limit:
        return 0
    number = len(tokenizer.encode(text)) + 1
    return number if number > limit else 0


def item_name(name: str, number: int, texts: Sequence[str | None]) -> str:
    """Returns the name that error messages give to one text of a field."""
    return f"{name}[{number}]" if len(texts) > 1 else name


def nothing_to_read(name: str) -> InvalidRequestError:
    """Returns the error for a text without tokens."""
    return InvalidRequestError(f"Invalid request: {name} has nothing to read; send words")


def too_long(number: int, limit: int, name: str) -> RequestTooLargeError:
    """Returns the error for a text with more tokens than a sequence may have."""
    return RequestTooLargeError(
        f"Invalid request: {name} has {number} tokens, and one sequence has {limit} at most. Send "
        "sentences (/attention splits texts if split is true), or raise REGARD_MAX_SOURCE_TOKENS."
    )
