"""Defines the vectors of one token in one layer, from the layer's input to its output.

The module does not import torch, so that processes without a model stay small.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TokenStates:
    """The vectors of one token around an attention sublayer, as the model computes them.

    D is the width of the model.

    Attributes:
        token: Vector of the token (D), before the first layer.
        position: Vector of its position (D); None if the model adds no such vector.
        embedded: Input of the first layer (D): the sum of `token` and `position`, normalised in
            some models.
        input: Residual stream before the attention sublayer (D).
        attention: Output of the attention sublayer (D), after the output projection.
        attended: Residual stream after the sublayer (D): the sum of `input` and `attention`,
            normalised in a post-norm model.
        feed_forward: Output of the feed-forward sublayer (D), before it is added to the stream.
            None for the self-attention of a decoder, because cross-attention follows it.
        output: Output of the layer (D).
    """

    token: Array
    position: Array | None
    embedded: Array
    input: Array
    attention: Array
    attended: Array
    feed_forward: Array | None
    output: Array
