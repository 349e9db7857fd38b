"""Defines a capture, which collects the result of one query during a forward pass.

T is the number of attending tokens, S of attended tokens, and N of tokens of one sentence.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from model.architectures.embedding import TokenParts
from model.inspection.query import AttentionKind, AttentionMaps
from model.inspection.results import AttentionTrace, TokenProbabilities
from model.layers.attention import MultiHeadAttention
from model.layers.block import Residual

Result = AttentionMaps | AttentionTrace | TokenProbabilities | float

T = TypeVar("T")
Slices = Generator[None, None, T]
"""A generator that yields between two slices of the work, and returns the result."""


@dataclass(frozen=True, slots=True)
class LayerRest:
    """The rest of a layer after an attention sublayer."""

    residual: Residual  # adds the output of the attention sublayer to the stream
    # Maps the stream (N, D) to the output (N, D) of the feed-forward sublayer, not yet added to it.
    # None if another attention sublayer comes before that sublayer.
    feed_forward: Callable[[Tensor], Tensor] | None
    # Maps the stream (N, D) after the attention sublayer to the output (N, D) of the layer. The N
    # rows may be any tokens of the sentence, also with repetition.
    finish: Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class ProjectedHeads:
    """The queries, keys and values of one sentence in one attention sublayer, for all heads.

    The bias of the scores is (T, S) if it is only the decoder's causal mask, and else (H, T, S).
    """

    kind: AttentionKind
    layer: int  # number of the layer, from 0
    query: Tensor  # (H, T, K)
    key: Tensor  # (H, S, K)
    value: Tensor  # (H, S, K)
    bias: Tensor | None
    module: MultiHeadAttention
    stream: Tensor  # residual stream (T, D) before the sublayer
    rest: LayerRest


@dataclass(frozen=True, slots=True)
class DecoderOutput:
    """The decoder's output for one sentence.

    `logits` returns the float32 logits (T, U) of hidden states (T, D), for vocabulary ids (U).
    """

    hidden: Tensor  # (T, D), from which the target is predicted
    target: list[int]
    candidates: NDArray[np.int64]  # ids from which the decoder chooses, ascending
    logits: Callable[[Tensor, Tensor], Tensor]


class Capture(ABC):
    """Captures the result of one query from the parts of a forward pass that the query needs."""

    needs_output = False
    needs_embedding = False

    def layers(self, kind: AttentionKind) -> Collection[int]:
        return ()

    def observe_embedding(self, kind: AttentionKind, parts: TokenParts) -> None:
        """Captures the input (1, T, D) of the encoder or of the decoder, depending on `kind`."""
        raise NotImplementedError  # only queries that need the embedding override this method

    def observe(self, projected: ProjectedHeads) -> Slices[None]:
        """Captures one sublayer, on the device; expects the sublayers in order of their layers."""
        yield from ()

    def observe_output(self, output: DecoderOutput) -> Slices[None]:
        yield from ()

    @abstractmethod
    def result(self) -> Result:
        """Returns the result, on the host."""


def head_matrices(module: MultiHeadAttention) -> Tensor:
    """Returns the matrix W_O of the output projection in parts (H, K, D), one for each head."""
    weight = module.out.weight  # (D, H * K)
    return weight.view(len(weight), module.num_heads, -1).permute(1, 2, 0)
