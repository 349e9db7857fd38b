"""The encoder-decoder Transformer, built from a ModelConfig."""

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import mask_bias
from model.cache import DecoderState, DecodingCache
from model.config import ModelConfig, NormPosition
from model.device import Precision
from model.layers import DecoderLayer, EncoderLayer, sinusoid_table
from model.quantization import Int8Product, QuantizedMatrix

NO_TOKEN = -1
"""Stands for the zero vector that Marian's decoders start from."""


@dataclass(frozen=True, slots=True)
class Attentions:
    """Attention weights of one teacher-forced pass, one tensor a layer.

    Attributes:
        encoder: (B, H, S, S) each.
        decoder: (B, H, T, T) each; none in an SSRU decoder.
        cross: (B, H, T, S) each.
    """

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


class Embedding(nn.Module):
    """The token's vector, times sqrt(D) in most models, plus the position's.

    Positions are computed on first need and kept, so that a table of any length costs nothing
    until a text is that long.
    """

    def __init__(self, vocab_size: int, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.scale = config.d_model**0.5 if config.scales_embeddings else 1.0
        self.config = config
        table = torch.empty(0, config.d_model, device="cpu")  # of this one, no file tells
        self.register_buffer("table", table, persistent=False)
        self.quantized: Tensor | None = None
        self.multiplier = 1.0

    def quantize(self, matrix: QuantizedMatrix) -> None:
        """Keeps the vectors in int8, which is what they were before they were made floats."""
        self.quantized = torch.from_numpy(matrix.values)
        self.multiplier = matrix.multiplier
        self.weight = nn.Parameter(torch.empty(0, self.config.d_model), requires_grad=False)

    def forward(self, tokens: Tensor, positions: Tensor, max_position: int) -> Tensor:
        """(B, T, D) for tokens and positions (B, T); NO_TOKEN gives the position alone.

        Args:
            tokens: Ids.
            positions: From 0.
            max_position: No position is larger.
        """
        self.reach(max_position)
        vectors = self._vectors(tokens.clamp_min(0)) * self.scale
        vectors = vectors.masked_fill((tokens == NO_TOKEN).unsqueeze(-1), 0.0)
        embedded: Tensor = vectors + F.embedding(positions, self.table)
        return embedded

    def _vectors(self, tokens: Tensor) -> Tensor:
        if self.quantized is None:
            return F.embedding(tokens, self.weight)
        return F.embedding(tokens, self.quantized).float() / self.multiplier

    def reach(self, position: int) -> None:
        """Has the table reach this position at least; where it did not, it lies elsewhere then."""
        if position >= self.table.shape[0]:
            start, length = self.config.position_offset, max(128, 2 * position)
            table = sinusoid_table(start + length, self.config.d_model, self.config.sinusoids)
            self.table: Tensor = table[start:].to(self.weight)


class Encoder(nn.Module):
    """Source ids to memory."""

    def __init__(self, config: ModelConfig, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = final_norm(config)

    def forward(
        self, source: Tensor, mask: Tensor, return_weights: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Encodes source (B, S); mask (B, S) is True on tokens and False on padding.

        Returns:
            The memory (B, S, D), and with `return_weights` each layer's (B, H, S, S).
        """
        length = source.shape[1]
        positions = torch.arange(length, device=source.device).expand_as(source)  # (B, S)
        x = self.embedding(source, positions, length - 1)  # (B, S, D)
        bias = mask_bias(mask, x.dtype)[:, None, None, :]  # (B, 1, 1, S)
        all_weights = []
        for layer in self.layers:
            x, weights = layer(x, bias, return_weights)
            all_weights.append(weights)
        return self.norm(x), all_weights if return_weights else []


class Decoder(nn.Module):
    """Target ids and memory to hidden states, and hidden states to logits."""

    def __init__(self, config: ModelConfig, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.norm = final_norm(config)
        if config.has_output_bias:
            self.output_bias = nn.Parameter(torch.zeros(config.target_vocab_size))
        else:  # where there is none, no file has one to fill it with
            zeros = torch.zeros(config.target_vocab_size, device="cpu")
            self.register_buffer("output_bias", zeros, persistent=False)
        self.int8_output: Int8Product | None = None
        self.untied_weight = (
            None
            if config.tied_output
            else nn.Parameter(torch.empty(config.target_vocab_size, config.d_model))
        )

    @property
    def output_weight(self) -> Tensor:
        """What turns hidden states into logits (V, D): the embeddings where they are tied."""
        if self.int8_output is not None:
            return self.int8_output.weight
        return self.embedding.weight if self.untied_weight is None else self.untied_weight

    def quantize(self, matrix: QuantizedMatrix) -> None:
        """Has the output layer multiply in int8."""
        self.int8_output = Int8Product(matrix, None)
        self.untied_weight = None

    def multiply(self, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Float32 logits (..., U) of hidden states (..., D) for U rows of the output weight."""
        if self.int8_output is not None:
            return self.int8_output.product(hidden, weight, bias)
        return F.linear(hidden, weight, bias).float()

    def project_memory(self, memory: Tensor) -> list[tuple[Tensor, Tensor]]:
        """For each layer, cross-attention keys and values (B, H, S, K) of memory (B, S, D)."""
        layers = cast("list[DecoderLayer]", list(self.layers))
        return [self.project_layer_memory(layer, memory) for layer in layers]

    def project_layer_memory(self, layer: DecoderLayer, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The same for one layer."""
        key, value = layer.cross_attention.project_memory(memory)
        if self.int8_output is None:
            return key, value
        return through_half(key), through_half(value)

    def forward(
        self,
        tokens: Tensor,
        state: DecoderState,
        max_position: int,
        return_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Decodes tokens (B, T) on top of `state` and leaves it moved on by T tokens.

        Returns:
            Hidden states (B, T, D); with `return_weights` each layer's self-attention
            (B, H, T, L) where there is one, and cross-attention (B, H, T, S).
        """
        x = self.embedding(tokens, state.positions, max_position)  # (B, T, D)
        all_self, all_cross = [], []
        for layer, layer_state in zip(self.layers, state.layers, strict=True):
            x, self_weights, cross_weights = layer(x, layer_state, return_weights)
            all_cross.append(cross_weights)
            if self_weights is not None:
                all_self.append(self_weights)
        return self.norm(x), all_self, all_cross if return_weights else []

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., V) for hidden states (..., D)."""
        flat = self.multiply(hidden.flatten(0, -2), self.output_weight, self.output_bias)
        return flat.view(*hidden.shape[:-1], -1)


class EncoderDecoder(nn.Module):
    """A translation model: sizes and switches from its config, weights from a checkpoint."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.precision = Precision.FLOAT32
        source = Embedding(config.source_vocab_size, config)
        target = source if config.shared_embeddings else Embedding(config.target_vocab_size, config)
        self.encoder = Encoder(config, source)
        self.decoder = Decoder(config, target)

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.decoder.output_bias.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return self.decoder.output_bias.dtype

    def decoder_inputs(self, target: Tensor) -> Tensor:
        """What the decoder reads to predict target (B, T): the same, one place later."""
        start = NO_TOKEN if self.config.start_id is None else self.config.start_id
        return torch.cat([torch.full_like(target[:, :1], start), target[:, :-1]], dim=1)

    def forward(
        self, source: Tensor, mask: Tensor, target: Tensor, return_weights: bool = False
    ) -> tuple[Tensor, Attentions]:
        """One teacher-forced pass over given translations.

        Args:
            source: Ids (B, S), each row ending in EOS and then padded.
            mask: (B, S), True on tokens and False on padding.
            target: Ids (B, T) that the logits are to predict.
            return_weights: Whether the attention weights are wanted; the lists are empty
                without.

        Returns:
            Logits (B, T, V) and the attention weights.
        """
        memory, encoder_weights = self.encoder(source, mask, return_weights)
        rows, width, length = source.shape[0], source.shape[1], target.shape[1]
        cache = DecodingCache(self.config, rows, width, length, self.device, self.dtype)
        everyone = torch.arange(rows, device=self.device)
        bias = mask_bias(mask, self.dtype)[:, None, None, :]  # (B, 1, 1, S)
        cache.fill_rows(everyone, self.decoder.project_memory(memory), bias)
        state = cache.view(rows, width, length, length)
        hidden, self_weights, cross_weights = self.decoder(
            self.decoder_inputs(target), state, length - 1, return_weights
        )
        return self.decoder.logits(hidden), Attentions(encoder_weights, self_weights, cross_weights)


def through_half(x: Tensor) -> Tensor:
    """Rounded to half precision, in which the native code keeps an int8 model's memory."""
    limit = torch.finfo(torch.float16).max
    return x.clamp(-limit, limit).half().to(x.dtype)


def final_norm(config: ModelConfig) -> nn.Module:
    """The layer norm on top of a pre-norm stack; nothing on a post-norm one."""
    if config.norm is NormPosition.POST:
        return nn.Identity()
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
