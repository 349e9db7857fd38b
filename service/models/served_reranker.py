"""A served cross-encoder without its weights, which only the device workers have."""

from dataclasses import dataclass
from typing import ClassVar

from model.checkpoints.families.cross_encoders import (
    CrossEncoderConfig,
    CrossEncoderFiles,
    load_pair_tokenizer,
    read_cross_encoder,
)
from model.tokenization.pairs import PairTokenizer
from service.items.rerank import RERANK


@dataclass(frozen=True, slots=True)
class ServedReranker:
    """A cross-encoder. It scores pairs of a query and a text.

    Attributes:
        files: Files of the model.
        config: Sizes of the model, and its number of segments.
        tokenizer: Tokenizer of pairs.
    """

    task: ClassVar[str] = RERANK

    files: CrossEncoderFiles
    config: CrossEncoderConfig
    tokenizer: PairTokenizer

    @classmethod
    def load(cls, files: CrossEncoderFiles) -> "ServedReranker":
        """Reads the config and the tokenizer of a model."""
        config = read_cross_encoder(files)
        return cls(files, config, load_pair_tokenizer(files, config))

    @property
    def name(self) -> str:
        return self.files.name
