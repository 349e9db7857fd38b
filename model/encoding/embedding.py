"""Vectors of texts, computed in slices.

A slice is about half a layer of a batch: between two of them a worker can do other things. Texts
of a batch lie side by side, without padding, and attend within themselves. So nothing is
computed for nobody, and a text's vector does not depend on what else is in the batch.
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
"""About how many tokens a slice works on, if nothing else is said."""

TOKEN_MULTIPLE = 4
"""With so many rows, or a multiple, a row of a matrix product gets the same bits on a CPU.

Other kernels take what is left over of 4 where rows are few, and where they are shared among
threads: with two threads that was so for 5, 6, 7, 9, 10 and 11 rows.
"""

Vectors = NDArray[np.float32]

Heads = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values."""


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """One text.

    Attributes:
        ids: Its tokens, special ones included, cut to the model's limit.
        is_per_token: Whether the vectors of the tokens are wanted, as the last layer leaves
            them, and not that of the text.
        is_raw: Whether a closing Normalize is left out.
    """

    ids: list[int]
    is_per_token: bool = False
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class NumberedJob:
    """A job and its place among those given."""

    number: int
    job: EmbeddingJob

    @property
    def length(self) -> int:
        """Its tokens."""
        return len(self.job.ids)


class VectorPass(ABC):
    """Vectors of some texts, one slice a call."""

    def __init__(self) -> None:
        self.finished: dict[int, Tensor] = {}
        self.slices = self.compute()

    @abstractmethod
    def compute(self) -> Slices[None]:
        """Goes through the model, and has the vectors of each job in `finished`."""

    @torch.inference_mode()
    def advance(self) -> bool:
        """Computes the next slice; False once all are computed."""
        for _ in self.slices:
            return True
        return False

    @torch.inference_mode()
    def take_finished(self) -> dict[int, Vectors]:
        """What has been computed since the last call, by the job's place; waits for a GPU.

        Returns:
            Float32: (E) for a text, (T, D) for its tokens.
        """
        finished, self.finished = self.finished, {}
        return {number: vectors.cpu().numpy() for number, vectors in finished.items()}


class EmbeddingPass(VectorPass):
    """Embeds some texts, one slice a call, short ones first.

    Args:
        model: On its device, its encoder in any precision.
        jobs: The texts.
        slice_tokens: About how many tokens a slice works on.

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
        """Batch after batch, those of short texts first."""
        for batch in batches(self.numbered, self.slice_tokens):
            hidden = yield from self._encode(batch)
            parts = torch.split(hidden[0, : sum(each.length for each in batch)], lengths(batch))
            for each, part in zip(batch, parts, strict=True):
                self.finished[each.number] = self._finish(each.job, part)
            yield

    def _encode(self, batch: list[NumberedJob]) -> Slices[Tensor]:
        """The last layer's vectors (1, N, D), and perhaps some of nobody behind them."""
        native, sequences = self.model.native, [each.job.ids for each in batch]
        if native is None:
            encoded = EncodedBatch(self.model.encoder, sequences, self.slice_tokens)
            return (yield from encoded.run())
        return (yield from native.run(sequences, self.slice_tokens))

    def _finish(self, job: EmbeddingJob, hidden: Tensor) -> Tensor:
        if job.is_per_token:
            return hidden.float()
        return self.model.embed(hidden, job.is_raw)


def embed(
    model: EmbeddingModel, jobs: Sequence[EmbeddingJob], slice_tokens: int = SLICE_TOKENS
) -> list[Vectors]:
    """The vectors of all jobs, computed in one go.

    Raises:
        InputError: A job cannot be computed.
    """
    embedding = EmbeddingPass(model, jobs, slice_tokens)
    while embedding.advance():
        pass
    finished = embedding.take_finished()
    return [finished[number] for number in range(len(jobs))]


def lengths(batch: Sequence[NumberedJob]) -> list[int]:
    """The tokens of each."""
    return [each.length for each in batch]


def batches(numbered: Sequence[NumberedJob], max_tokens: int) -> Iterator[list[NumberedJob]]:
    """Cuts into batches of at most so many tokens, or of one job."""
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
    """Neighbours of one length: how many, and how long."""

    texts: int
    length: int


