"""One token's attention in one head, every number of it: Vaswani et al. 2017, equation 1.

In float64, and without torch: what is here is what a reader of the numbers can do with them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AttentionSteps:
    """The computation in its order; float32, rounded from float64 at the end.

    Attributes:
        query: The head's query of the token (K).
        key: The head's keys (S, K), of the tokens that it may attend to.
        value: The head's values (S, K).
        scale: 1 / sqrt(K).
        scores: query · key (S).
        scaled: scale · scores (S).
        weights: The softmax of those (S), with `bias` added.
        weighted: weight · value (S, K).
        z: Their sum (K).
        concatenated: The z of all heads (D).
        output_weight: W_O (D, D), a row for each number of the result. Of an int8 model, the
            floats that its integers stand for.
        output_bias: b_O (D).
        result: W_O · concatenated + b_O (D). An int8 model rounds `concatenated` to 127 steps
            of its largest number before this product.
        bias: What the head adds to `scaled` for the distance of each key (S); None of a model
            without relative positions.
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


def attention_steps(
    query: Array,
    key: Array,
    value: Array,
    head: int,
    output_weight: Array,
    output_bias: Array,
    bias: Array | None = None,
) -> AttentionSteps:
    """Goes through the computation for one token.

    Args:
        query: Of all heads (H, K).
        key: Of all heads (H, S, K).
        value: Of all heads (H, S, K).
        head: Which one is looked at.
        output_weight: W_O (D, D).
        output_bias: b_O (D).
        bias: What is added to the scaled scores of all heads (H, S); None for nothing.
    """
    q, k, v = (heads.astype(np.float64) for heads in (query, key, value))
    scale = query.shape[-1] ** -0.5
    scores = np.einsum("hk,hsk->hs", q, k)
    scaled = scale * scores
    biased = scaled if bias is None else scaled + bias
    weights = np.exp(biased - biased.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    weighted = weights[:, :, None] * v  # (H, S, K)
    z = weighted.sum(axis=1)  # (H, K)
    concatenated = z.reshape(-1)  # (D)
    result = output_weight.astype(np.float64) @ concatenated + output_bias
    return AttentionSteps(
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
    """The nearest float32."""
    return x.astype(np.float32)
