"""Runs a decoder over given targets, or decodes one more token of each row of a cache.

Both are batches for `run_layers`, with the mixer and the cross-attention of each layer in turn.
"""

from collections.abc import Sequence
from copy import copy

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.architectures.stack import Decoder
from model.backends.encoder_batch import FusedBatch, PackedBatch, put
from model.config import DecoderKind, ModelConfig
from model.inspection.captures.capture import LayerRest
from model.inspection.query import AttentionKind, Knockout
from model.layers.attention import PLAIN, KeyValue, Recording, RowKernels, attention, mask_bias
from model.layers.block import SSRU


class TargetBatch(PackedBatch):
    """The packed inputs of a decoder, one for each text of a batch of encoded sources.

    Only the cells of an SSRU are padded to the longest target. This costs little, because cells
    need no matrix products. In int8, a product with weights sums integers without rounding, so the
    result has the same bits in every batch.
    """

    kinds = (AttentionKind.DECODER, AttentionKind.CROSS)
    sublayers = 2
    gates: Tensor  # of the current SSRU (1, N, 2 D)

    def __init__(
        self,
        decoder: Decoder,
        inputs: Sequence[list[int]],
        sources: PackedBatch,
        knockouts: Sequence[Knockout | None] = (),
    ) -> None:
        super().__init__(decoder, inputs, knockouts, is_single=True)
        self.memory = sources.read()[None]  # (1, M, D) for M source tokens
        # Padding attends to any source token.
        self.sources = [*sources.segments[: len(inputs)], slice(0, 1)][: len(self.segments)]

    def rest(self, sublayer: int, text: int) -> LayerRest:
        block, memory = self.layers[sublayer // 2], self.memory[:, self.sources[text]]
        if sublayer % 2:
            return super().rest(sublayer, text)

        def finish(x: Tensor) -> Tensor:
            module, residual = block.attention(is_cross=True)
            heads = module.project(residual.before(x[None]), memory)
            attended = module.merge(attention(*heads))
            return block.add_feed_forward(residual.after(x[None], attended))[0]

        return LayerRest(block.mixer_residual, None, finish)

    def project(self, sublayer: int, first: int, count: int) -> None:
        block, x = self.layers[sublayer // 2], self.x[:, first : first + count]
        self.attended = self.sources if sublayer % 2 else self.segments
        if sublayer % 2:
            module, residual = block.attention(is_cross=True)
            query = module.project_query(residual.before(x))
            key, value = self.heads[1:] if first else module.project_key_value(self.memory)
            whole = put(self.heads[0] if first else None, query, first, self.num_tokens, 2)
            self.heads, self.bias = (whole, key, value), None
        elif isinstance(block.mixer, SSRU):
            gates = torch.cat(block.mixer.gates(block.mixer_residual.before(x)), dim=-1)
            self.gates = put(self.gates if first else None, gates, first, self.num_tokens, 1)
        else:
            super().project(sublayer, first, count)

    def attend(self, sublayer: int, first: int, count: int) -> None:
        block = self.layers[sublayer // 2]
        if sublayer % 2 or not isinstance(block.mixer, SSRU):
            super().attend(sublayer, first, count)
            return
        if not first:
            gates = torch.split(self.gates[0, : sum(self.lengths)], self.lengths)
            self.padded = pad_sequence(list(gates), batch_first=True)  # (B, T, 2 D)
            self.cells = self.x.new_zeros(len(gates), self.x.shape[2])
            self.outputs: list[Tensor] = []
        # A part of the tokens stands for an equal part of the positions of all targets.
        total, longest = self.num_tokens, self.padded.shape[1]
        start, stop = (edge * longest // total for edge in (first, first + count))
        if start < stop:
            forget, update = self.padded[:, start:stop].chunk(2, dim=-1)
            self.outputs.append(block.mixer.recur(forget, update, self.cells))
        if first + count == total:
            whole = torch.cat(self.outputs, dim=1)  # (B, T, D)
            y = torch.cat([row[:length] for row, length in zip(whole, self.lengths, strict=True)])
            y = F.pad(y, (0, 0, 0, total - len(y)))[None]
            self.x = block.mixer_residual.after(self.x, y)


class DecodingCache:
    """The decoding state of all rows, for every decoder layer, in tensors that are allocated once.

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
        self.memory_lengths = torch.zeros(max_rows, dtype=torch.long, device=device)
        self.cell = zeros(max_rows if is_ssru else 0, config.d_model)
        self.self_key = zeros(0 if is_ssru else max_rows, *attended)
        self.self_value = zeros(0 if is_ssru else max_rows, *attended)
        self.positions = torch.zeros(max_rows, dtype=torch.long, device=device)

    def for_searches(self) -> "DecodingCache":
        """Returns a cache with the same keys and values, but with its own cells and positions."""
        other = copy(self)
        other.cell, other.positions = self.cell.clone(), self.positions.clone()
        return other

    @property
    def num_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in vars(self).values())

    def clear(self) -> None:
        for tensor in vars(self).values():
            tensor.zero_()

    def fill_rows(self, rows: Tensor, memory: list[tuple[Tensor, Tensor]], lengths: Tensor) -> None:
        """Starts a new sentence in each of these rows (B).

        `memory` has the cross-attention keys and values (B, H, S, K) of each layer. `lengths` is
        the number of keys of each row (B); the others are padding.
        """
        for layer, (key, value) in enumerate(memory):
            self.memory_key[layer, rows, :, : key.shape[2]] = key
            self.memory_value[layer, rows, :, : key.shape[2]] = value
        self.memory_lengths[rows] = lengths
        self.start_rows(rows)

    def start_rows(self, rows: Tensor) -> None:
        # `index_fill_` works on the device. Assigning a number to indexed rows would copy the
        # number from the host each time.
        if self.cell.shape[1]:
            self.cell.index_fill_(1, rows, 0.0)
        self.positions.index_fill_(0, rows, 0)

    def copy_rows(self, source: Tensor, target: Tensor, is_same_source: bool) -> None:
        """Copies rows (`ModelRunner.copy`); with `is_same_source` not their cross-attention."""
        tensors = [self.cell, self.self_key, self.self_value]
        if not is_same_source:
            tensors += [self.memory_key, self.memory_value]
            self.memory_lengths[target] = self.memory_lengths[source]
        for tensor in tensors:
            if tensor.shape[1]:
                tensor[:, target] = tensor[:, source]
        self.positions[target] = self.positions[source]


class StepBatch(FusedBatch):
    """The present token (B, 1) of each of the first rows of a cache, or of the given `rows` (B).

    `widths` are at least the largest numbers of target and source positions (L and S), the present
    token included. `kernels` read the number of keys of each row. Without them, biases exclude
    padding and later positions.
    """

    sublayers = 2

    def __init__(
        self,
        decoder: Decoder,
        cache: DecodingCache,
        tokens: Tensor,
        widths: tuple[int, int],
        kernels: RowKernels | None = None,
        recording: Recording | None = None,
        rows: Tensor | None = None,
    ) -> None:
        self.recording, self.rows = recording, rows
        target_width, source_width = widths
        self.own = slice(len(tokens)) if rows is None else rows
        self.cache, self.widths = cache, widths
        self.positions = cache.positions[self.own, None]  # (B, 1)
        known = kernels or PLAIN
        x = decoder.embedding(tokens, self.positions, target_width - 1, known)
        super().__init__(decoder, x, known)
        self.num_keys = self.positions[:, 0] + 1, cache.memory_lengths[self.own]  # (B) each
        self.biases: tuple[Tensor | None, Tensor] | None = None
        self.new: KeyValue | None = None
        if kernels is None:
            own, source = self.num_keys
            bias = None if cache.cell.shape[1] else self._bias(own, target_width)
            if decoder.relative_bias is not None:
                bias = self._relative_bias(decoder)
            self.biases = bias, self._bias(source, source_width)

    def _bias(self, lengths: Tensor, width: int) -> Tensor:
        """Returns the bias (B, 1, 1, `width`). A free row attends to one key, if it has none."""
        keys = torch.arange(width, device=lengths.device)
        return mask_bias(keys < lengths.clamp_min(1)[:, None, None, None], self.x.dtype)

    def _relative_bias(self, decoder: Decoder) -> Tensor:
        """Returns the bias (B, H, 1, L), which is causal."""
        keys = torch.arange(self.widths[0], device=self.x.device)
        (table, *_) = decoder.biases(self.widths[0])
        assert table is not None
        columns = keys - self.positions[:, :, None] + self.widths[0] - 1  # (B, 1, L)
        return table[:, columns].transpose(0, 1)

    def project(self, sublayer: int, first: int, count: int) -> None:
        layer, is_cross = divmod(sublayer, 2)
        block, cache, rows = self.layers[layer], self.cache, self.num_tokens
        if not is_cross and isinstance(block.mixer, SSRU):
            return
        width = self.widths[is_cross]
        pairs = (cache.self_key, cache.self_value), (cache.memory_key, cache.memory_value)
        end = rows if self.rows is None else None  # the kernel finds the given rows
        key, value = (each[layer, :end, :, :width] for each in pairs[is_cross])
        if is_cross:
            query, self.new = block.cross_attention.project_query(self.inner), None
        else:
            query, *new = block.project(self.x, self.positions, self.inner)
            self.new = new[0], new[1]
            if self.biases is not None:  # otherwise, the kernel writes the new key and value
                numbers = torch.arange(rows, device=key.device)
                for whole, added in zip((key, value), new, strict=True):
                    whole[numbers, :, self.positions[:, 0]] = added[:, :, 0]
        self.heads = query, key, value

    def attend(self, sublayer: int, first: int, count: int) -> None:
        layer, is_cross = divmod(sublayer, 2)
        block = self.layers[layer]
        if not is_cross and isinstance(block.mixer, SSRU):
            residual, cell = block.mixer_residual, self.cache.cell[layer, self.own]
            gates = block.mixer.forget(self.inner), block.mixer.update(self.inner)
            y = self.kernels.recur(*gates, cell)
            if self.rows is not None:
                self.cache.cell[layer].index_copy_(0, self.rows, cell)
        else:
            module, residual = block.attention(bool(is_cross))
            if self.biases is None:
                y = self.kernels.attend(*self.heads, self.num_keys[is_cross], self.new, self.rows)
            else:
                y = attention(*self.heads, self.biases[is_cross])
            y = module.merge(y)
            if is_cross and self.recording is not None and self.recording.layer == layer:
                bias = self._bias(self.num_keys[1], self.widths[1])
                self.recording.write(*self.heads[:2], bias)
        following = block.feed_forward_residual if is_cross else block.cross_residual
        self._add(y, residual, following.norm)
