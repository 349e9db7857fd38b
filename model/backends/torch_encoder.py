"""Runs an encoder in PyTorch over texts that are packed (concatenated) or padded to one length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from model.architectures.embedding import TokenParts
from model.backends.cuda.staging import upload
from model.backends.encoder_batch import EncoderBatch, HiddenTexts, run_layers
from model.inspection.captures.capture import LayerRest, ProjectedHeads
from model.inspection.knocked_out import attend_without
from model.inspection.query import AttentionKind, Knockout, SiteKnockout
from model.layers.attention import Heads, MultiHeadAttention, attention, mask_bias

TOKEN_MULTIPLE = 4
"""Packed batches are padded to a multiple of this number of tokens.

On a CPU a row of a matrix product then has the same bits in every batch. Without the padding,
other kernels would compute the rows after the last multiple of 4 in some batches. With two threads,
this happened in batches of 5, 6, 7, 9, 10 and 11 rows.
"""


class PackableLayer(Protocol):
    """An encoder layer that is computed in three parts, with one method for each part."""

    self_attention: MultiHeadAttention

    def project(self, x: Tensor, positions: Tensor) -> Heads:
        """Returns queries, keys and values for x (B, S, D) at positions (B, S) in the texts."""

    def add_attention(self, x: Tensor, heads: Tensor) -> Tensor:
        """Returns x (B, S, D) after self-attention, given weighted values (B, H, S, K)."""

    @property
    def attention_norm(self) -> nn.Module | None:
        """Layer norm after the sum of x and attention; None in a pre-norm layer."""

    def run_feed_forward(self, x: Tensor) -> Tensor:
        """Returns the output (B, S, D) of the feed-forward sublayer, not yet added to x."""

    def add_feed_forward(self, x: Tensor) -> Tensor:
        """Returns x (B, S, D) after the feed-forward sublayer."""


class PackableEncoder(Protocol):
    """An encoder whose layers run over packed texts."""

    @property
    def device(self) -> torch.device:
        """Device of the weights."""

    @property
    def encoder_layers(self) -> Sequence[PackableLayer]:
        """The layers in order."""

    def embed(self, tokens: Tensor, positions: Tensor, max_position: int) -> Tensor:
        """Returns the input (B, S, D) of the first layer."""

    def parts(self, tokens: Tensor, positions: Tensor, max_position: int) -> TokenParts:
        """Returns the input of the first layer and its summands."""

    def biases(self, length: int) -> Sequence[Tensor | None]:
        """Returns the bias of each layer for S tokens; None for a layer without a bias.

        The shape of a bias is (1, H, S, S), or (1, 1, S, S) if all heads share it.
        """

    def finish(self, x: Tensor) -> Tensor:
        """Returns the hidden states (B, S, D) for the output of the last layer."""


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent texts of equal length."""

    first: int
    texts: int
    length: int

    @property
    def end(self) -> int:
        return self.first + self.texts * self.length


