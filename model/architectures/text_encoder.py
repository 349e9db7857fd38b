"""Implements text encoders: the layers of a TextEncoderConfig, between an embedding and a norm."""

from model.architectures.embedding import TextEmbedding
from model.architectures.encoder import EncoderStack
from model.config import TextEncoderConfig


class TextEncoder(EncoderStack):
    embedding: TextEmbedding

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__(TextEmbedding(config), config.blocks)
        self.config = config
