"""Answers a request for the probabilities of target tokens.

The tokens that the client names become vocabulary ids, and the ids of the result become tokens.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from model.inspection.query import ProbabilityQuery
from model.inspection.results import TokenProbabilities
from model.tokenization.tokenizer import Tokenizer
from service.errors import SHOWN_CHARS, InvalidRequestError, RequestTooLargeError
from service.tasks.attention.requests import ProbabilitiesQuestion


@dataclass(frozen=True, slots=True)
class Probabilities:
    """The probabilities at each position of a translation, with the spelling of the tokens.

    A list of likeliest tokens has fewer than `top_k` if fewer have a probability above 0.
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
    def of(
        cls, question: ProbabilitiesQuestion, tokenizer: Tokenizer, first_id: int | None
    ) -> Self:
        """Returns the query of a request; every target begins with `first_id` if it is given."""
        named = tuple(_id_of(token, tokenizer) for token in question.tokens)
        return cls(ProbabilityQuery(question.top_k, named, first_id), tokenizer)

    def read(self, found: TokenProbabilities, decimals: int | None) -> Probabilities:
        """Returns the result of the query, rounded to `decimals`, with the spelling of tokens."""
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
    """Returns the id of a named token; for a text of several tokens, the id of the first one."""
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


def check_num_probabilities(count: int, limit: int, way_out: str) -> None:
    """Refuses a request for too many probabilities; the error names a way out."""
    if count > limit:
        raise RequestTooLargeError(
            f"Invalid request: {count} probabilities exceed the limit of {limit}: {way_out}, or "
            "raise REGARD_MAX_ATTENTION_VALUES"
        )


def rounded(data: NDArray[np.float32], decimals: int | None) -> NDArray[np.float32]:
    """Rounds values so that JSON writes them with at most `decimals` decimals."""
    if decimals is None:
        return data
    return np.round(data.astype(np.float64), decimals).astype(np.float32)
