"""Scores how far a translation is detached from its source.

A hallucinating decoder attends to the same few source tokens, often to EOS, for every token that it
writes. In a translation that follows its source, the attention goes to all source tokens in turn.

Source: Guerreiro et al. 2023, "Optimal Transport for Unsupervised Hallucination Detection in Neural
Machine Translation", section 4.1 (Wass-to-Unif).
"""

import numpy as np
from numpy.typing import NDArray


def detachment(weights: NDArray[np.float32]) -> float:
    """Returns the distance from the attention of a whole translation to equal attention.

    The result is 0 if all source tokens get the same attention. It is nearly 1 if one of many
    tokens gets all attention. The distance is the Wasserstein distance with a cost of 1 between any
    two different tokens. With this cost, the distance is half the sum of the absolute differences.

    Args:
        weights: Cross-attention (T, S) of T target tokens to S source tokens, EOS included.
    """
    received = weights.astype(np.float64).mean(axis=0)
    return float(np.abs(received - 1 / len(received)).sum() / 2)
