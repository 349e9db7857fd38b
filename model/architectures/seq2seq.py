"""Implements the encoder-decoder Transformer that a ModelConfig describes."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.embedding import Embedding, start_token
from model.architectures.encoder import EncoderLayer, EncoderStack, FeedForwardEnd
from model.config import DecoderKind, ModelConfig
from model.layers.attention import MultiHeadAttention
from model.layers.cache import DecoderState, LayerState
from model.layers.sublayers import SSRU, FeedForward, Residual, final_norm, join
from model.precision import Precision
from model.quantization.int8 import Int8Linear, QuantizedMatrix


class Encoder(EncoderStack):
    """Maps source ids to the memory, which the cross-attention of the decoder reads."""

    def __init__(self, config: ModelConfig, embedding: Embedding) -> None:
        super().__init__()
        self.embedding: Embedding = embedding
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = final_norm(config)


class DecoderLayer(FeedForwardEnd):
    """A decoder layer: token mixer (SSRU or self-attention), cross-attention, feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.token_mixer: SSRU | MultiHeadAttention = (
            SSRU(config.d_model)
            if config.decoder is DecoderKind.SSRU
            else MultiHeadAttention(config.d_model, config.num_heads)
        )
        self.token_mixer_residual = Residual(config)
        self.cross_attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self, x: Tensor, inner: Tensor, state: LayerState, next_norm: nn.Module
    ) -> tuple[Tensor, Tensor]:
        """Computes the layer for T new tokens of each row, and updates `state`.

        The state gets the keys and values of the tokens, or the new cell of an SSRU.

        Args:
            x: The residual stream (B, T, D).
            inner: Input of the token mixer (B, T, D): x, or its layer norm in a pre-norm stack.
            state: State of this layer.
            next_norm: First layer norm of the next layer, or the decoder's final layer norm.

        Returns:
            The new residual stream (B, T, D), and the input (B, T, D) of the next layer. In a
            pre-norm stack, this input is the stream after `next_norm`, and else the stream itself.
        """
        kernels, cross, last = state.kernels, self.cross_residual, self.feed_forward_residual
        y = self._mix_tokens(x, inner, state)
        x, inner = join(x, y, self.token_mixer_residual, cross.norm, kernels)
        query = self.cross_attention.project_query(inner)
        y = self.cross_attention((query, state.memory_key, state.memory_value), state.memory_bias)
        x, inner = join(x, y, cross, last.norm, kernels)
        return join(x, self.feed_forward(inner), last, next_norm, kernels)

    def _mix_tokens(self, x: Tensor, inner: Tensor, state: LayerState) -> Tensor:
        if isinstance(self.token_mixer, SSRU):
            mixed: Tensor = self.token_mixer(inner, state.cell, state.kernels)
            return mixed
        attended = self.token_mixer_residual.key_value_input(x, inner)
        query, key, value = self.token_mixer.project(inner, attended)
        bias = state.append(key, value)
        y: Tensor = self.token_mixer((query, state.self_key, state.self_value), bias)
        return y


