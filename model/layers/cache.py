"""Holds the decoding state of every row in tensors that are allocated once."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.config import DecoderKind, ModelConfig
from model.layers.attention import Bias, RowLengths, mask_bias
from model.layers.row_kernels import PLAIN, RowKernels


@dataclass(frozen=True, slots=True)
class LayerState:
    """One decoder layer's part of the cache, as views of the first B rows.

    The biases are 0 on tokens that are attended to, and -inf on padding or on later tokens. Or they
    are the lengths of the rows. The tensors of the other kind of decoder have no rows.
    """

    memory_key: Tensor  # (B, H, S, K), of the cross-attention
    memory_value: Tensor  # (B, H, S, K)
    memory_bias: Bias  # (B, 1, 1, S)
    cell: Tensor  # (B, D), of an SSRU
    self_key: Tensor  # (B, H, L, K), of the target so far
    self_value: Tensor  # (B, H, L, K)
    self_bias: Bias  # (B, 1, T, L)
    positions: Tensor  # (B, T), of the tokens of this call
    kernels: RowKernels

    def append(self, key: Tensor, value: Tensor) -> Bias:
        """Writes the keys and values (B, H, T, K) of this call's tokens to their positions.

        If the bias is a RowLengths, the attention writes them later. The returned bias is for the
        attention to all keys.
        """
        if isinstance(self.self_bias, RowLengths):
            return replace(self.self_bias, new=(key, value))
        rows = torch.arange(key.shape[0], device=key.device)[:, None]  # (B, 1)
        self.self_key.transpose(1, 2)[rows, self.positions] = key.transpose(1, 2)
        self.self_value.transpose(1, 2)[rows, self.positions] = value.transpose(1, 2)
        return self.self_bias


class DecodingCache:
    """The decoding state of all rows of a batch, for every decoder layer.

    If n rows are in use, they are rows 0 to n - 1. When rows become free, the owner of the cache
    copies the last rows into the free rows with `copy_rows`. An unused row does not affect other
    rows.

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

        `memory` has the cross-attention keys and values (B, H, S, K) of each layer. `mask` (B, S)
        is True on source tokens and False on padding.
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

    def view(
        self,
        rows: int,
        source_width: int,
        tokens: int,
        target_width: int,
        kernels: RowKernels | None = None,
    ) -> "DecoderState":
        """Returns views of the first rows, to decode `tokens` more tokens (T) of each row.

        The views are valid until `advance` changes the positions.

        Args:
            rows: Number of rows (B).
            source_width: Number of source positions (S), at least the longest source in use.
            tokens: Number of tokens of this call (T).
            target_width: Number of target positions (L), at least the longest target in use,
                the T tokens of this call included.
            kernels: Kernels for steps of one token per row, which read the number of keys of each
                row. If `kernels` is None, biases exclude padding and later positions.
        """
        start = self.positions[:rows, None]
        positions = start  # (B, T)
        if tokens > 1:
            positions = start + torch.arange(tokens, device=start.device)
        has_cells = self.cell.shape[1] > 0
        memory_bias: Bias = self.memory_bias[:rows, :, :, :source_width]
        self_bias: Bias = self.memory_bias.new_zeros(0)
        if kernels is not None:
            memory_bias = RowLengths(self.memory_lengths[:rows], kernels)
            self_bias = RowLengths(positions[:, -1] + 1, kernels)
        elif not has_cells:
            past = torch.arange(target_width, device=start.device)  # (L)
            self_bias = self.memory_bias.new_zeros(rows, 1, tokens, target_width).masked_fill_(
                past > positions[:, None, :, None], float("-inf")
            )
        layers = [
            LayerState(
                memory_key=self.memory_key[layer, :rows, :, :source_width],
                memory_value=self.memory_value[layer, :rows, :, :source_width],
                memory_bias=memory_bias,
                cell=self.cell[layer, :rows],
                self_key=self.self_key[layer, :rows, :, :target_width],
                self_value=self.self_value[layer, :rows, :, :target_width],
                self_bias=self_bias,
                positions=positions,
                kernels=kernels or PLAIN,
            )
            for layer in range(self.memory_key.shape[0])
        ]
        return DecoderState(layers, positions)

    def advance(self, rows: int, tokens: int = 1) -> None:
        self.positions[:rows].add_(tokens)


@dataclass(frozen=True, slots=True)
class DecoderState:
    """The state of the same rows in each layer, and the target positions (B, T) of a call."""

    layers: list[LayerState]
    positions: Tensor
