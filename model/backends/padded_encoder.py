"""Runs an encoder in PyTorch over texts that are padded to one length."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from model.backends.cuda.staging import upload
from model.backends.encoder_batch import EncoderBatch, HiddenTexts, run_layers
from model.backends.torch_encoder import PackableEncoder, PackedBatch
from model.layers.attention import Heads, attention, mask_bias

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
        """Computes queries, keys and values (EncoderBatch)."""
        assert count == self.num_tokens
        self.heads = self.layers[layer].project(self.x, self.positions)

    def attend(self, layer: int, first: int, count: int) -> None:
        """Computes the attention sublayer (EncoderBatch)."""
        assert self.heads is not None
        attended, _ = attention(*self.heads, self.biases[layer])
        self.x = self.layers[layer].add_attention(self.x, attended)

    def feed_forward(self, layer: int, first: int, count: int) -> None:
        """Computes the feed-forward sublayer (EncoderBatch)."""
        self.x = self.layers[layer].add_feed_forward(self.x)

    def read(self) -> Tensor:
        """Returns the hidden states (N, D), padding included (EncoderBatch)."""
        return self.encoder.finish(self.x).flatten(0, 1)

    def read_texts(self) -> list[HiddenTexts]:
        """Returns the hidden states of all texts together (EncoderBatch)."""
        return [HiddenTexts(self.encoder.finish(self.x), self.lengths)]


def pads_on(device: torch.device) -> bool:
    """Returns whether `begin_batch` pads texts on a device."""
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
