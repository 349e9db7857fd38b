"""Scores how far a translation is detached from its source.

The decoder of a hallucination attends to a few source tokens, often to EOS, whatever it writes. The
attention of a translation that follows its source goes to all source tokens in turn.

Source: Guerreiro et al. 2023, "Optimal Transport for Unsupervised Hallucination Detection in Neural
Machine Translation", section 4.1 (Wass-to-Unif).
"""

import numpy as np
from numpy.typing import NDArray


def detachment(weights: NDArray[np.float32]) -> float:
    """Returns the distance from the attention of a whole translation to equal attention.

    The result is from 0, if all source tokens get the same attention, to nearly 1, if one of many
    tokens gets all attention. It is the Wasserstein distance with a cost of 1 between any two
    different tokens, which is half the sum of the absolute differences.

    Args:
        weights: Cross-attention (T, S) of T target tokens to S source tokens, EOS included.
    """
    received = weights.astype(np.float64).mean(axis=0)
    return float(np.abs(received - 1 / len(received)).sum() / 2)
