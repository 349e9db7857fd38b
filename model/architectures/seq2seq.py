"""Implements the encoder-decoder Transformer that a ModelConfig describes."""

import torch
from torch import Tensor, nn

from model.architectures.decoder import Decoder
from model.architectures.embedding import Embedding, start_token
from model.architectures.encoder import Encoder
from model.config import ModelConfig
from model.precision import Precision


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
        """Returns the decoder inputs (B, T) for a target (B, T).

        The first input is the start id, or NO_TOKEN if the config has no start id. All target ids
        except the last follow.
        """
        start = torch.full_like(target[:, :1], start_token(self.config))
        return torch.cat([start, target[:, :-1]], dim=1)