class Decoder(nn.Module):
    """Maps target ids and memory to hidden states, and hidden states to logits."""

    def __init__(self, config: ModelConfig, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.norm = final_norm(config)
        if config.has_output_bias:
            self.output_bias = nn.Parameter(torch.zeros(config.target_vocab_size))
        else:  # a buffer and not a parameter, because no tensor of the checkpoint fills the bias
            zeros = torch.zeros(config.target_vocab_size, device="cpu")
            self.register_buffer("output_bias", zeros, persistent=False)
        self.int8_output: Int8Linear | None = None
        self.padded_output: Tensor | None = None
        self.untied_weight = (
            None
            if config.tied_output
            else nn.Parameter(torch.empty(config.target_vocab_size, config.d_model))
        )

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", list(self.layers))

    @property
    def output_weight(self) -> Tensor:
        """Returns the weight (V, D) of the output layer: floats, or integers after `quantize`."""
        if self.int8_output is not None:
            return self.int8_output.weight
        return self.embedding.weight if self.untied_weight is None else self.untied_weight

    def pad_output(self, multiple: int) -> Tensor:
        """Returns the output weight (W, D): V rows, and rows of zeros up to W, a multiple.

        If W is larger than V, the first call copies the weight. `output_weight` is then a view of
        the copy, so that the model does not hold the weight twice.
        """
        weight = self.output_weight
        size, width = weight.shape
        padding = -size % multiple
        if not padding:
            return weight.detach()
        if self.padded_output is None or len(self.padded_output) != size + padding:
            self.padded_output = weight.detach().new_zeros(size + padding, width)
            self.padded_output[:size] = weight.detach()
            weight.data = self.padded_output[:size]
        return self.padded_output

    @property
    def output_scales(self) -> Tensor | None:
        return None if self.int8_output is None else self.int8_output.scales

    def quantize(self, matrix: QuantizedMatrix) -> None:
        """Replaces the output weight by an int8 matrix; all layers then round keys and values."""
        self.int8_output = Int8Linear(matrix, None)
        for module in self.layers.modules():
            if isinstance(module, MultiHeadAttention):
                module.rounds_to_half = True
        self.untied_weight = None

    def multiply(
        self, hidden: Tensor, weight: Tensor, scales: Tensor | None, bias: Tensor
    ) -> Tensor:
        """Returns float32 logits (..., U) of hidden states (..., D), for all or some ids.

        `weight` (U, D) has these rows of `output_weight` or `pad_output`. An int8 weight has one
        scale for each row (U).
        """
        if self.int8_output is not None and scales is not None:
            return self.int8_output.multiply(hidden, weight, scales, bias)
        return F.linear(hidden, weight, bias).float()

    def project_cross_kv(self, memory: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Returns each layer's cross-attention keys and values (B, H, S, K) of memory (B, S, D)."""
        return [layer.cross_attention.project_key_value(memory) for layer in self.decoder_layers]

    def forward(self, tokens: Tensor, state: DecoderState, max_position: int) -> Tensor:
        """Returns hidden states (B, T, D) of T new tokens (B, T) of each row; updates `state`.

        After a decode step, the runner advances the positions with `DecodingCache.advance`.
        """
        kernels = state.layers[0].kernels
        x = self.embedding(tokens, state.positions, max_position, kernels)  # (B, T, D)
        first, *later = [layer.token_mixer_residual for layer in self.decoder_layers]
        inner = first.before(x)
        norms = [*(residual.norm for residual in later), self.norm]
        for layer, layer_state, norm in zip(self.decoder_layers, state.layers, norms, strict=True):
            x, inner = layer(x, inner, layer_state, norm)
        return inner

    def logits_of(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """Returns float32 logits (B, U) of some vocabulary ids (U) for hidden states (B, D)."""
        bias = self.output_bias[ids]
        if self.int8_output is None:
            return self.multiply(hidden, self.output_weight[ids], None, bias)
        rows, scales = self.int8_output.rows(ids), self.int8_output.scales[ids]
        return self.multiply(hidden, rows, scales, bias)

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns float32 logits (..., V) for hidden states (..., D)."""
        parts = self.output_weight, self.output_scales, self.output_bias
        flat = self.multiply(hidden.flatten(0, -2), *parts)
        return flat.view(*hidden.shape[:-1], -1)


class EncoderDecoder(nn.Module):
    """A translation model: its config gives the sizes, and a checkpoint fills the weights."""

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
        return self.decoder.output_bias.device

    @property
    def dtype(self) -> torch.dtype:
        return self.decoder.output_bias.dtype

    def decoder_inputs(self, target: Tensor) -> Tensor:
        """Returns the decoder inputs (B, T) for a target (B, T), shifted right by one."""
        start = torch.full_like(target[:, :1], start_token(self.config))
        return torch.cat([start, target[:, :-1]], dim=1)
