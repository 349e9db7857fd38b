"""Runs an encoder in PyTorch over texts that are padded to one length."""

import torch
from torch import Tensor

from model.architectures.encoder import Heads
from model.backends.encoder_batch import EncoderBatch, run_layers
from model.backends.torch_encoder import PackableEncoder
from model.layers.attention import attention, mask_bias


class PaddedBatch(EncoderBatch):
    """Texts that are padded to one length; every call computes all tokens.

    Its shapes do not depend on the lengths of the texts, as CUDA graphs need it.

    Args:
        encoder: Encoder on its device, in any precision.
        source: Ids (B, S).
        mask: (B, S), True on tokens and False on padding.
    """

    def __init__(self, encoder: PackableEncoder, source: Tensor, mask: Tensor) -> None:
        self.encoder = encoder
        self.layers = encoder.encoder_layers
        self.num_layers = len(self.layers)
        self.num_tokens = source.numel()
        length = source.shape[1]
        positions = torch.arange(length, device=source.device).expand_as(source)  # (B, S)
        self.x = encoder.embed(source, positions, length - 1)  # (B, S, D)
        masked = mask_bias(mask, self.x.dtype)[:, None, None, :]  # (B, 1, 1, S)
        relative = encoder.bias(length)
        self.bias = masked if relative is None else relative + masked
        self.heads: Heads | None = None  # of the current layer

    def project(self, layer: int, first: int, count: int) -> None:
        """Computes queries, keys and values (EncoderBatch)."""
        assert count == self.num_tokens
        self.heads = self.layers[layer].project(self.x)

    def attend(self, layer: int, first: int, count: int) -> None:
        """Computes the attention sublayer (EncoderBatch)."""
        assert self.heads is not None
        attended, _ = attention(*self.heads, self.bias)
        self.x = self.layers[layer].add_attention(self.x, attended)

    def feed_forward(self, layer: int, first: int, count: int) -> None:
        """Computes the feed-forward sublayer (EncoderBatch)."""
        self.x = self.layers[layer].add_feed_forward(self.x)

    def read(self) -> Tensor:
        """Returns the hidden states (N, D), of padding too, after the last layer (EncoderBatch)."""
        return self.encoder.finish(self.x).flatten(0, 1)


def encode_padded(encoder: PackableEncoder, source: Tensor, mask: Tensor) -> Tensor:
    """Returns the hidden states (B, S, D) of a PaddedBatch after all layers."""
    batch = PaddedBatch(encoder, source, mask)
    for _ in run_layers(batch, batch.num_tokens):
        pass
    return batch.read().view(*source.shape, -1)
