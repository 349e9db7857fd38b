"""Implements the encoder-decoder Transformer that a ModelConfig describes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.architectures.decoder import Decoder
from model.architectures.embedding import NO_TOKEN, Embedding
from model.architectures.encoder import Encoder
from model.config import ModelConfig
from model.layers.attention import mask_bias
from model.layers.cache import DecodingCache
from model.precision import Precision


@dataclass(frozen=True, slots=True)
class Attentions:
    """The attention weights of one teacher-forced pass, one tensor per layer.

    Attributes:
        encoder: Self-attention of the encoder (B, H, S, S).
        decoder: Self-attention of the decoder (B, H, T, T); empty for an SSRU decoder.
        cross: Cross-attention (B, H, T, S).
    """

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


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
        """Returns the device of the weights."""
        return self.decoder.output_bias.device

    @property
    def dtype(self) -> torch.dtype:
        """Returns the number format of the weights."""
        return self.decoder.output_bias.dtype

    def decoder_inputs(self, target: Tensor) -> Tensor:
        """Returns the decoder inputs for target (B, T): the target shifted right by one."""
        start = NO_TOKEN if self.config.start_id is None else self.config.start_id
        return torch.cat([torch.full_like(target[:, :1], start), target[:, :-1]], dim=1)

    def forward(
        self, source: Tensor, mask: Tensor, target: Tensor, return_weights: bool = False
    ) -> tuple[Tensor, Attentions]:
        """Runs one teacher-forced pass over given translations.

        Args:
            source: Ids (B, S); each row ends in EOS, then padding.
            mask: (B, S), True on tokens and False on padding.
            target: Ids (B, T) that the logits predict.
            return_weights: Whether to return attention weights; if not, their lists are empty.

        Returns:
            Logits (B, T, V) and the attention weights.
        """
        memory, encoder_weights = self.encoder(source, mask, return_weights)
        rows, width, length = source.shape[0], source.shape[1], target.shape[1]
        cache = DecodingCache(self.config, rows, width, length, self.device, self.dtype)
        all_rows = torch.arange(rows, device=self.device)
        bias = mask_bias(mask, self.dtype)[:, None, None, :]  # (B, 1, 1, S)
        cache.fill_rows(all_rows, self.decoder.project_cross_kv(memory), bias)
        state = cache.view(rows, width, length, length)
        hidden, self_weights, cross_weights = self.decoder(
            self.decoder_inputs(target), state, length - 1, return_weights
        )
        return self.decoder.logits(hidden), Attentions(encoder_weights, self_weights, cross_weights)
