"""Implements the decoder of a translation model.

The decoder maps target ids and the memory, which is the output of the encoder, to logits.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.architectures.embedding import Embedding
from model.config import DecoderKind, ModelConfig
from model.layers.attention import MultiHeadAttention
from model.layers.cache import DecoderState, LayerState
from model.layers.feed_forward import FeedForward
from model.layers.residual import Residual, final_norm, join
from model.layers.ssru import SSRU
from model.quantization.int8 import Int8Linear, QuantizedMatrix


class DecoderLayer(nn.Module):
    """A decoder layer: token mixer (SSRU or self-attention), cross-attention, feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.kind = config.decoder
        self.is_int8 = False
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
        self,
        x: Tensor,
        inner: Tensor,
        state: LayerState,
        next_norm: nn.Module,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Computes the layer for T new tokens of each row, and updates `state`.

        The state gets the keys and values of the tokens, or the new cell of an SSRU.

        Args:
            x: The residual stream (B, T, D).
            inner: Input of the token mixer (B, T, D): x, or its layer norm in a pre-norm stack.
            state: State of this layer.
            next_norm: First layer norm of the next layer, or the decoder's final layer norm.
            return_weights: Whether to return attention weights.

        Returns:
            The new residual stream (B, T, D), and the input (B, T, D) of the next layer. The third
            value is self-attention weights (B, H, T, L) or None. The fourth value is
            cross-attention weights (B, H, T, S) or None. In a pre-norm stack, the input of the next
            layer is the stream after `next_norm`. In a post-norm stack, it is the stream itself.
        """
        kernels, cross, last = state.kernels, self.cross_residual, self.feed_forward_residual
        y, self_weights = self._mix_tokens(x, inner, state, return_weights)
        x, inner = join(x, y, self.token_mixer_residual, cross.norm, kernels)
        y, cross_weights = self.cross_attention(
            inner, state.memory_key, state.memory_value, state.memory_bias, return_weights
        )
        x, inner = join(x, y, cross, last.norm, kernels)
        x, inner = join(x, self.feed_forward(inner), last, next_norm, kernels)
        return x, inner, self_weights, cross_weights

    def project_key_value(self, module: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the keys and values (B, H, T, K) that `module` computes for x (B, T, D).

        `module` is the self-attention or the cross-attention of this layer.

        An int8 model rounds keys and values to half precision, because native code stores them in
        half precision.
        """
        key, value = module.project_key_value(x)
        return self._rounded(key, value)

    def _rounded(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return (round_to_half(key), round_to_half(value)) if self.is_int8 else (key, value)

    def _mix_tokens(
        self, x: Tensor, inner: Tensor, state: LayerState, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        if isinstance(self.token_mixer, SSRU):
            return self.token_mixer(inner, state.cell, state.kernels), None
        attended = self.token_mixer_residual.key_value_input(x, inner)
        query, key, value = self.token_mixer.project(inner, attended)
        bias = state.append(*self._rounded(key, value))
        heads = query, state.self_key, state.self_value
        return self.token_mixer.attend(heads, bias, return_weights)


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
    def output_weight(self) -> Tensor:
        """Returns the weight (V, D) of the output layer: floats, or integers after `quantize`.

        A float weight may be the embedding table.
        """
        if self.int8_output is not None:
            return self.int8_output.weight
        return self.embedding.weight if self.untied_weight is None else self.untied_weight

    def pad_output(self, multiple: int) -> Tensor:
        """Returns the output weight (W, D): V rows, and then W - V rows of zeros.

        If W is larger than V, the first call copies the weight. `output_weight` is then a view of
        the copy, so that the model does not hold the weight twice.

        Args:
            multiple: W is V rounded up to a multiple of this number.
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
        """Returns the scale of each row of an int8 output weight (V); None for a float weight."""
        return None if self.int8_output is None else self.int8_output.scales

    def quantize(self, matrix: QuantizedMatrix) -> None:
        """Replaces the weight of the output layer by an int8 matrix.

        From then on, all layers round keys and values to half precision.
        """
        self.int8_output = Int8Linear(matrix, None)
        for layer in cast("list[DecoderLayer]", list(self.layers)):
            layer.is_int8 = True
        self.untied_weight = None

    def multiply(
        self, hidden: Tensor, weight: Tensor, scales: Tensor | None, bias: Tensor
    ) -> Tensor:
        """Returns float32 logits (..., U) of hidden states (..., D).

        Args:
            hidden: Hidden states.
            weight: All or some rows of `output_weight`, or the result of `pad_output` (U, D).
            scales: Scales of these rows (U), from `output_scales`; None for a float weight.
            bias: Bias of these rows (U).
        """
        if self.int8_output is not None and scales is not None:
            return self.int8_output.multiply(hidden, weight, scales, bias)
        return F.linear(hidden, weight, bias).float()

    def project_cross_kv(self, memory: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Returns each layer's cross-attention keys and values (B, H, S, K) of memory (B, S, D)."""
        layers = cast("list[DecoderLayer]", list(self.layers))
        return [self.project_layer_cross_kv(layer, memory) for layer in layers]

    def project_layer_cross_kv(self, layer: DecoderLayer, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Returns one layer's cross-attention keys and values (B, H, S, K) of memory (B, S, D)."""
        return layer.project_key_value(layer.cross_attention, memory)

    def forward(
        self,
        tokens: Tensor,
        state: DecoderState,
        max_position: int,
        return_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Decodes T new tokens (B, T) of each row, and updates `state`.

        After a decode step, the runner advances the positions with `DecodingCache.advance`.

        Returns:
            Hidden states (B, T, D), and two lists of attention weights, one tensor per layer. The
            first list is self-attention (B, H, T, L), and is empty for an SSRU decoder. The second
            list is cross-attention (B, H, T, S). Without `return_weights` both lists are empty.
        """
        kernels = state.layers[0].kernels
        x = self.embedding(tokens, state.positions, max_position, kernels)  # (B, T, D)
        all_self, all_cross = [], []
        layers = cast("list[DecoderLayer]", list(self.layers))
        first, *later = [layer.token_mixer_residual for layer in layers]
        inner = first.before(x)
        norms = [*(residual.norm for residual in later), self.norm]
        for layer, layer_state, norm in zip(layers, state.layers, norms, strict=True):
            x, inner, self_weights, cross_weights = layer(
                x, inner, layer_state, norm, return_weights
            )
            all_cross.append(cross_weights)
            if self_weights is not None:
                all_self.append(self_weights)
        return inner, all_self, all_cross if return_weights else []

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


def round_to_half(x: Tensor) -> Tensor:
    limit = torch.finfo(torch.float16).max
    return x.clamp(-limit, limit).half().to(x.dtype)
