"""Defines the probabilities from which a decoder chooses the tokens of a target.

The module does not import torch, so that processes without a model stay small.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TokenProbabilities:
    """The probabilities at each position of a target, given the source and the previous tokens.

    T is the number of target tokens, k the number of likeliest tokens, and N the number of named
    tokens. Candidates are the tokens that the decoder may choose. Their probabilities at a position
    sum to 1. The probability of any token is exp(logit) / sum of exp(candidate logits); the sum
    does not include a token that is no candidate. All logarithms are natural. The rank of a token
    is 1 plus the number of candidates with a larger probability.

    Attributes:
        log_probs: Log-probability of each target token (T).
        ranks: Rank of each target token (T).
        entropies: Entropy of the distribution at each position (T).
        likeliest: Ids of the likeliest candidates (T, k), likeliest first. If fewer than k
            candidates have a probability above 0, -1 fills the rest of the row.
        likeliest_log_probs: Their log-probabilities (T, k); -inf where the id is -1.
        named_log_probs: Log-probability of each named token (T, N).
        named_ranks: Rank of each named token (T, N).
        is_candidate: Whether each target token is a candidate (T).
        is_named_candidate: Whether each named token is a candidate (N).
        num_candidates: Number of candidates.
    """

    log_probs: Floats
    ranks: Integers
    entropies: Floats
    likeliest: Integers
    likeliest_log_probs: Floats
    named_log_probs: Floats
    named_ranks: Integers
    is_candidate: NDArray[np.bool_]
    is_named_candidate: NDArray[np.bool_]
    num_candidates: int
