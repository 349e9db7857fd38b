"""Defines the results of queries about single tokens, and computes one token's attention.

The module does not import torch, so that processes without a model stay small.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Integers = NDArray[np.int64]

EXCLUDED = -1e9
"""Number that replaces -inf as the bias of a token to which the layer does not attend.

The weight of such a token is 0, as with -inf.
"""


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

    log_probs: Array
    ranks: Integers
    entropies: Array
    likeliest: Integers
    likeliest_log_probs: Array
    named_log_probs: Array
    named_ranks: Integers
    is_candidate: NDArray[np.bool_]
    is_named_candidate: NDArray[np.bool_]
    num_candidates: int


@dataclass(frozen=True, slots=True)
class TokenStates:
    """The vectors (D) of one token around an attention sublayer of a model of width D.

    Attributes:
        token: Vector of the token, before the first layer.
        position: Vector of its position; None if the model adds no such vector.
        embedded: Input of the first layer: the sum of `token` and `position`, normalised in some
            models.
        input: Residual stream before the attention sublayer.
        attention: Output of the attention sublayer, after the output projection.
        attended: Residual stream after the sublayer: the sum of `input` and `attention`,
            normalised in a post-norm model.
        feed_forward: Output of the feed-forward sublayer, before it is added to the stream. None
            for the self-attention of a decoder, because cross-attention follows it.
        output: Output of the layer.
    """

    token: Array
    position: Array | None
    embedded: Array
    input: Array
    attention: Array
    attended: Array
    feed_forward: Array | None
    output: Array


@dataclass(frozen=True, slots=True)
class AttentionTrace:
    """The inputs, the intermediate values and the result of one token's attention in one head.

    All arrays are float32. Every array except the inputs is computed in float64, and then rounded.
    K is the size of a head, S the number of attended tokens, and D the width of the model.

    Attributes:
        query: Query of the traced token in the head (K).
        key: Keys, in the head, of all tokens to which the traced token may attend (S, K).
        value: Values, in the head, of the same tokens as the keys (S, K).
        scale: Factor of the scores, 1 / sqrt(K).
        scores: Products query · key (S).
        scaled: Products scale · scores (S).
        weights: Softmax of scaled + bias (S).
        weighted: Products weight · value (S, K).
        z: Sum of `weighted` over the tokens (K).
        concatenated: Concatenation of z over all heads (D).
        output_weight: W_O (D, D), one row per number of the result. For an int8 model, these are
            the floats that the integers represent.
        output_bias: b_O (D).
        result: W_O · concatenated + b_O (D). An int8 model first rounds `concatenated` to int8; the
            trace does not.
        bias: Bias of the head for each key (S), added to `scaled`. It depends on the distance
            between the traced token and the key's token. It is None if the layer has no bias.
    """

    query: Array
    key: Array
    value: Array
    scale: float
    scores: Array
    scaled: Array
    weights: Array
    weighted: Array
    z: Array
    concatenated: Array
    output_weight: Array
    output_bias: Array
    result: Array
    bias: Array | None = None


def trace_attention(
    query: Array,
    key: Array,
    value: Array,
    head: int,
    output_weight: Array,
    output_bias: Array,
    bias: Array | None = None,
) -> AttentionTrace:
    """Returns the trace of one token in one head.

    Source: Vaswani et al. 2017, equation 1.

    Args:
        query: Queries of all heads (H, K).
        key: Keys of all heads (H, S, K).
        value: Values of all heads (H, S, K).
        head: Number of the traced head, from 0.
        output_weight: W_O (D, D).
        output_bias: b_O (D).
        bias: Bias of all heads (H, S), from relative positions or from local attention; None if the
            layer has no bias.
    """
    q, k, v = (heads.astype(np.float64) for heads in (query, key, value))
    scale = query.shape[-1] ** -0.5
    scores = np.einsum("hk,hsk->hs", q, k)
    scaled = scale * scores
    if bias is not None:
        bias = np.maximum(bias, EXCLUDED)
    biased = scaled if bias is None else scaled + bias
    weights = np.exp(biased - biased.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    weighted = weights[:, :, None] * v  # (H, S, K)
    z = weighted.sum(axis=1)  # (H, K)
    concatenated = z.reshape(-1)  # (D)
    result = output_weight.astype(np.float64) @ concatenated + output_bias
    return AttentionTrace(
        query[head],
        key[head],
        value[head],
        scale,
        scores[head].astype(np.float32),
        scaled[head].astype(np.float32),
        weights[head].astype(np.float32),
        weighted[head].astype(np.float32),
        z[head].astype(np.float32),
        concatenated.astype(np.float32),
        output_weight,
        output_bias,
        result.astype(np.float32),
        None if bias is None else bias[head],
    )
