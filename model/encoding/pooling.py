"""Implements models that embed texts; pools the vectors of a text's tokens in float32.

Shapes: B is the number of texts, S the number of tokens of the longest text, and D the width of the
model. E is the width of the vector of a text.

Source: sentence-transformers, models/Pooling.py, models/Dense.py and models/Normalize.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.seq2seq import EncoderDecoder
from model.architectures.text_encoder import TextEncoder
from model.backends.cuda.staging import upload
from model.backends.encoder_batch import EncoderBatch, HiddenTexts, begin_batch, pads_on
from model.backends.native.text_runner import NativeTextEncoder
from model.embedding_config import DenseConfig, EmbeddingConfig, NormalizeConfig, Pooling
from model.layers.attention import fuse_projections
from model.precision import Precision


@dataclass(frozen=True, slots=True)
class MaskedTexts:
    """The hidden states of some texts in float32, as the poolings read them.

    Attributes:
        states: Hidden states (B, S, D), zero on padding.
        counts: Number of tokens of each text (B, 1), or one number for all texts.
        mask: (B, S, 1), True on tokens and False on padding; None if there is no padding.
    """

    states: Tensor
    counts: Tensor | int
    mask: Tensor | None

    @classmethod
    def of(cls, texts: HiddenTexts) -> "MaskedTexts":
        states = texts.states.float()
        width = states.shape[1]
        if min(texts.lengths) == width:
            return cls(states, width, None)
        counts = upload([*texts.lengths], states.device)[:, None]  # (B, 1)
        mask = (torch.arange(width, device=states.device) < counts)[:, :, None]
        return cls(states.masked_fill(~mask, 0.0), counts, mask)

    def max(self) -> Tensor:
        if self.mask is None:
            return self.states.amax(dim=1)
        return self.states.masked_fill(~self.mask, float("-inf")).amax(dim=1)

    def weighted_mean(self) -> Tensor:
        """Returns the weighted mean (B, D); token t, counted from 1, has weight t.

        Source: Muennighoff 2022, "SGPT", equation 2.
        """
        weights = torch.arange(1.0, self.states.shape[1] + 1, device=self.states.device)[:, None]
        return (self.states * weights).sum(dim=1) / (self.counts * (self.counts + 1) / 2)

    def last(self) -> Tensor:
        """Returns the state of each text's last token (B, D)."""
        if isinstance(self.counts, int):
            return self.states[:, -1]
        rows = torch.arange(len(self.states), device=self.states.device)
        return self.states[rows, self.counts[:, 0] - 1]


POOLINGS: dict[Pooling, Callable[[MaskedTexts], Tensor]] = {
    Pooling.CLS: lambda texts: texts.states[:, 0],
    Pooling.MAX: MaskedTexts.max,
    Pooling.MEAN: lambda texts: texts.states.sum(dim=1) / texts.counts,
    Pooling.MEAN_SQRT_LEN: lambda texts: texts.states.sum(dim=1) / texts.counts**0.5,
    Pooling.WEIGHTED_MEAN: MaskedTexts.weighted_mean,
    Pooling.LAST_TOKEN: MaskedTexts.last,
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
    """A linear layer with an optional tanh."""

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.inputs, config.outputs, bias=config.has_bias)
        self.is_tanh = config.is_tanh

    def forward(self, x: Tensor) -> Tensor:
        # On a CPU, a row in a product of several rows could get other bits.
        rows = torch.split(x, 1) if x.device.type == "cpu" else [x]
        y = torch.cat([self.linear(row) for row in rows])
        return y.tanh() if self.is_tanh else y


class EmbeddingModel(nn.Module):
    """A text encoder, its pooling and the modules after pooling.

    The encoder may be in any precision; pooling and the modules after it are in float32.
    `model.encoding.embedding.Embedder` describes the methods.

    Attributes:
        precision: Precision of the encoder.
        native: Native code that replaces the PyTorch encoder; None if PyTorch runs the encoder.
    """

    def __init__(self, config: EmbeddingConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = TextEncoder(config.encoder)
        self.head = nn.Sequential(*map(new_module, config.modules))
        self.precision = Precision.FLOAT32
        self.native: NativeTextEncoder | None = None

    @property
    def vocab_size(self) -> int:
        return self.config.encoder.vocab_size

    @property
    def max_tokens(self) -> int:
        return self.config.max_tokens

    @property
    def pads(self) -> bool:
        return pads_on(self.encoder.device)

    def begin(self, sequences: Sequence[list[int]]) -> EncoderBatch:
        if self.native is None:
            return begin_batch(self.encoder, sequences)
        return self.native.begin(sequences)

    def end(self, batch: EncoderBatch) -> None:
        if self.native is not None:
            self.native.end(batch)

    def embed(self, texts: HiddenTexts, is_raw: bool = False) -> Tensor:
        pooled = pool(texts, self.config.pooling)
        head = self.head[:-1] if is_raw and self.config.is_normalized else self.head
        embedded: Tensor = head(pooled)
        return embedded


def on_device(model: EmbeddingModel, device: torch.device) -> EmbeddingModel:
    """Returns the model, moved to a device; on a GPU, fuses the model's projections."""
    model = model.to(device)
    if device.type == "cuda":
        fuse_projections(model)
    return model


class MeanOfMemory:
    """Embeds a text with a translation model, by the mean of the encoder output over all tokens.

    `model.encoding.embedding.Embedder` describes the methods.
    """

    max_tokens = None  # sinusoid positions can be computed for a text of any length

    def __init__(self, model: EncoderDecoder) -> None:
        self.encoder = model.encoder
        self.vocab_size = model.config.source_vocab_size
        self.pads = pads_on(model.encoder.device)

    def begin(self, sequences: Sequence[list[int]]) -> EncoderBatch:
        return begin_batch(self.encoder, sequences)

    def end(self, batch: EncoderBatch) -> None:
        """Keeps no memory: PyTorch allocates and frees it for each batch."""

    def embed(self, texts: HiddenTexts, is_raw: bool = False) -> Tensor:
        return pool(texts, (Pooling.MEAN,))


def new_module(config: DenseConfig | NormalizeConfig) -> nn.Module:
    return Dense(config) if isinstance(config, DenseConfig) else Normalize()
