"""Embeds texts: runs their encoder in slices, and pools the vectors of a text's tokens in float32.

B is the number of texts, and S the number of tokens of the longest text.

Source: sentence-transformers, models/Pooling.py, models/Dense.py and models/Normalize.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from model.architectures.stack import EncoderDecoder, TextEncoder
from model.backends.cuda.graphs import Mark
from model.backends.cuda.runner import text_kernels
from model.backends.encoder_batch import (
    HiddenTexts,
    LayerBatch,
    SlicedPass,
    begin_batch,
    run_layers,
    upload,
)
from model.backends.native.runner import NativeTextEncoder, TextBatch
from model.config import (
    DenseConfig,
    EmbeddingConfig,
    HeadConfig,
    LayerNormConfig,
    Pooling,
    SparseConfig,
)
from model.inspection.captures.capture import Slices
from model.layers.attention import RowKernels, fuse_projections, new_norm
from model.layers.block import ACTIVATIONS
from model.precision import Precision
from model.sequence import batches, check_ids

SLICE_TOKENS = 256  # default for the approximate number of tokens in a slice

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class MaskedTexts:
    """The hidden states of some texts in float32, as the poolings read them.

    Each text is pooled from token `starts` to token `ends` - 1; an int is the same for all texts.
    """

    states: Tensor  # (B, S, D), zero on tokens that are left out
    ends: Tensor | int  # (B, 1)
    mask: Tensor | None  # (B, S, 1), True on tokens to pool; None if no token is left out
    starts: Tensor | int = 0  # (B, 1)

    @classmethod
    def of(cls, texts: HiddenTexts) -> "MaskedTexts":
        states = texts.states.float()
        width, skips = states.shape[1], any(texts.unpooled)
        if min(texts.lengths) == width and not skips:
            return cls(states, width, None)
        ends = upload([*texts.lengths], states.device)[:, None]  # (B, 1)
        starts = upload([*texts.unpooled], states.device)[:, None] if skips else 0
        places = torch.arange(width, device=states.device)
        mask = ((places >= starts) & (places < ends))[:, :, None]
        return cls(states.masked_fill(~mask, 0.0), ends, mask, starts)

    def at(self, places: Tensor | int) -> Tensor:
        if isinstance(places, int):
            return self.states[:, places]
        rows = torch.arange(len(self.states), device=self.states.device)
        return self.states[rows, places[:, 0]]

    def max(self) -> Tensor:
        if self.mask is None:
            return self.states.amax(dim=1)
        return self.states.masked_fill(~self.mask, float("-inf")).amax(dim=1)

    def weighted_mean(self) -> Tensor:
        """Returns the weighted mean (B, D); token t of the whole text, from 1, has weight t.

        Source: Muennighoff 2022, "SGPT", equation 2.
        """
        weights = torch.arange(1.0, self.states.shape[1] + 1, device=self.states.device)[:, None]
        total = self.ends * (self.ends + 1) - self.starts * (self.starts + 1)
        return (self.states * weights).sum(dim=1) / (total / 2)


POOLINGS: dict[Pooling, Callable[[MaskedTexts], Tensor]] = {
    Pooling.CLS: lambda texts: texts.at(texts.starts),
    Pooling.MAX: MaskedTexts.max,
    Pooling.MEAN: lambda texts: texts.states.sum(dim=1) / (texts.ends - texts.starts),
    Pooling.MEAN_SQRT_LEN: lambda texts: (
        # `tensor ** 0.5` can have other bits than `int ** 0.5`.
        texts.states.sum(dim=1) / torch.as_tensor(texts.ends - texts.starts).sqrt()
    ),
    Pooling.WEIGHTED_MEAN: MaskedTexts.weighted_mean,
    Pooling.LAST_TOKEN: lambda texts: texts.at(texts.ends - 1),
}


def pool(texts: HiddenTexts, ways: tuple[Pooling, ...]) -> Tensor:
    """Pools the token vectors of each text in n ways; concatenates the results to (B, n * D)."""
    pooled = MaskedTexts.of(texts)
    return torch.cat([POOLINGS[way](pooled) for way in ways], dim=1)


class Normalize(nn.Module):
    """Divides each vector by its Euclidean norm."""

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=1)


class Dense(nn.Module):
    """A linear layer with an optional activation."""

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.inputs, config.outputs, bias=config.has_bias)
        self.activation = config.activation

    def forward(self, x: Tensor) -> Tensor:
        # On a CPU, a row in a product of several rows could get other bits.
        rows = torch.split(x, 1) if x.device.type == "cpu" else [x]
        y = torch.cat([self.linear(row) for row in rows])
        return y if self.activation is None else ACTIVATIONS[self.activation](y)


class WordScores(nn.Module):
    """The head of SPLADE models: it scores all words of the vocabulary by a text's tokens.

    Source: Formal et al. 2021, "SPLADE v2", equations 1 and 6; sentence-transformers,
        sparse_encoder/models/SpladePooling.py.
    """

    def __init__(self, config: SparseConfig, vocab_size: int, width: int) -> None:
        super().__init__()
        self.config = config
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=config.norm_eps)
        self.bias = nn.Parameter(torch.empty(vocab_size))
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, states: Tensor, table: Tensor) -> Tensor:
        """Returns the ids and weights (n, 2) of the words of one text, in the order of ids.

        The text is computed alone: in a product with other rows, its bits could be others.

        Args:
            states: Hidden states (T, D) of the text's tokens.
            table: Token table (V, D), which is also the matrix of the output layer.
        """
        hidden = self.norm(self.activation(self.dense(states.float())))
        scores = F.linear(hidden.to(table.dtype), table).float() + self.bias  # (T, V)
        scores = scores.relu()
        for _ in range(self.config.num_logs):
            scores = scores.log1p()
        weights = scores.sum(dim=0) if self.config.is_sum else scores.amax(dim=0)  # (V)
        (ids,) = weights.nonzero(as_tuple=True)
        return torch.stack([ids.float(), weights[ids]], dim=1)


def word_weights(ids: Sequence[int], table: Tensor) -> Tensor:
    """Returns the ids and weights (n, 2) of a text's words in a table (V, 1) for every text."""
    found = torch.tensor(sorted({*ids}), device=table.device)
    weights = table[found].float()  # (n, 1)
    return torch.cat([found[:, None].float(), weights], dim=1)[weights[:, 0] != 0]