class EncodedBatch:
    """Some texts side by side, through all layers.

    N, in the shapes here, is the tokens of all of them; B is 1.

    Args:
        encoder: Of the model.
        sequences: Ids of texts, those of one length beside each other.
        slice_tokens: About how many tokens a slice works on.
    """

    def __init__(
        self, encoder: TextEncoder, sequences: Sequence[list[int]], slice_tokens: int
    ) -> None:
        self.encoder = encoder
        self.sequences = [*sequences]
        self.slice_tokens = slice_tokens
        missing = -sum(map(len, sequences)) % TOKEN_MULTIPLE
        if missing:  # a text of nobody; what is in it does not matter
            self.sequences.append([0] * missing)
        sizes = groupby(map(len, self.sequences))
        self.groups = [Group(len(list(texts)), length) for length, texts in sizes]

    def run(self) -> Slices[Tensor]:
        """The last layer's vectors (1, N, D), and perhaps some of nobody behind them."""
        x = self._embed()
        bias = self._bias()
        for layer in self.encoder.encoder_layers:
            heads = yield from self._attend(project(layer, x), bias)
            x = yield from self._finish(layer, x, heads)
        return x

    def _embed(self) -> Tensor:
        tokens = [token for sequence in self.sequences for token in sequence]
        positions = [place for sequence in self.sequences for place in range(len(sequence))]
        ids, places = (upload(each, self.encoder.device)[None] for each in (tokens, positions))
        embedded: Tensor = self.encoder.embedding(ids, places)
        return embedded

    def _bias(self) -> Tensor | None:
        """(1, H, S, S) for the longest; its corner is that of a shorter one.

        With its four dimensions the fused kernel takes it; what takes three has other bits.
        """
        if self.encoder.relative_bias is None:
            return None
        bias: Tensor = self.encoder.relative_bias(max(group.length for group in self.groups))
        return bias[None]

    def _attend(self, projected: Heads, bias: Tensor | None) -> Slices[Tensor]:
        """(1, H, N, K): what each head takes along."""
        sizes = [group.texts * group.length for group in self.groups]
        parts = [torch.split(heads, sizes, dim=2) for heads in projected]
        attended: list[Tensor] = []
        for group, *heads in zip(self.groups, *parts, strict=True):
            query, key, value = (apart(part, group) for part in heads)
            corner = None if bias is None else bias[..., : group.length, : group.length]
            rows = yield from self._attend_within(query, key, value, corner)
            attended.append(side_by_side(rows))
        yield
        return torch.cat(attended, dim=2)

    def _attend_within(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None
    ) -> Slices[Tensor]:
        """(B, H, T, K) of B texts of one length; a long one's rows are attended in several."""
        attended = []
        for first in range(0, query.shape[2], self.slice_tokens):
            if first:
                yield
            rows = slice(first, first + self.slice_tokens)
            chosen = None if bias is None else bias[:, :, rows]
            attended.append(attention(query[:, :, rows], key, value, chosen)[0])
        return torch.cat(attended, dim=2)

    def _finish(self, layer: EncoderLayer, x: Tensor, heads: Tensor) -> Slices[Tensor]:
        """The rest of a layer (1, N, D), for what went into it and what its heads give."""
        x = layer.self_residual.after(x, layer.self_attention.merge(heads))
        return (yield from self._feed_forward(layer, x))

    def _feed_forward(self, layer: EncoderLayer, x: Tensor) -> Slices[Tensor]:
        """In equal parts, so that none has few rows; see `TOKEN_MULTIPLE`."""
        parts = []
        for part in torch.tensor_split(x, -(-x.shape[1] // self.slice_tokens), dim=1):
            parts.append(layer.feed_forward_residual.after(part, layer.feed_forward(part)))
            yield
        return torch.cat(parts, dim=1)


def project(layer: EncoderLayer, x: Tensor) -> Heads:
    """Queries, keys and values (1, H, N, K) of (1, N, D)."""
    module = layer.self_attention
    return (module.project_query(x), *module.project_memory(x))


def apart(heads: Tensor, group: Group) -> Tensor:
    """(B, H, T, K) of a group's heads (1, H, B * T, K)."""
    shape = heads.shape[1], group.texts, group.length, heads.shape[3]
    return heads[0].reshape(shape).transpose(0, 1)


def side_by_side(heads: Tensor) -> Tensor:
    """(1, H, B * T, K) of heads (B, H, T, K)."""
    return heads.transpose(0, 1).flatten(1, 2)[None]
