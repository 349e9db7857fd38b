"""Defines the summands of a token's embedding."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenParts:
    """The summands of the embeddings, and the sum, which some models normalise.

    Attributes:
        token: Vectors of the tokens (B, T, D), scaled as the model scales them.
        position: Vectors of the positions (B, T, D); None if the model does not add any.
        embedded: Input (B, T, D) of the first layer.
    """

    token: Tensor
    position: Tensor | None
    embedded: Tensor
