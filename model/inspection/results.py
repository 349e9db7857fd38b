"""Defines the results of queries about single tokens, and computes one token's attention.

The module does not import torch, so that processes without a model stay small.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Integers = NDArray[np.int64]

EXCLUDED = -1e9
"""Replaces the bias -inf of a token that the layer does not attend; its weight is 0, too."""


@dataclass(frozen=True, slots=True)
class TokenProbabilities:
    """The probabilities at each position of a target, given the source and the previous tokens.

    T is the number of target tokens, k the number of likeliest tokens, and N the number of named
    tokens. Candidates are the tokens that the decoder may choose; their probabilities sum to 1. The
    probability of any token is exp(logit) / sum of exp(candidate logits). The rank of a token is 1
    plus the number of candidates with a larger probability. If fewer than k candidates have a
    probability above 0, an id of -1 with a log-probability of -inf fills the rest of the row.
    """

    log_probs: Array  # (T)
    ranks: Integers  # (T)
    entropies: Array  # of the distribution at each position (T)
    likeliest: Integers  # ids of the likeliest candidates (T, k), likeliest first
    likeliest_log_probs: Array  # (T, k)
    named_log_probs: Array  # (T, N)
    named_ranks: Integers  # (T, N)
    is_candidate: NDArray[np.bool_]  # (T)
    is_named_candidate: NDArray[np.bool_]  # (N)
    num_candidates: int


@dataclass(frozen=True, slots=True)
class TokenStates:
    """The vectors (D) of one token around an attention sublayer of a model of width D.

    In a post-norm model, `attended` and `output` are normalised. If a layer also has norms on the
    outputs of sublayers (Gemma 3), `attention` and `feed_forward` are the vectors before them.
    """

    token: Array  # before the first layer
    position: Array | None  # None if the model adds no such vector
    embedded: Array  # input of the first layer: the sum of both, normalised in some models
    input: Array  # residual stream before the attention sublayer
    attention: Array  # output of the sublayer, after the output projection
    attended: Array  # sum of `input` and `attention`
    feed_forward: Array | None  # not yet added; None in a decoder before cross-attention
    output: Array  # output of the layer


@dataclass(frozen=True, slots=True)
class AttentionTrace:
    """The inputs, the intermediate values and the result of one token's attention in one head.

    All arrays are float32. Every array except the inputs is computed in float64, and then rounded.
    K is the size of a head, S the number of attended tokens, and D the width of the model. An int8
    model first rounds `concatenated` to int8; the trace does not.
    """

    query: Array  # (K), of the traced token
    key: Array  # (S, K), of all tokens to which the traced token may attend
    value: Array  # (S, K)
    scale: float  # 1 / sqrt(K)
    scores: Array  # query · key (S)
    scaled: Array  # scale · scores (S)
    weights: Array  # softmax of scaled + bias (S)
    weighted: Array  # weight · value (S, K)
    z: Array  # sum of `weighted` over the tokens (K)
    concatenated: Array  # z of all heads (D)
    output_weight: Array  # W_O (D, D), one row per number of the result; floats also in int8
    output_bias: Array  # b_O (D)
    result: Array  # W_O · concatenated + b_O (D)
    bias: Array | None = None  # of the head for each key (S), if the layer has one
    states: TokenStates | None = None  # if the query `has_states`


def trace_attention(
    query: Array,
    key: Array,
    value: Array,
    head: int,
    output_weight: Array,
    output_bias: Array,
    bias: Array | None = None,
) -> AttentionTrace:
    """Traces one head; queries are (H, K), keys and values (H, S, K), and the bias is (H, S).

    Source: Vaswani et al. 2017, equation 1.
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
    scores, scaled, weights, weighted, z = (
        each[head].astype(np.float32) for each in (scores, scaled, weights, weighted, z)
    )
    return AttentionTrace(
        *(query[head], key[head], value[head], scale),
        *(scores, scaled, weights, weighted, z),
        concatenated.astype(np.float32),
        *(output_weight, output_bias),
        result.astype(np.float32),
        None if bias is None else bias[head],
    )
