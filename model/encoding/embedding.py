"""Computes embeddings of texts in slices.

A slice is about half a layer of a batch; between two slices a worker can do other work. The texts
of a batch are packed: they are concatenated, not padded to one length. The tokens of a text attend
only to each other, so a text's vector does not depend on the rest of the batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.architectures.encoder import EncoderLayer
from model.architectures.text_encoder import TextEncoder
from model.backends.cuda.staging import upload
from model.encoding.pooling import EmbeddingModel
from model.inspection.capture import Slices
from model.layers.attention import attention
from model.tokenization.token_ids import check_ids

SLICE_TOKENS = 256
"""Default for the approximate number of tokens in a slice."""

TOKEN_MULTIPLE = 4
"""Packed batches are padded to a multiple of this number of tokens.

On a CPU a row of a matrix product then has the same bits in every batch. Without the padding, in
some batches other kernels would compute the rows after the last multiple of 4. With two threads,
these were the batches of 5, 6, 7, 9, 10 and 11 rows.
"""

Vectors = NDArray[np.float32]

Heads = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values, each (1, H, N, K)."""


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """One text to embed.

    Attributes:
        ids: Token ids, special tokens included, truncated to the model's limit.
        is_per_token: Whether the result is the last hidden state of each token, not one vector of
            the text.
        is_raw: Whether the vector keeps its length, even if the model ends with a Normalize
            module, which would scale it to length 1.
    """

    ids: list[int]
    is_per_token: bool = False
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class NumberedJob:
    """A job and its index in the list of jobs."""

    number: int
    job: EmbeddingJob

    @property
    def length(self) -> int:
        """Returns the number of tokens."""
        return len(self.job.ids)


class SlicedEncode(ABC):
    """Computes vectors of some texts; each call of `advance` computes one slice."""

    def __init__(self) -> None:
        self.finished: dict[int, Tensor] = {}
        self.slices = self.compute()

    @abstractmethod
    def compute(self) -> Slices[None]:
        """Runs the model, and stores the vectors of each job in `finished`."""

    @torch.inference_mode()
    def advance(self) -> bool:
        """Computes the next slice; returns False if no slice is left."""
        for _ in self.slices:
            return True
        return False

    @torch.inference_mode()
    def take_finished(self) -> dict[int, Vectors]:
        """Returns the vectors finished since the last call; on a GPU, waits for the computation.

        Returns:
            Maps the index of each job to its float32 vector (E), or to the vectors of its tokens
            (T, D).
        """
        finished, self.finished = self.finished, {}
        return {number: vectors.cpu().numpy() for number, vectors in finished.items()}


class EmbeddingEncode(SlicedEncode):
    """Embeds some texts with an embedding model, in slices, short texts first.

    Args:
        model: Model on its device; its encoder may be in any precision.
        jobs: Texts to embed.
        slice_tokens: Approximate number of tokens in a slice.

    Raises:
        InputError: A job cannot be computed.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        jobs: Sequence[EmbeddingJob],
        slice_tokens: int = SLICE_TOKENS,
    ) -> None:
        for job in jobs:
            check_ids("text", job.ids, model.config.encoder.vocab_size, model.config.max_tokens)
        self.model = model
        self.slice_tokens = slice_tokens
        numbered = [NumberedJob(number, job) for number, job in enumerate(jobs)]
        self.numbered = sorted(numbered, key=lambda each: each.length)
        super().__init__()

    def compute(self) -> Slices[None]:
        """Computes batch after batch, batches of short texts first."""
        for batch in batches(self.numbered, self.slice_tokens):
            hidden = yield from self._encode(batch)
            parts = torch.split(hidden[0, : sum(each.length for each in batch)], lengths(batch))
            for each, part in zip(batch, parts, strict=True):
                self.finished[each.number] = self._finish(each.job, part)
            yield

    def _encode(self, batch: list[NumberedJob]) -> Slices[Tensor]:
        """Returns the last hidden states (1, N, D); padding may follow the batch's tokens."""
        native, sequences = self.model.native, [each.job.ids for each in batch]
        if native is None:
            encoded = PackedBatch(self.model.encoder, sequences, self.slice_tokens)
            return (yield from encoded.run())
        return (yield from native.run(sequences, self.slice_tokens))

    def _finish(self, job: EmbeddingJob, hidden: Tensor) -> Tensor:
        if job.is_per_token:
            return hidden.float()
        return self.model.embed(hidden, job.is_raw)


def embed(
    model: EmbeddingModel, jobs: Sequence[EmbeddingJob], slice_tokens: int = SLICE_TOKENS
) -> list[Vectors]:
    """Returns the vectors of all jobs; computes all slices without a pause.

    Raises:
        InputError: A job cannot be computed.
    """
    embedding = EmbeddingEncode(model, jobs, slice_tokens)
    while embedding.advance():
        pass
    finished = embedding.take_finished()
    return [finished[number] for number in range(len(jobs))]


def lengths(batch: Sequence[NumberedJob]) -> list[int]:
    """Returns the number of tokens of each job."""
    return [each.length for each in batch]


