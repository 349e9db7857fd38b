"""Holds the decoding state of every row in tensors that are allocated once."""

import torch
from torch import Tensor

from model.config import DecoderKind, ModelConfig
from model.layers.attention import mask_bias


class DecodingCache:
    """The decoding state of all rows of a batch, for every decoder layer.

    The `max_target_tokens` target positions (L) take memory only in a self-attention decoder.
    """

    def __init__(
        self,
        config: ModelConfig,
        max_rows: int,
        max_source_tokens: int,
        max_target_tokens: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(config.decoder_layers, *shape, device=device, dtype=dtype)

        is_ssru = config.decoder is DecoderKind.SSRU
        heads, head_dim = config.num_heads, config.head_dim
        attended = (heads, max_target_tokens, head_dim)
        self.memory_key = zeros(max_rows, heads, max_source_tokens, head_dim)
        self.memory_value = zeros(max_rows, heads, max_source_tokens, head_dim)
        self.memory_bias = torch.zeros(
            max_rows, 1, 1, max_source_tokens, device=device, dtype=dtype
        )
        self.memory_lengths = torch.zeros(max_rows, dtype=torch.long, device=device)
        self.cell = zeros(max_rows if is_ssru else 0, config.d_model)
        self.self_key = zeros(0 if is_ssru else max_rows, *attended)
        self.self_value = zeros(0 if is_ssru else max_rows, *attended)
        self.positions = torch.zeros(max_rows, dtype=torch.long, device=device)

    @property
    def num_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in vars(self).values())

    def clear(self) -> None:
        for tensor in vars(self).values():
            tensor.zero_()

    def fill_rows(self, rows: Tensor, memory: list[tuple[Tensor, Tensor]], mask: Tensor) -> None:
        """Starts a new sentence in each of these rows (B).

        `memory` has the cross-attention keys and values (B, H, S, K) of each layer. `mask` is
        (B, S).
        """
        width = mask.shape[1]
        for layer, (key, value) in enumerate(memory):
            self.memory_key[layer, rows, :, :width] = key
            self.memory_value[layer, rows, :, :width] = value
        # `index_fill_` works on the device. Assigning a number to indexed rows would copy the
        # number from the host each time.
        self.memory_bias.index_fill_(0, rows, float("-inf"))
        bias = mask_bias(mask, self.memory_bias.dtype)
        self.memory_bias[rows, :, :, :width] = bias[:, None, None, :]
        self.memory_lengths[rows] = mask.sum(dim=1)
        if self.cell.shape[1]:
            self.cell.index_fill_(1, rows, 0.0)
        self.positions.index_fill_(0, rows, 0)

    def copy_rows(self, source: Tensor, target: Tensor, is_same_source: bool) -> None:
        """Copies rows (`ModelRunner.copy`); with `is_same_source` not their cross-attention."""
        tensors = [self.cell, self.self_key, self.self_value]
        if not is_same_source:
            tensors += [self.memory_key, self.memory_value]
            self.memory_bias[target] = self.memory_bias[source]
            self.memory_lengths[target] = self.memory_lengths[source]
        for tensor in tensors:
            if tensor.shape[1]:
                tensor[:, target] = tensor[:, source]
        self.positions[target] = self.positions[source]

    def advance(self, rows: int) -> None:
        self.positions[:rows].add_(1)
