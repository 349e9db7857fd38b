"""Answers a request for the probabilities of target tokens.

The tokens that the client names become vocabulary ids, and the ids of the result become tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from model.inspection.probabilities import TokenProbabilities
from model.inspection.query import ProbabilityQuery
from model.tokenization.tokenizer import Tokenizer
from service.errors import SHOWN_CHARS, InvalidRequestError, RequestTooLargeError
from service.tasks.attention.arrays import rounded
from service.tasks.attention.requests import ProbabilityOptions


@dataclass(frozen=True, slots=True)
class Probabilities:
    """The probabilities at each position of a translation.

    Attributes:
        found: Log-probabilities, ranks, entropies and token ids.
        likeliest: Spelling of the likeliest tokens at each position. A list has fewer than `top_k`
            tokens if fewer tokens have a probability above 0.
        named: Spelling of the named tokens.
        named_ids: Ids of the named tokens.
    """

    found: TokenProbabilities
    likeliest: list[list[str]]
    named: list[str]
    named_ids: list[int]


@dataclass(frozen=True, slots=True)
class Scoring:
    """The query for the requested probabilities, and the tokenizer of the target language."""

    query: ProbabilityQuery
    tokenizer: Tokenizer

    @classmethod
    def of(cls, options: ProbabilityOptions, tokenizer: Tokenizer, first_id: int | None) -> Self:
        """Returns the query of a request.

        Args:
            options: Options of the request.
            tokenizer: Tokenizer of the target language.
            first_id: Id with which every target begins; None if there is no such id.

        Raises:
            InvalidRequestError: A given id is not in the vocabulary, or a given text has no tokens.
        """
        named = tuple(_id_of(token, tokenizer) for token in options.tokens)
        return cls(ProbabilityQuery(options.top_k, named, first_id), tokenizer)

    def read(self, found: TokenProbabilities, decimals: int | None) -> Probabilities:
        """Returns the result of the query in the form that a client gets.

        Args:
            found: Result of the query.
            decimals: Number of decimals to which log-probabilities and entropies are rounded; None
                leaves them unrounded.
        """
        likeliest = [[i for i in row if i >= 0] for row in found.likeliest.tolist()]
        return Probabilities(
            replace(
                found,
                log_probs=rounded(found.log_probs, decimals),
                entropies=rounded(found.entropies, decimals),
                likeliest_log_probs=rounded(found.likeliest_log_probs, decimals),
                named_log_probs=rounded(found.named_log_probs, decimals),
            ),
            list(map(self.tokenizer.pieces, likeliest)),
            self.tokenizer.pieces([*self.query.named]),
            [*self.query.named],
        )


def _id_of(token: str | int, tokenizer: Tokenizer) -> int:
    """Returns the id of a named token; for a text of several tokens, the id of the first one.

    Raises:
        InvalidRequestError: The given id is not in the vocabulary, or the given text has no tokens.
    """
    if isinstance(token, int):
        if 0 <= token < tokenizer.vocab_size:
            return token
        raise InvalidRequestError(
            f"Invalid request: probabilities.tokens has the id {str(token)[:SHOWN_CHARS]}, and the "
            f"vocabulary has ids 0 to {tokenizer.vocab_size - 1}"
        )
    ids = tokenizer.encode(token)
    if not ids:
        raise InvalidRequestError(
            "Invalid request: probabilities.tokens has a text without tokens; send a word or an id"
        )
    return ids[0]


def check_size(options: ProbabilityOptions, num_tokens: Sequence[int], limit: int) -> None:
    """Refuses a request for too many probabilities.

    Args:
        options: Options of the request.
        num_tokens: Number of target tokens of each sentence.
        limit: Largest number of probabilities in a response.

    Raises:
        RequestTooLargeError: The number of probabilities exceeds the limit.
    """
    count = sum(num_tokens) * (1 + options.top_k + len(options.tokens))
    check_count(count, limit, "lower probabilities.top_k, name fewer tokens, send fewer texts")


def check_count(count: int, limit: int, way_out: str) -> None:
    """Refuses a request for too many probabilities.

    Args:
        count: Number of probabilities.
        limit: Largest number of probabilities in a response.
        way_out: Changes of the request that help, for the error message.

    Raises:
        RequestTooLargeError: The number of probabilities exceeds the limit.
    """
    if count > limit:
        raise RequestTooLargeError(
            f"Invalid request: {count} probabilities exceed the limit of {limit}: {way_out}, or "
            "raise REGARD_MAX_ATTENTION_VALUES"
        )
