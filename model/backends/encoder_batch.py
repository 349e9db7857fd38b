"""Runs layers in slices, over texts that are packed (concatenated) or padded to one length.

A slice computes about half a layer, for some or all tokens of a batch. Between two slices a worker
can do other work.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.architectures.embedding import TokenParts
from model.architectures.stack import Stack
from model.inspection.captures.capture import LayerRest, ProjectedHeads, Slices
from model.inspection.query import AttentionKind, Knockout, SiteKnockout
from model.layers.attention import (
    Heads,
    MultiHeadAttention,
    RowKernels,
    attention,
    attention_weights,
    mask_bias,
)
from model.layers.block import Residual
from model.layers.positions import bias_rows
from model.sequence import batches


class SlicedPass(ABC):
    def __init__(self) -> None:
        self.slices = self.compute()

    @abstractmethod
    def compute(self) -> Slices[None]:
        """Runs the whole pass, and yields between its slices."""

    @torch.inference_mode()
    def advance(self) -> bool:
        """Computes the next slice; returns False if no slice was left."""
        for _ in self.slices:
            return True
        return False

    @property
    def is_ready(self) -> bool:
        """Whether the results of the computed slices can be read without waiting for the device."""
        return True


Observe = Callable[[int], Slices[None]]
"""Observes the queries, keys and values of a sublayer, given its number."""


@dataclass(frozen=True, slots=True)
class HiddenTexts:
    """The hidden states (B, S, D) of some texts, padded to one length, and their lengths."""

    states: Tensor
    lengths: Sequence[int]
    unpooled: Sequence[int] = ()  # first tokens of each text that are left out of its pooling


class LayerBatch(ABC):
    """The hidden states of some texts, computed layer by layer.

    Tokens are numbered consecutively over all texts. The tokens of a text attend only to each
    other, or to those of its source. The hidden states of a text therefore do not depend on the
    rest of the batch. A part of a layer is computed for `count` tokens from number `first` on. The
    sublayers before feed-forward are numbered over all layers: a layer has a mixer, and it may have
    cross-attention.
    """

    sublayers = 1  # of each layer, before feed-forward
    num_tokens: int  # tokens of all texts, padding included
    num_layers: int
    lengths: list[int]  # tokens of each text, without padding
    can_slice = True  # whether a part of a layer may be computed for only some of the tokens

    @abstractmethod
    def project(self, sublayer: int, first: int, count: int) -> None:
        """Computes queries, keys and values, of all tokens before `attend`."""

    @abstractmethod
    def attend(self, sublayer: int, first: int, count: int) -> None: ...

    @abstractmethod
    def feed_forward(self, layer: int, first: int, count: int) -> None: ...

    @abstractmethod
    def read(self) -> Tensor:
        """Returns the hidden states (N, D) after the last layer."""

    def read_texts(self) -> list[HiddenTexts]:
        """Returns adjacent texts of one length together, which saves time in their pooling."""
        equal = [(length, len(list(texts))) for length, texts in groupby(self.lengths)]
        sizes = [length * count for length, count in equal]
        parts = self.read()[: sum(sizes)].split_with_sizes(sizes)
        return [
            HiddenTexts(part.view(count, length, -1), [length] * count)
            for part, (length, count) in zip(parts, equal, strict=True)
        ]


def run_layers(
    batch: LayerBatch, slice_tokens: int, last: int | None = None, observe: Observe | None = None
) -> Slices[None]:
    """Runs a batch up to the queries, keys and values of sublayer `last`; None means all layers."""
    most = slice_tokens if batch.can_slice else batch.num_tokens
    parts = equal_parts(batch.num_tokens, most)
    for sublayer in range(batch.num_layers * batch.sublayers):
        for number, part in enumerate(parts):
            if number:
                yield
            batch.project(sublayer, *part)
        if observe is not None:
            yield from observe(sublayer)
        if sublayer == last:
            return
        for part in parts:
            batch.attend(sublayer, *part)
            yield
        layer, is_between = divmod(sublayer + 1, batch.sublayers)
        for part in () if is_between else parts:
            batch.feed_forward(layer - 1, *part)
            yield


def run_whole(batch: LayerBatch) -> Tensor:
    for _ in run_layers(batch, batch.num_tokens):
        pass
    return batch.read()


def equal_parts(tokens: int, most: int) -> list[tuple[int, int]]:
    """Splits tokens into nearly equal parts (first, count) of at most `most` tokens.

    Equal parts avoid a very small part. On a CPU, the tokens of a very small part could get other
    bits than the same tokens in a larger part.
    """
    count = -(-tokens // most)
    edges = [number * tokens // count for number in range(count + 1)]
    return [(first, end - first) for first, end in zip(edges, edges[1:], strict=False)]


TOKEN_MULTIPLE = 4
"""Packed batches are padded to a multiple of this number of tokens.