class PackedBatch(EncoderBatch):
    """A packed batch of texts.

    Attention is computed once for each group of adjacent texts of equal length. An entry of
    `knockouts` is None if nothing is switched off in its text.

    In the shapes of this class, N is `num_tokens`, and B is 1.

    Attributes:
        segments: Number of tokens of each text, and of a padding text at the end if there is one.
        num_tokens: N, the sum of the segments.
    """

    def __init__(
        self,
        encoder: PackableEncoder,
        sequences: Sequence[list[int]],
        knockouts: Sequence[Knockout | None] = (),
    ) -> None:
        self.encoder = encoder
        self.knockouts = knockouts
        self.layers = encoder.encoder_layers
        self.num_layers = len(self.layers)
        self.lengths = [len(ids) for ids in sequences]
        padding = -sum(self.lengths) % TOKEN_MULTIPLE
        self.segments = [*self.lengths, padding] if padding else self.lengths
        self.num_tokens = sum(self.segments)
        self.groups = list(groups(self.segments, is_single=any(knockouts)))
        longest = max(self.segments)
        tokens = [token for ids in sequences for token in ids] + [0] * padding
        positions = [index for length in self.segments for index in range(length)]
        self.tokens = upload(tokens, encoder.device)[None]  # (1, N)
        self.positions = upload(positions, encoder.device)[None]  # (1, N)
        self.x = encoder.embed(self.tokens, self.positions, longest - 1)  # (1, N, D)
        self.biases = encoder.biases(longest)
        self.bias: Tensor | None = None  # of the current layer
        self.heads: Heads | None = None  # of the current layer

    def project(self, layer: int, first: int, count: int) -> None:
        chosen = slice(first, first + count)
        parts = self.layers[layer].project(self.x[:, chosen], self.positions[:, chosen])
        self.bias = self.biases[layer]
        # Each layer gets new tensors, because a capture may keep those of an earlier layer.
        wholes = (self.heads if first else None) or (None, None, None)
        query, key, value = (
            put(whole, part, first, self.num_tokens, 2)
            for whole, part in zip(wholes, parts, strict=True)
        )
        self.heads = query, key, value

    def attend(self, layer: int, first: int, count: int) -> None:
        end = first + count
        attended = torch.cat([*self._attended(layer, first, end)], dim=2)
        part = self.layers[layer].add_attention(self.x[:, first:end], attended)
        self.x = put(self.x, part, first, self.num_tokens, 1)

    def feed_forward(self, layer: int, first: int, count: int) -> None:
        part = self.layers[layer].add_feed_forward(self.x[:, first : first + count])
        self.x = put(self.x, part, first, self.num_tokens, 1)

    def read(self) -> Tensor:
        return self.encoder.finish(self.x)[0]

    def embedded(self) -> Iterator[TokenParts]:
        """Yields the input (1, S, D) of the first layer and its summands, for each segment."""
        parts = self.encoder.parts(self.tokens, self.positions, max(self.segments) - 1)
        first = 0
        for length in self.segments:
            text = slice(first, first + length)
            position = None if parts.position is None else parts.position[:, text]
            yield TokenParts(parts.token[:, text], position, parts.embedded[:, text])
            first += length

    def projected(self, layer: int) -> Iterator[ProjectedHeads]:
        """Yields queries, keys and values of each segment in `layer`, the layer computed last."""
        assert self.heads is not None
        module = self.layers[layer].self_attention
        rest = self._rest(self.layers[layer])
        parts = [torch.split(heads[0], self.segments, dim=1) for heads in self.heads]
        streams = torch.split(self.x[0], self.segments)
        for query, key, value, stream in zip(*parts, streams, strict=True):
            length = query.shape[1]
            bias = None
            if self.bias is not None:
                bias = self.bias[0, :, :length, :length].expand(len(query), length, length)
            yield ProjectedHeads(query, key, value, bias, module, stream, rest)

    def _rest(self, layer: PackableLayer) -> LayerRest:
        return LayerRest(
            layer.attention_norm,
            lambda x: layer.run_feed_forward(x[None])[0],
            lambda x: layer.add_feed_forward(x[None])[0],
        )

    def _attended(self, layer: int, first: int, end: int) -> Iterator[Tensor]:
        """Yields the weighted values of tokens `first` to `end` - 1.

        Each yielded tensor (1, H, n, K) belongs to the next n of these tokens.
        """
        for number, group in enumerate(self.groups):
            off = None
            if number < len(self.knockouts) and (knockout := self.knockouts[number]):
                off = knockout.at(AttentionKind.ENCODER, layer)
            if group.texts > 1 and first <= group.first and group.end <= end:
                yield self._attend_group(group)
            else:  # one text, or a group that is only partly in the range
                for start in range(group.first, group.end, group.length):
                    begin, stop = max(first, start), min(end, start + group.length)
                    if begin < stop:
                        yield self._attend_rows(start, group.length, begin, stop, off)

    def _attend_group(self, group: Group) -> Tensor:
        query, key, value = (unpack(heads, group) for heads in self._heads())
        bias = None if self.bias is None else self.bias[..., : group.length, : group.length]
        return pack(attention(query, key, value, bias)[0])

    def _attend_rows(
        self, start: int, length: int, begin: int, stop: int, off: SiteKnockout | None
    ) -> Tensor:
        query, key, value = self._heads()
        text, rows = slice(start, start + length), slice(begin - start, stop - start)
        bias = None if self.bias is None else self.bias[..., rows, :length]
        heads = query[:, :, begin:stop], key[:, :, text], value[:, :, text]
        if off is not None:
            return attend_without(off, *heads, bias, rows.start)
        return attention(*heads, bias)[0]

    def _heads(self) -> Heads:
        assert self.heads is not None
        return self.heads


def groups(lengths: Sequence[int], is_single: bool = False) -> Iterator[Group]:
    """Yields the groups of adjacent texts of equal length; with `is_single`, one group per text."""
    first = 0
    numbers = [(length, number if is_single else 0) for number, length in enumerate(lengths)]
    for (length, _), texts in groupby(numbers):
        group = Group(first, len(list(texts)), length)
        first = group.end
        yield group


def put(whole: Tensor | None, part: Tensor, first: int, size: int, dim: int) -> Tensor:
    """Returns the whole tensor, after a part is put at index `first` of a dimension.

    Args:
        whole: Tensor that receives the part in place. If `whole` is None, a new tensor receives
            the part.
        part: The part. If the part has the whole size, the part itself is returned.
        first: Index in the whole tensor at which the part begins.
        size: Size of the whole tensor in the dimension.
        dim: The dimension.
    """
    if part.shape[dim] == size:
        return part
    if whole is None:
        whole = part.new_empty([*part.shape[:dim], size, *part.shape[dim + 1 :]])
    whole.narrow(dim, first, part.shape[dim]).copy_(part)
    return whole


