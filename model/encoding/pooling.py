"""Implements models that embed texts; pools the vectors of a text's tokens in float32.

Source: sentence-transformers, models/Pooling.py, models/Dense.py and models/Normalize.py.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.seq2seq import EncoderDecoder
from model.architectures.text_encoder import TextEncoder
from model.backends.encoder_batch import EncoderBatch
from model.backends.native.text_runner import NativeTextEncoder
from model.backends.torch_encoder import PackedBatch
from model.embedding_config import DenseConfig, EmbeddingConfig, NormalizeConfig, Pooling
from model.precision import Precision


def weighted_mean(hidden: Tensor) -> Tensor:
    """Returns the weighted mean (D) of vectors (T, D); token t, counted from 1, has weight t.

    Source: Muennighoff 2022, "SGPT", equation 2.
    """
    weights = torch.arange(1.0, hidden.shape[0] + 1, device=hidden.device)[:, None]
    return (hidden * weights).sum(dim=0) / weights.sum()


POOLINGS: dict[Pooling, Callable[[Tensor], Tensor]] = {
    Pooling.CLS: lambda hidden: hidden[0],
    Pooling.MAX: lambda hidden: hidden.amax(dim=0),
    Pooling.MEAN: lambda hidden: hidden.mean(dim=0),
    Pooling.MEAN_SQRT_LEN: lambda hidden: hidden.sum(dim=0) / hidden.shape[0] ** 0.5,
    Pooling.WEIGHTED_MEAN: weighted_mean,
    Pooling.LAST_TOKEN: lambda hidden: hidden[-1],
}


def pool(hidden: Tensor, ways: tuple[Pooling, ...]) -> Tensor:
    """Pools the vectors (T, D) of a text; concatenates the results of several ways."""
    return torch.cat([POOLINGS[way](hidden) for way in ways])


class Normalize(nn.Module):
    """Divides each vector by its Euclidean norm."""

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, D) to (B, D)."""
        return F.normalize(x, dim=1)


class Dense(nn.Module):
    """A linear layer with an optional tanh."""

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.inputs, config.outputs, bias=config.has_bias)
        self.is_tanh = config.is_tanh

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, inputs) to (B, outputs)."""
        y: Tensor = self.linear(x)
        return y.tanh() if self.is_tanh else y


class EmbeddingModel(nn.Module):
    """A text encoder, its pooling and the modules after pooling.

    The encoder may be in any precision; pooling and the modules after it are in float32.

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
        """Number of token ids (Embedder)."""
        return self.config.encoder.vocab_size

    @property
    def max_tokens(self) -> int:
        """Largest number of tokens of a text (Embedder)."""
        return self.config.max_tokens

    def begin(self, sequences: Sequence[list[int]]) -> EncoderBatch:
        """Returns a batch of texts, in native code if it replaces the encoder (Embedder)."""
        if self.native is None:
            return PackedBatch(self.encoder, sequences)
        return self.native.begin(sequences)

    def end(self, batch: EncoderBatch) -> None:
        """Takes a batch back (Embedder)."""
        if self.native is not None:
            self.native.end(batch)

    def embed(self, hidden: Tensor, is_raw: bool = False) -> Tensor:
        """Returns the vector (E) of a text (Embedder).

        Args:
            hidden: Last hidden states of its tokens (T, D).
            is_raw: Whether to skip a final Normalize.
        """
        pooled = pool(hidden.float(), self.config.pooling)
        head = self.head[:-1] if is_raw and self.config.is_normalized else self.head
        embedded: Tensor = head(pooled[None])[0]
        return embedded


class MeanOfMemory:
    """Embeds a text with a translation model: the mean of the encoder's output over the tokens.

    Args:
        model: Translation model on its device, in any precision.

    Attributes:
        max_tokens: None, because sinusoid positions have no end.
    """

    max_tokens = None

    def __init__(self, model: EncoderDecoder) -> None:
        self.encoder = model.encoder
        self.vocab_size = model.config.source_vocab_size

    def begin(self, sequences: Sequence[list[int]]) -> EncoderBatch:
        """Returns a batch of texts (Embedder)."""
        return PackedBatch(self.encoder, sequences)

    def end(self, batch: EncoderBatch) -> None:
        """Keeps nothing: a later batch shares no memory (Embedder)."""

    def embed(self, hidden: Tensor, is_raw: bool = False) -> Tensor:
        """Returns the mean (D) of hidden states (T, D), never scaled to length 1 (Embedder)."""
        return hidden.float().mean(dim=0)


def new_module(config: DenseConfig | NormalizeConfig) -> nn.Module:
    """Returns the module of a config, with empty weights."""
    return Dense(config) if isinstance(config, DenseConfig) else Normalize()