def batches(numbered: Sequence[NumberedJob], max_tokens: int) -> Iterator[list[NumberedJob]]:
    """Yields batches of at most `max_tokens` tokens, or of a single job with more tokens."""
    batch: list[NumberedJob] = []
    tokens = 0
    for each in numbered:
        tokens += each.length
        if batch and tokens > max_tokens:
            yield batch
            batch, tokens = [], each.length
        batch.append(each)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent texts of equal length.

    Attributes:
        texts: Number of texts.
        length: Number of tokens of each text.
    """

    texts: int
    length: int


class PackedBatch:
    """Runs a packed batch of texts through all layers of an encoder.

    In the shapes of this class N is the number of tokens of all texts, and B is 1.

    Args:
        encoder: Text encoder.
        sequences: Token ids of each text; texts of equal length are adjacent.
        slice_tokens: Approximate number of tokens in a slice.
    """

    def __init__(
        self, encoder: TextEncoder, sequences: Sequence[list[int]], slice_tokens: int
    ) -> None:
        self.encoder = encoder
        self.sequences = [*sequences]
        self.slice_tokens = slice_tokens
        missing = -sum(map(len, sequences)) % TOKEN_MULTIPLE
        if missing:  # a padding text; its ids do not matter
            self.sequences.append([0] * missing)
        sizes = groupby(map(len, self.sequences))
        self.groups = [Group(len(list(texts)), length) for length, texts in sizes]

    def run(self) -> Slices[Tensor]:
        """Returns the last hidden states (1, N, D), including the states of a padding text."""
        x = self._embed()
        bias = self._bias()
        for layer in self.encoder.encoder_layers:
            heads = yield from self._attend(project(layer, x), bias)
            x = yield from self._finish(layer, x, heads)
        return x

    def _embed(self) -> Tensor:
        tokens = [token for sequence in self.sequences for token in sequence]
        positions = [index for sequence in self.sequences for index in range(len(sequence))]
        inputs = (upload(each, self.encoder.device)[None] for each in (tokens, positions))
        embedded: Tensor = self.encoder.embedding(*inputs)
        return embedded

    def _bias(self) -> Tensor | None:
        """Returns the relative position bias (1, H, S, S) of the longest text, or None.

        A shorter text uses the first rows and columns. The bias has four dimensions because the
        fused kernel needs them. For three dimensions PyTorch would select another kernel, which
        computes other bits.
        """
        if self.encoder.relative_bias is None:
            return None
        bias: Tensor = self.encoder.relative_bias(max(group.length for group in self.groups))
        return bias[None]

    def _attend(self, projected: Heads, bias: Tensor | None) -> Slices[Tensor]:
        """Computes the weighted values (1, H, N, K) of all heads, one group after the other."""
        sizes = [group.texts * group.length for group in self.groups]
        parts = [torch.split(heads, sizes, dim=2) for heads in projected]
        attended: list[Tensor] = []
        for group, *heads in zip(self.groups, *parts, strict=True):
            query, key, value = (unpack(part, group) for part in heads)
            corner = None if bias is None else bias[..., : group.length, : group.length]
            rows = yield from self._attend_within(query, key, value, corner)
            attended.append(pack(rows))
        yield
        return torch.cat(attended, dim=2)

    def _attend_within(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None
    ) -> Slices[Tensor]:
        """Returns weighted values (B, H, T, K) of B texts of equal length.

        Texts longer than a slice are computed in several slices.
        """
        attended = []
        for first in range(0, query.shape[2], self.slice_tokens):
            if first:
                yield
            rows = slice(first, first + self.slice_tokens)
            chosen = None if bias is None else bias[:, :, rows]
            attended.append(attention(query[:, :, rows], key, value, chosen)[0])
        return torch.cat(attended, dim=2)

    def _finish(self, layer: EncoderLayer, x: Tensor, heads: Tensor) -> Slices[Tensor]:
        """Returns the layer's output (1, N, D) for its input x and its weighted values `heads`."""
        x = layer.self_residual.after(x, layer.self_attention.merge(heads))
        return (yield from self._feed_forward(layer, x))

    def _feed_forward(self, layer: EncoderLayer, x: Tensor) -> Slices[Tensor]:
        """Applies the feed-forward sublayer to nearly equal parts of x.

        No part may have only a few rows: `TOKEN_MULTIPLE` explains why this could change the bits.
        """
        parts = []
        for part in torch.tensor_split(x, -(-x.shape[1] // self.slice_tokens), dim=1):
            parts.append(layer.feed_forward_residual.after(part, layer.feed_forward(part)))
            yield
        return torch.cat(parts, dim=1)


def project(layer: EncoderLayer, x: Tensor) -> Heads:
    """Returns queries, keys and values (1, H, N, K) of x (1, N, D)."""
    module = layer.self_attention
    return (module.project_query(x), *module.project_key_value(x))


def unpack(heads: Tensor, group: Group) -> Tensor:
    """Unpacks a group's heads (1, H, B * T, K) into (B, H, T, K)."""
    shape = heads.shape[1], group.texts, group.length, heads.shape[3]
    return heads[0].reshape(shape).transpose(0, 1)


def pack(heads: Tensor) -> Tensor:
    """Packs heads (B, H, T, K) into (1, H, B * T, K)."""
    return heads.transpose(0, 1).flatten(1, 2)[None]
