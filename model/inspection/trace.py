"""Computes one token's attention in one head, and keeps every intermediate number.

Source: Vaswani et al. 2017, equation 1.

The module computes in float64. It does not import torch, so NumPy alone can repeat the computation.

Shapes: K is the size of a head, and S the number of attended tokens. H is the number of heads, and
D the width of the model.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

EXCLUDED = -1e9
"""Number that replaces -inf as the bias of a token to which the layer does not attend.

The weight of such a token is 0, as with -inf.
"""


@dataclass(frozen=True, slots=True)
class AttentionTrace:
    """The inputs, the intermediate values and the result of the computation.

    All arrays are float32. Every array except the inputs is computed in float64, and then rounded.

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
        query=query[head],
        key=key[head],
        value=value[head],
        scale=scale,
        scores=rounded(scores[head]),
        scaled=rounded(scaled[head]),
        weights=rounded(weights[head]),
        weighted=rounded(weighted[head]),
        z=rounded(z[head]),
        concatenated=rounded(concatenated),
        output_weight=output_weight,
        output_bias=output_bias,
        result=rounded(result),
        bias=None if bias is None else bias[head],
    )


def rounded(x: NDArray[np.float64]) -> Array:
    """Rounds to float32."""
    return x.astype(np.float32)
