"""Defines EncoderBatch, the interface to an encoder, and runs the encoder's layers in slices.

A slice computes about half a layer, for some or all tokens of a batch. Between two slices a worker
can do other work.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from model.inspection.captures.capture import Slices

Observe = Callable[[int], Slices[None]]
"""Observes the queries, keys and values of a layer, given the number of the layer."""


@dataclass(frozen=True, slots=True)
class HiddenTexts:
    """The hidden states of some texts, padded to one length.

    Attributes:
        states: Hidden states (B, S, D).
        lengths: Number of tokens of each text.
    """

    states: Tensor
    lengths: Sequence[int]


class EncoderBatch(ABC):
    """The hidden states of some texts, computed layer by layer.

    The texts are packed, which means concatenated, or they are padded to one length. Tokens are
    numbered consecutively over all texts. The tokens of a text attend only to each other. The
    hidden states of a text therefore do not depend on the rest of the batch. `project`, `attend`
    and `feed_forward` each compute one part of a layer, for `count` tokens from number `first` on.

    Attributes:
        num_tokens: Number of tokens of all texts, padding included.
        num_layers: Number of layers.
        lengths: Number of tokens of each text, without padding.
        can_slice: Whether a part of a layer may be computed for only some of the tokens.
    """

    num_tokens: int
    num_layers: int
    lengths: list[int]
    can_slice = True

    @abstractmethod
    def project(self, layer: int, first: int, count: int) -> None:
        """Computes queries, keys and values. Call it for all tokens before `attend`."""

    @abstractmethod
    def attend(self, layer: int, first: int, count: int) -> None:
        """Computes the attention sublayer from queries, keys and values."""

    @abstractmethod
    def feed_forward(self, layer: int, first: int, count: int) -> None:
        """Computes the feed-forward sublayer."""

    @abstractmethod
    def read(self) -> Tensor:
        """Returns the hidden states (N, D) after the last layer."""

    def read_texts(self) -> list[HiddenTexts]:
        """Returns the hidden states of the texts, in order, after the last layer.

        Adjacent texts of one length come together, which saves most of the time of their pooling.
        """
        runs = [(length, len([*texts])) for length, texts in groupby(self.lengths)]
        hidden = self.read()[: sum(self.lengths)]
        parts = torch.split(hidden, [length * count for length, count in runs])
        return [
            HiddenTexts(part.view(count, length, hidden.shape[1]), [length] * count)
            for part, (length, count) in zip(parts, runs, strict=True)
        ]


def run_layers(
    batch: EncoderBatch, slice_tokens: int, last: int | None = None, observe: Observe | None = None
) -> Slices[None]:
    """Runs a batch through the layers of its encoder.

    Args:
        batch: The batch.
        slice_tokens: Largest number of tokens in one slice. It has no effect on a batch that cannot
            be sliced.
        last: Number of the last layer to run; of this layer, only queries, keys and values are
            computed. If `last` is None, all layers run.
        observe: Observes each layer after its queries, keys and values are computed.
    """
    most = slice_tokens if batch.can_slice else batch.num_tokens
    parts = equal_parts(batch.num_tokens, most)
    for layer in range(batch.num_layers):
        for number, part in enumerate(parts):
            if number:
                yield
            batch.project(layer, *part)
        if observe is not None:
            yield from observe(layer)
        if layer == last:
            return
        for part in parts:
            batch.attend(layer, *part)
            yield
        for part in parts:
            batch.feed_forward(layer, *part)
            yield


def equal_parts(tokens: int, most: int) -> list[tuple[int, int]]:
    """Splits tokens into nearly equal parts (first, count) of at most `most` tokens.

    Equal parts avoid a very small part. On a CPU, the tokens of a very small part could get other
    bits than the same tokens in a larger part.
    """
    count = -(-tokens // most)
    edges = [number * tokens // count for number in range(count + 1)]
    return [(first, end - first) for first, end in zip(edges, edges[1:], strict=False)]