class EmbeddingModel(nn.Module):
    """A text encoder, its pooling and the modules after pooling.

    The encoder may be in any `precision`; pooling and the modules after it are in float32. The code
    in `native` replaces the PyTorch encoder, unless it is None.
    """

    def __init__(self, config: EmbeddingConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = TextEncoder(config.encoder)
        self.head = nn.Sequential(*map(new_module, config.modules))
        sizes = config.encoder.vocab_size, config.encoder.d_model
        self.words: Callable[..., Tensor] | None = None
        if config.sparse is not None:
            has_layers = bool(config.encoder.blocks)
            self.words = WordScores(config.sparse, *sizes) if has_layers else word_weights
        self.query: EmbeddingModel | None = None  # computes the jobs of queries, unless it is None
        self.token_head = None if config.multi is None else self.head  # of each token's vector
        self.vocab_size, self.max_tokens = config.encoder.vocab_size, config.max_tokens
        self.precision = Precision.FLOAT32
        self.native: NativeTextEncoder | None = None
        self.kernels: RowKernels | None = None  # of a GPU

    def begin(self, sequences: Sequence[list[int]]) -> LayerBatch:
        """Returns a batch of texts, given the ids of each text."""
        if self.native is not None:
            return TextBatch(self.native, sequences)
        multi, visible = self.config.multi, list[int]()
        if multi is not None and not multi.attends_filler:
            visible = [count_visible(ids, multi.filler) for ids in sequences]
        return begin_batch(self.encoder, sequences, visible, self.kernels)

    def embed(self, texts: HiddenTexts, is_raw: bool = False) -> Tensor:
        """Computes the float32 vectors (B, E) of texts; `is_raw` skips a final Normalize module."""
        pooled = pool(texts, self.config.pooling)
        head = self.head[:-1] if is_raw and self.config.is_normalized else self.head
        embedded: Tensor = head(pooled)
        return embedded


def count_visible(ids: list[int], filler: int | None) -> int:
    count = len(ids)
    while count > 1 and ids[count - 1] == filler:
        count -= 1
    return count


def new_module(config: HeadConfig) -> nn.Module:
    if isinstance(config, LayerNormConfig):
        return new_norm(config.width, config.norm)
    return Dense(config) if isinstance(config, DenseConfig) else Normalize()


def on_device(model: EmbeddingModel, device: torch.device, precision: Precision) -> EmbeddingModel:
    """Returns the model on a device, with its encoder in a precision; fuses it on a GPU."""
    model.precision = precision
    model.encoder.to(precision.dtype)
    model = model.to(device).eval()
    if device.type == "cuda":
        fuse_projections(model)
        model.kernels = text_kernels(model.encoder)
    return model


class MeanOfMemory:
    """Embeds a text with a translation model, by the mean of the encoder output over all tokens.

    The methods are those of `EmbeddingModel`.
    """

    max_tokens = None  # sinusoid positions can be computed for a text of any length
    query = words = token_head = None

    def __init__(self, model: EncoderDecoder) -> None:
        self.encoder = model.encoder
        self.vocab_size = model.config.source_vocab_size
        self.kernels = text_kernels(model.encoder)

    def begin(self, sequences: Sequence[list[int]]) -> LayerBatch:
        return begin_batch(self.encoder, sequences, kernels=self.kernels)

    def embed(self, texts: HiddenTexts, is_raw: bool = False) -> Tensor:
        return pool(texts, (Pooling.MEAN,))


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """One text to embed: its ids, special tokens included, truncated to the model's limit.

    With `is_per_token`, the result is the last hidden state of each token, or its vector in a
    ColBERT model. Else it is one vector, and `is_raw` skips a final Normalize module, which would
    scale it to Euclidean length 1. The first `unpooled` ids, those of a prompt, are encoded, but
    they are left out of the pooling. Some models compute a query by other modules than a document.
    """

    ids: list[int]
    is_per_token: bool = False
    is_raw: bool = False
    unpooled: int = 0
    is_query: bool = False


Embedder = EmbeddingModel | MeanOfMemory


class EmbeddingEncode(SlicedPass):
    """Embeds some texts in slices, short texts first; each call of `advance` computes one slice."""

    def __init__(
        self, model: Embedder, jobs: Sequence[EmbeddingJob], slice_tokens: int = SLICE_TOKENS
    ) -> None:
        query = model.query
        self.models = [query if query and job.is_query else model for job in jobs]
        for job, each in zip(jobs, self.models, strict=True):
            check_ids("text", job.ids, each.vocab_size, each.max_tokens)
        self.slice_tokens = slice_tokens
        self.jobs = jobs
        self.lengths = [len(job.ids) for job in jobs]
        self.finished: list[tuple[list[int], Tensor]] = []  # indices of jobs, and their vectors
        self.copied = Mark(model.encoder.device)  # after the copy of the last of these vectors
        super().__init__()

    @property
    def is_ready(self) -> bool:
        return self.copied.is_reached

    @torch.inference_mode()
    def take_finished(self) -> dict[int, Vectors]:
        """Returns the vectors finished since the last call; on a GPU, waits for the computation.

        The map has the index of each finished job, and its result in float32. A result is one
        vector (E) of the text, or the vectors (T, D) of its tokens. The result of a sparse model is
        (n, 2): ids of words, and their weights.
        """
        self.copied.wait()
        finished, self.finished = self.finished, []
        found: dict[int, Vectors] = {}
        for numbers, vectors in finished:
            found.update(zip(numbers, vectors.numpy(), strict=True))
        return found

    def compute(self) -> Slices[None]:
        for model in dict.fromkeys(self.models):
            yield from self._compute(model)

    def _compute(self, model: Embedder) -> Slices[None]:
        own = [number for number, each in enumerate(self.models) if each is model]
        numbers = sorted(own, key=self.lengths.__getitem__)
        lengths = [self.lengths[number] for number in numbers]
        for batch in batches(numbers, lengths, self.slice_tokens):
            encoding = model.begin([self.jobs[number].ids for number in batch])
            yield from run_layers(encoding, self.slice_tokens)
            read = encoding.read_texts()
            del encoding  # the next batch may use its memory
            rest = iter(batch)
            for texts in read:
                self._finish(model, [*islice(rest, len(texts.lengths))], texts)
            self.copied.set()
            yield

    def _finish(self, model: Embedder, batch: list[int], texts: HiddenTexts) -> None:
        jobs = [self.jobs[number] for number in batch]
        texts = replace(texts, unpooled=[job.unpooled for job in jobs])
        words, head = model.words, model.token_head
        pooled = [row for row, job in enumerate(jobs) if not (words or job.is_per_token)]
        for is_raw in (False, True):
            rows = [row for row in pooled if jobs[row].is_raw is is_raw]
            if rows:
                vectors = model.embed(texts, is_raw)  # (B, E)
                if len(rows) < len(batch):
                    vectors = vectors[upload(rows, vectors.device)]
                self._fetch([batch[row] for row in rows], vectors)
        for row, job in enumerate(jobs):
            if words is None and not job.is_per_token:
                continue
            states = texts.states[row, : len(job.ids)]
            if job.is_per_token:
                vectors = states.float() if head is None else head(states.float())
            else:
                assert isinstance(model, EmbeddingModel)
                assert words is not None
                read = states if isinstance(words, WordScores) else job.ids
                vectors = words(read, model.encoder.embedding.tokens)
            self._fetch([batch[row]], vectors[None])

    def _fetch(self, numbers: list[int], vectors: Tensor) -> None:
        # From a GPU, this starts a copy to pinned memory.
        self.finished.append((numbers, vectors.to("cpu", non_blocking=True)))


def embed(
    model: Embedder, jobs: Sequence[EmbeddingJob], slice_tokens: int = SLICE_TOKENS
) -> list[Vectors]:
    """Returns the vectors of all jobs; computes all slices without a pause."""
    embedding = EmbeddingEncode(model, jobs, slice_tokens)
    while embedding.advance():
        pass
    finished = embedding.take_finished()
    return [finished[number] for number in range(len(jobs))]
