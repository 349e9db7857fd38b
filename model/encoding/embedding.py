"""Computes embeddings of texts in slices, with any model that has an encoder.

Between two slices a worker can do other work.

Shapes: B is the number of texts, T the number of tokens of a text, and D the width of the model. E
is the width of the vector of a text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.backends.encoder_batch import EncoderBatch, HiddenTexts, run_layers
from model.encoding.sliced_pass import SlicedPass, batches, padded_batches
from model.inspection.captures.capture import Slices
from model.sequence import check_ids

SLICE_TOKENS = 256
"""Default for the approximate number of tokens in a slice."""

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """One text to embed.

    Attributes:
        ids: Token ids, special tokens included, truncated to the model's limit.
        is_per_token: Whether the result is the last hidden state of each token, not one vector of
            the text.
        is_raw: Whether to skip a final Normalize module, which would scale the vector to Euclidean
            length 1. This has no effect on the states of tokens.
    """

    ids: list[int]
    is_per_token: bool = False
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class NumberedJob:
    """A job, its index in the list of jobs, and its number of tokens."""

    number: int
    job: EmbeddingJob
    length: int


class Embedder(Protocol):
    """A model that computes vectors of texts."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""

    @property
    def max_tokens(self) -> int | None:
        """Largest number of tokens of a text; None if there is no limit."""

    @property
    def pads(self) -> bool:
        """Whether the texts of a batch are padded to one length."""

    def begin(self, sequences: Sequence[list[int]]) -> EncoderBatch:
        """Returns a batch of texts, given the ids of each text."""

    def end(self, batch: EncoderBatch) -> None:
        """Takes back a batch whose hidden states have been read, so its memory may be reused."""

    def embed(self, texts: HiddenTexts, is_raw: bool = False) -> Tensor:
        """Computes the float32 vectors (B, E) of texts from their last hidden states."""


class EmbeddingEncode(SlicedPass):
    """Embeds some texts in slices, short texts first; each call of `advance` computes one slice.

    Attributes:
        padding_tokens: Number of padding tokens computed so far.
    """

    def __init__(
        self, model: Embedder, jobs: Sequence[EmbeddingJob], slice_tokens: int = SLICE_TOKENS
    ) -> None:
        for job in jobs:
            check_ids("text", job.ids, model.vocab_size, model.max_tokens)
        self.model = model
        self.slice_tokens = slice_tokens
        numbered = [NumberedJob(number, job, len(job.ids)) for number, job in enumerate(jobs)]
        self.numbered = sorted(numbered, key=attrgetter("length"))
        self.padding_tokens = 0
        self.finished: list[tuple[list[int], Tensor]] = []  # indices of jobs, and their vectors
        super().__init__()

    @torch.inference_mode()
    def take_finished(self) -> dict[int, Vectors]:
        """Returns the vectors finished since the last call; on a GPU, waits for the computation.

        Returns:
            A map from the index of each finished job to the job's result in float32. The result is
            one vector (E) of the text, or the vectors (T, D) of its tokens.
        """
        finished, self.finished = self.finished, []
        found: dict[int, Vectors] = {}
        for numbers, vectors in finished:
            found.update(zip(numbers, vectors.cpu().numpy(), strict=True))
        return found

    def compute(self) -> Slices[None]:
        """Computes batch after batch, batches of short texts first."""
        for batch in self._batches():
            encoding = self.model.begin([each.job.ids for each in batch])
            yield from run_layers(encoding, self.slice_tokens)
            read = encoding.read_texts()
            if self.model.pads:
                self.padding_tokens += encoding.num_tokens - sum(each.length for each in batch)
            self.model.end(encoding)
            rest = iter(batch)
            for texts in read:
                self._finish([*islice(rest, len(texts.lengths))], texts)
            yield

    def _batches(self) -> Iterator[list[NumberedJob]]:
        if self.model.pads:
            return padded_batches(self.numbered, attrgetter("length"), self.slice_tokens)
        return batches(self.numbered, lambda each: (each.length,), self.slice_tokens)

    def _finish(self, batch: list[NumberedJob], texts: HiddenTexts) -> None:
        for is_raw in (False, True):
            rows = [
                row
                for row, each in enumerate(batch)
                if not each.job.is_per_token and each.job.is_raw is is_raw
            ]
            if rows:
                vectors = self.model.embed(texts, is_raw)  # (B, E)
                chosen = vectors if len(rows) == len(batch) else vectors[rows]
                self.finished.append(([batch[row].number for row in rows], chosen))
        for row, each in enumerate(batch):
            if each.job.is_per_token:
                states = texts.states[row : row + 1, : each.length]
                self.finished.append(([each.number], states.float()))


def embed(
    model: Embedder, jobs: Sequence[EmbeddingJob], slice_tokens: int = SLICE_TOKENS
) -> list[Vectors]:
    """Returns the vectors of all jobs; computes all slices without a pause."""
    embedding = EmbeddingEncode(model, jobs, slice_tokens)
    while embedding.advance():
        pass
    finished = embedding.take_finished()
    return [finished[number] for number in range(len(jobs))]