def unpack(heads: Tensor, group: Group) -> Tensor:
    """Returns the heads (B, H, T, K) of a group, taken from packed heads (1, H, N, K)."""
    chosen = heads[0, :, group.first : group.end]
    return chosen.reshape(-1, group.texts, group.length, heads.shape[3]).transpose(0, 1)


def pack(heads: Tensor) -> Tensor:
    """Packs heads (B, H, T, K) into (1, H, B * T, K)."""
    return heads.transpose(0, 1).flatten(1, 2)[None]


WIDTH_MULTIPLE = 8
"""Texts are padded to a multiple of this number of tokens.

With a mask, PyTorch's fused attention needs lengths that are multiples of 8.
"""


class PaddedBatch(EncoderBatch):
    """Texts that are padded to one length; every call computes all tokens.

    The shapes depend only on the number of texts and on the padded length, as CUDA graphs require.

    Args:
        encoder: Encoder on its device, in any precision.
        source: Ids (B, S).
        mask: (B, S), True on tokens and False on padding.
        lengths: Number of tokens of each text. `read_texts` needs the lengths. With lengths,
            padding tokens get no larger position than the last token of the longest text.
    """

    can_slice = False

    def __init__(
        self, encoder: PackableEncoder, source: Tensor, mask: Tensor, lengths: Sequence[int] = ()
    ) -> None:
        self.encoder = encoder
        self.lengths = [*lengths]
        self.layers = encoder.encoder_layers
        self.num_layers = len(self.layers)
        self.num_tokens = source.numel()
        length = source.shape[1]
        # The position table of a text encoder may end where the longest text of this batch ends.
        # Padding tokens therefore get no larger positions than the tokens of this text.
        positions = torch.arange(length, device=source.device)
        positions = positions.clamp_max(max(lengths, default=length) - 1)
        self.positions = positions.expand_as(source)  # (B, S)
        self.x = encoder.embed(source, self.positions, length - 1)  # (B, S, D)
        masked = mask_bias(mask, self.x.dtype)[:, None, None, :]  # (B, 1, 1, S)
        biases = encoder.biases(length)  # most layers share one bias
        sums = {id(bias): masked if bias is None else bias + masked for bias in biases}
        self.biases = [sums[id(bias)] for bias in biases]
        self.heads: Heads | None = None  # of the current layer

    def project(self, layer: int, first: int, count: int) -> None:
        assert count == self.num_tokens
        self.heads = self.layers[layer].project(self.x, self.positions)

    def attend(self, layer: int, first: int, count: int) -> None:
        assert self.heads is not None
        attended, _ = attention(*self.heads, self.biases[layer])
        self.x = self.layers[layer].add_attention(self.x, attended)

    def feed_forward(self, layer: int, first: int, count: int) -> None:
        self.x = self.layers[layer].add_feed_forward(self.x)

    def read(self) -> Tensor:
        return self.encoder.finish(self.x).flatten(0, 1)

    def read_texts(self) -> list[HiddenTexts]:
        return [HiddenTexts(self.encoder.finish(self.x), self.lengths)]


def pads_on(device: torch.device) -> bool:
    return device.type == "cuda"


def begin_batch(encoder: PackableEncoder, sequences: Sequence[list[int]]) -> EncoderBatch:
    """Returns a batch of texts, padded on a GPU and packed on a CPU.

    A packed batch computes attention in one call for each group of equally long texts. On a GPU,
    the launches of these calls would take longer than the computation of the padding.
    """
    if pads_on(encoder.device):
        return padded_batch(encoder, sequences)
    return PackedBatch(encoder, sequences)


def padded_batch(encoder: PackableEncoder, sequences: Sequence[list[int]]) -> PaddedBatch:
    """Returns a padded batch of texts, given the ids of each text."""
    lengths = [len(ids) for ids in sequences]
    width = -(-max(lengths) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE
    numbers = np.zeros((len(sequences), width + 1), np.int64)
    numbers[:, width] = lengths
    is_token = np.arange(width) < numbers[:, width:]
    numbers[:, :width][is_token] = np.fromiter(chain.from_iterable(sequences), np.int64)
    uploaded = upload(numbers, encoder.device)
    source, ends = uploaded[:, :width], uploaded[:, width:]
    mask = torch.arange(width, device=encoder.device) < ends  # (B, S)
    return PaddedBatch(encoder, source, mask, lengths)


def encode_padded(encoder: PackableEncoder, source: Tensor, mask: Tensor) -> Tensor:
    """Returns the hidden states (B, S, D) of padded texts, given their ids and mask (B, S)."""
    batch = PaddedBatch(encoder, source, mask)
    for _ in run_layers(batch, slice_tokens=batch.num_tokens):
        pass
    return batch.read().view(*source.shape, -1)