On a CPU a row of a matrix product then has the same bits in every batch. Without the padding,
other kernels would compute the rows after the last multiple of 4 in some batches.
"""


class PackedBatch(LayerBatch):
    """A packed batch of texts, of shape (1, N, ...) for all N = `num_tokens` tokens.

    Attention is computed once for each group of adjacent texts of equal length. An entry of
    `knockouts` is None if nothing is switched off in its text. `segments` has the tokens of each
    text, and of a padding text at the end if there is one. `attended` has the keys of each. If
    `visible` has numbers of tokens, only the first tokens of each text are keys.
    """

    kinds: tuple[AttentionKind, ...] = (AttentionKind.ENCODER,)  # of the sublayers of a layer

    def __init__(
        self,
        stack: Stack,
        sequences: Sequence[list[int]],
        knockouts: Sequence[Knockout | None] = (),
        is_single: bool = False,
        visible: Sequence[int] = (),
    ) -> None:
        self.stack = stack
        self.layers = stack.blocks
        self.num_layers = len(self.layers)
        self.lengths = [len(ids) for ids in sequences]
        padding = -sum(self.lengths) % TOKEN_MULTIPLE
        lengths = [*self.lengths, padding] if padding else self.lengths
        self.num_tokens, self.longest = sum(lengths), max(lengths)
        starts, ends = accumulate(lengths, initial=0), accumulate(lengths)
        self.segments = [slice(*edges) for edges in zip(starts, ends, strict=False)]
        counts = [*visible, *lengths[len(visible) :]]
        each = zip(self.segments, counts, strict=True)
        self.attended = [slice(own.start, own.start + count) for own, count in each]
        self.knockouts = [*knockouts, *[None] * (len(lengths) - len(knockouts))]
        is_single = is_single or any(knockouts) or bool(visible)
        keys = [(length, index if is_single else 0) for index, length in enumerate(lengths)]
        numbers = groupby(range(len(lengths)), keys.__getitem__)
        self.groups = [list(texts) for _, texts in numbers]  # texts that are attended together
        texts = [*sequences, [0] * padding]
        packed = chain.from_iterable(texts), chain.from_iterable(range(len(ids)) for ids in texts)
        self.tokens, self.positions = (upload([*each], stack.device)[None] for each in packed)
        self.x = self._parts().embedded  # (1, N, D)
        self.biases = stack.biases(self.longest)
        self.bias: Tensor | None = None  # by distance, of the current sublayer
        self.relative: Heads  # of the vectors of distances, if there are any
        self.heads: Heads  # of the current sublayer

    def _parts(self) -> TokenParts:
        return self.stack.embedding.parts(self.tokens, self.positions, self.longest - 1)

    def embedded(self) -> Iterator[TokenParts]:
        parts = self._parts()
        for text in self.segments:
            position = None if parts.position is None else parts.position[:, text]
            yield TokenParts(parts.token[:, text], position, parts.embedded[:, text])

    def project(self, sublayer: int, first: int, count: int) -> None:
        chosen, layer = slice(first, first + count), sublayer // self.sublayers
        parts = self.layers[layer].project(self.x[:, chosen], self.positions[:, chosen])
        self.bias = self.biases[layer]
        if self.stack.relative_vectors is not None and not first:
            self.relative = self.stack.relative_vectors.project(self.attention(sublayer)[0])
        # Each layer gets new tensors, because a capture may keep those of an earlier layer.
        wholes = self.heads if first else (None, None, None)
        query, key, value = (
            put(whole, part, first, self.num_tokens, 2)
            for whole, part in zip(wholes, parts, strict=True)
        )
        self.heads = query, key, value

    def attend(self, sublayer: int, first: int, count: int) -> None:
        end, (module, residual) = first + count, self.attention(sublayer)
        attended = torch.cat([*self._attended(sublayer, first, end)], dim=2)
        part = residual.after(self.x[:, first:end], module.merge(attended))
        self.x = put(self.x, part, first, self.num_tokens, 1)

    def feed_forward(self, layer: int, first: int, count: int) -> None:
        part = self.layers[layer].add_feed_forward(self.x[:, first : first + count])
        self.x = put(self.x, part, first, self.num_tokens, 1)

    def read(self) -> Tensor:
        hidden: Tensor = self.stack.norm(self.x)[0]
        return hidden

    def site(self, sublayer: int) -> tuple[AttentionKind, int]:
        """Returns the kind of an attention sublayer, and the number of its layer."""
        layer, number = divmod(sublayer, self.sublayers)
        return self.kinds[number], layer

    def attention(self, sublayer: int) -> tuple[MultiHeadAttention, Residual]:
        kind, layer = self.site(sublayer)
        return self.layers[layer].attention(kind is AttentionKind.CROSS)

    def rest(self, sublayer: int, text: int) -> LayerRest:
        (_, residual), layer = self.attention(sublayer), self.layers[sublayer // self.sublayers]
        return LayerRest(
            residual,
            lambda x: layer.run_feed_forward(x[None])[0],
            lambda x: layer.add_feed_forward(x[None])[0],
        )

    def projected(self, sublayer: int) -> Iterator[ProjectedHeads]:
        """Yields those of each segment in the sublayer computed last."""
        (module, _), site = self.attention(sublayer), self.site(sublayer)
        query, key, value = (each[0] for each in self.heads)
        for number, (own, keys) in enumerate(zip(self.segments, self.attended, strict=True)):
            heads = query[:, own], key[:, keys], value[:, keys]
            bias, rest = self._text_bias(*heads[:2]), self.rest(sublayer, number)
            yield ProjectedHeads(*site, *heads, bias, module, self.x[0, own], rest)

    def _text_bias(self, query: Tensor, key: Tensor) -> Tensor | None:
        bias = self._bias(query[None], key[None], 0, key.shape[1])
        if bias is None:
            return None
        if self.kinds[0] is AttentionKind.DECODER and self.stack.relative_bias is None:
            return bias[0, 0]
        return bias[0].expand(len(query), -1, -1)

    def _bias(self, query: Tensor, key: Tensor, first: int, end: int) -> Tensor | None:
        """Returns the bias of the tokens `first` to `end` - 1 of texts with these heads."""
        vectors = self.stack.relative_vectors
        if vectors is not None:
            # All tokens at once: the bits of a few rows of a product could be others.
            return vectors.bias(self.relative, query, key)[:, :, first:end]
        return None if self.bias is None else bias_rows(self.bias, first, end, key.shape[2])

    def _attended(self, sublayer: int, first: int, end: int) -> Iterator[Tensor]:
        """Yields the weighted values (1, H, n, K) of tokens `first` to `end` - 1, n at a time."""
        for texts in self.groups:
            span = slice(self.segments[texts[0]].start, self.segments[texts[-1]].stop)
            if len(texts) > 1 and first <= span.start and span.stop <= end:
                query, key, value = (unpack(heads[0, :, span], len(texts)) for heads in self.heads)
                bias = self._bias(query, key, 0, key.shape[2])
                yield attention(query, key, value, bias).transpose(0, 1).flatten(1, 2)[None]
                continue
            for number in texts:
                own, knockout = self.segments[number], self.knockouts[number]
                rows = slice(max(first, own.start), min(end, own.stop))
                if rows.start < rows.stop:
                    off = None if knockout is None else knockout.at(*self.site(sublayer))
                    yield self._attend_rows(number, rows, off)

    def _attend_rows(self, text: int, rows: slice, off: SiteKnockout | None) -> Tensor:
        own, keys = self.segments[text], self.attended[text]
        first, end = rows.start - own.start, rows.stop - own.start
        query, key, value = self.heads
        heads = query[:, :, rows], key[:, :, keys], value[:, :, keys]
        bias = self._bias(query[:, :, own], heads[1], first, end)
        return attend_without(off, *heads, bias, first)


def upload(numbers: list[int] | NDArray[np.int64], device: torch.device) -> Tensor:
    """Returns the integers as a tensor on the device.

    PyTorch reuses pinned memory only after its copy, so the pinned tensor may be freed before.
    """
    tensor = torch.as_tensor(numbers)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


def put(whole: Tensor | None, part: Tensor, first: int, size: int, dim: int) -> Tensor:
    """Puts a part at index `first` of dimension `dim`, which has `size` entries."""
    if part.shape[dim] == size:
        return part
    if whole is None:
        whole = part.new_empty([*part.shape[:dim], size, *part.shape[dim + 1 :]])
    whole.narrow(dim, first, part.shape[dim]).copy_(part)
    return whole


def unpack(heads: Tensor, texts: int) -> Tensor:
    """Returns the packed heads (H, B * T, K) of B texts of equal length as (B, H, T, K)."""
    count, tokens, width = heads.shape
    return heads.reshape(count, texts, tokens // texts, width).transpose(0, 1)


def attend_without(
    off: SiteKnockout | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    first: int,
) -> Tensor:
    """Returns the weighted values (1, H, T, K) of some tokens while parts are switched off.

    If nothing is switched off for a token in a head, the token's values in this head have the same
    bits as without a knock-out. `first` is the position of the first token in the sentence.
    """
    if off is not None and off.uniform:
        query, bias = without_preference(off.uniform, query, key, bias)
    heads = attention(query, key, value, bias)
    if off is None:
        return heads
    if off.keys or off.edges:
        kept = kept_edges(off, query, key.shape[2], first)
        total = mask_bias(kept, torch.float32)
        if bias is not None:
            total = total + bias
        weights = attention_weights(query.float(), key.float(), total)
        attends = torch.isfinite(total).any(dim=-1, keepdim=True)
        changed = (torch.where(attends, weights, 0.0) @ value.float()).to(value.dtype)
        heads = torch.where(kept.all(dim=-1, keepdim=True), heads, changed)
    if off.heads:
        heads[:, list(off.heads)] = 0.0
    return heads


def without_preference(
    heads: tuple[int, ...], query: Tensor, key: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Returns queries and a bias with which some heads attend to all visible tokens equally."""
    query = query.clone()
    query[:, list(heads)] = 0.0
    if bias is not None:
        bias = bias.expand(*query.shape[:3], key.shape[2]).clone()
        bias[:, list(heads)] = bias[:, list(heads)].where(bias[:, list(heads)].isinf(), 0.0)
    return query, bias


def kept_edges(off: SiteKnockout, query: Tensor, num_keys: int, first: int) -> Tensor:
    """Returns a mask (1, H, T, S), False for each edge that is switched off and True elsewhere."""
    _, num_heads, rows, _ = query.shape
    kept = torch.ones(1, num_heads, rows, num_keys, dtype=torch.bool, device=query.device)
    kept[..., list(off.keys)] = False
    places = [
        (head, edge.query - first, edge.key)
        for edge in off.edges
        for head in edge.heads
        if first <= edge.query < first + rows
    ]
    if places:
        kept[0, *torch.tensor(places, device=query.device).T] = False
    return kept


WIDTH_MULTIPLE = 8
"""Texts are padded to a multiple of this number of tokens.

With a mask, PyTorch's fused attention needs lengths that are multiples of 8. Fewer shapes, and the
same bits of a text in any batch, are other reasons.
"""


def round_up(tokens: int) -> int:
    return -(-tokens // WIDTH_MULTIPLE) * WIDTH_MULTIPLE


class PaddedBatch(LayerBatch):
    """Texts that are padded to one length; every call computes all tokens.

    The shapes depend only on the number of texts and on the padded length, as CUDA graphs require.
    `source` and `mask` are (B, S).
    """

    can_slice = False

    def __init__(self, encoder: Stack, source: Tensor, mask: Tensor) -> None:
        self.encoder = encoder
        self.layers = encoder.blocks
        self.num_layers = len(self.layers)
        self.num_tokens = source.numel()
        length = source.shape[1]
        self.positions = torch.arange(length, device=source.device).expand_as(source)  # (B, S)
        self.x = encoder.embedding.parts(source, self.positions, length - 1).embedded  # (B, S, D)
        masked = mask_bias(mask, self.x.dtype)[:, None, None, :]  # (B, 1, 1, S)
        tables = encoder.biases(length)  # most layers share one
        sums = {
            id(table): masked if table is None else bias_rows(table, 0, length, length) + masked
            for table in tables
        }
        self.biases = [sums[id(table)] for table in tables]
        self.heads: Heads

    def project(self, sublayer: int, first: int, count: int) -> None:
        self.heads = self.layers[sublayer].project(self.x, self.positions)

    def attend(self, sublayer: int, first: int, count: int) -> None:
        module, residual = self.layers[sublayer].attention()
        bias, vectors = self.biases[sublayer], self.encoder.relative_vectors
        if vectors is not None:
            bias = bias + vectors.bias(vectors.project(module), *self.heads[:2])
        attended = attention(*self.heads, bias)
        self.x = residual.after(self.x, module.merge(attended))

    def feed_forward(self, layer: int, first: int, count: int) -> None:
        self.x = self.layers[layer].add_feed_forward(self.x)

    def read(self) -> Tensor:
        hidden: Tensor = self.encoder.norm(self.x)
        return hidden.flatten(0, 1)


def padded_batch(encoder: Stack, sequences: Sequence[list[int]], min_width: int = 0) -> PaddedBatch:
    lengths = [len(ids) for ids in sequences]
    width = max(min_width, round_up(max(lengths)))
    numbers = np.zeros((len(sequences), width + 1), np.int64)
    numbers[:, width] = lengths
    is_token = np.arange(width) < numbers[:, width:]
    numbers[:, :width][is_token] = np.fromiter(chain.from_iterable(sequences), np.int64)
    uploaded = upload(numbers, encoder.device)
    source, ends = uploaded[:, :width], uploaded[:, width:]
    mask = torch.arange(width, device=encoder.device) < ends  # (B, S)
    return PaddedBatch(encoder, source, mask)


def encode_padded(encoder: Stack, source: Tensor, mask: Tensor) -> Tensor:
    """Returns the hidden states (B, S, D) of ids (B, S)."""
    return run_whole(PaddedBatch(encoder, source, mask)).view(*source.shape, -1)


class FusedBatch(LayerBatch):
    """A batch whose kernels compute each residual sum together with the norm after it.

    Every call computes all tokens.
    """

    can_slice = False

    def __init__(self, stack: Stack, x: Tensor, kernels: RowKernels) -> None:
        self.layers, self.kernels, self.x = stack.blocks, kernels, x
        self.num_layers = len(self.layers)
        self.num_tokens = x.shape[0] * x.shape[1]
        # The input of the next part. A table of tokens has no layers.
        self.inner = self.layers[0].mixer_residual.before(x) if self.layers else x
        norms = [block.mixer_residual.norm for block in self.layers]
        self.next_norms = [*norms[1:], stack.norm]

    def feed_forward(self, layer: int, first: int, count: int) -> None:
        block = self.layers[layer]
        y = block.feed_forward(self.inner)
        self._add(y, block.feed_forward_residual, self.next_norms[layer])

    def _add(self, y: Tensor, residual: Residual, next_norm: nn.Module) -> None:
        if residual.output_norm is not None:
            y = residual.output_norm(y)
        norm = next_norm if residual.is_pre else residual.norm
        total, self.inner = self.kernels.add_norm(self.x, y, norm)
        self.x = total if residual.is_pre else self.inner

    def read(self) -> Tensor:
        return self.inner.flatten(0, 1)


class KernelBatch(FusedBatch):
    """A packed batch (1, N, ...) for a GPU: a sublayer takes few launches, for texts of any length.

    If the kernels do not attend packed texts, the heads of adjacent texts are padded for it. So are
    hidden states for their pooling. `visible` is as in `PackedBatch`.
    """

    def __init__(
        self,
        encoder: Stack,
        sequences: Sequence[list[int]],
        visible: Sequence[int],
        kernels: RowKernels,
    ) -> None:
        self.encoder = encoder
        self.lengths = [len(ids) for ids in sequences]
        self.longest = round_up(max(self.lengths))
        lengths = np.array(self.lengths)
        size, starts = int(lengths.sum()), lengths.cumsum() - lengths
        packed = np.fromiter(chain.from_iterable(sequences), np.int64, size)
        positions = np.arange(size) - starts.repeat(lengths)
        each = packed, positions, starts, lengths, np.array([*visible] or lengths)
        uploaded = upload(np.concatenate(each), encoder.device)
        tokens, self.positions = uploaded[: 2 * size].view(2, 1, size)
        self.texts = uploaded[2 * size :].view(3, -1)
        embedded = encoder.embedding.parts(tokens, self.positions, self.longest - 1).embedded
        super().__init__(encoder, embedded, kernels)
        self.biases = encoder.biases(self.longest)
        self.heads: Heads

    def project(self, sublayer: int, first: int, count: int) -> None:
        self.heads = self.layers[sublayer].project(self.x, self.positions, self.inner)

    def attend(self, sublayer: int, first: int, count: int) -> None:
        block, bias = self.layers[sublayer], self.biases[sublayer]
        module, residual = block.attention()
        attended = None
        if self.encoder.relative_vectors is None:
            attended = self.kernels.attend_texts(self.heads, self.texts, self.longest, bias)
        if attended is None:
            attended = self._attend_padded(module, bias)
        self._add(module.merge(attended), residual, block.feed_forward_residual.norm)

    @cached_property
    def groups(self) -> list[tuple[slice, Tensor]]:
        """Returns groups of adjacent texts, and numbers (B, S) of their tokens; N is for padding.

        Of texts that are sorted from short to long, a padded group has at most 2 N tokens.
        """
        groups, first = list[tuple[slice, Tensor]](), 0
        for lengths in batches(self.lengths, self.lengths, 2 * self.num_tokens, pads=True):
            group = slice(first, first := first + len(lengths))
            starts, sizes, _ = self.texts[:, group, None]
            places = torch.arange(round_up(max(lengths)), device=starts.device)
            tokens = (starts + places).where(places < sizes, self.num_tokens)
            groups.append((group, tokens))
        return groups

    def _attend_padded(self, module: MultiHeadAttention, table: Tensor | None) -> Tensor:
        heads, vectors = self.heads, self.encoder.relative_vectors
        _, num_heads, tokens, head_dim = heads[0].shape
        whole = heads[0].new_empty(tokens + 1, num_heads, head_dim)  # the last one is of padding
        for group, numbers in self.groups:
            places = numbers.clamp_max(tokens - 1)
            query, key, value = (each[0, :, places].transpose(0, 1) for each in heads)
            length = numbers.shape[1]
            is_key = torch.arange(length, device=numbers.device) < self.texts[2, group, None]
            bias = mask_bias(is_key, query.dtype)[:, None, None]  # (B, 1, 1, S)
            if table is not None:
                bias = bias + bias_rows(table, 0, length, length)
            if vectors is not None:
                bias = bias + vectors.bias(vectors.project(module), query, key)
            whole[numbers] = attention(query, key, value, bias).transpose(1, 2)
        return whole[None, :tokens].transpose(1, 2)

    def read_texts(self) -> list[HiddenTexts]:
        last = self.num_tokens - 1
        return [
            HiddenTexts(self.inner[0, numbers.clamp_max(last)], self.lengths[group])
            for group, numbers in self.groups
        ]


def begin_batch(
    encoder: Stack,
    sequences: Sequence[list[int]],
    visible: Sequence[int] = (),
    kernels: RowKernels | None = None,
) -> LayerBatch:
    """Returns a batch of texts, for a GPU if there are kernels.

    `visible` has the number of first tokens of each text that are attended.
    """
    if kernels is None:
        return PackedBatch(encoder, sequences, visible=visible)
    return KernelBatch(encoder, sequences, visible, kernels)
