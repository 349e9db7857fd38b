"""Reads folders of cross-encoders. Does not import torch.

A cross-encoder is an encoder with a classification head of one label. It reads a query and a text
together, and gives one score.

Source: transformers, `*ForSequenceClassification` of BERT, RoBERTa, XLM-RoBERTa,
CamemBERT and MPNet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from model.checkpoints.families import text_encoders
from model.checkpoints.families.sentence_modules import (
    CONFIG,
    TOKENIZER_CONFIG,
    read_max_tokens,
    read_transformer_options,
)
from model.checkpoints.families.sentence_transformers import (
    TOKENIZER,
    TOKENIZER_SUPPORTED,
    EmbeddingFiles,
)
from model.checkpoints.formats.json_files import (
    read_options,
    read_options_if_there,
    unsupported,
)
from model.checkpoints.formats.weight_files import find_weights, revision_of
from model.embedding_config import DenseConfig, EmbeddingConfig, Pooling
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.tokenization.pairs import PairTokenizer
from model.tokenization.text import TextTokenizer

ARCHITECTURES = (
    "BertForSequenceClassification",
    "RobertaForSequenceClassification",
    "XLMRobertaForSequenceClassification",
    "CamembertForSequenceClassification",
    "MPNetForSequenceClassification",
)

SEGMENTS = "token_type_ids"
"""Name of the segments in the list of inputs of a tokenizer."""

DEFAULT_LABELS = 2
"""Number of labels if a config gives neither a number nor names of labels."""

DEFAULT_LABEL = "LABEL_0"
"""Name of the only label if a config gives no name."""


@dataclass(frozen=True)
class CrossEncoderFiles:
    """Files of one cross-encoder.

    Attributes:
        name: Served name.
        folder: Folder of all files.
    """

    name: str
    folder: Path

    @cached_property
    def revision(self) -> str:
        return revision_of(find_weights(self.folder))


@dataclass(frozen=True, slots=True)
class CrossEncoderConfig:
    """Config of a cross-encoder.

    Attributes:
        model: Encoder, and the head as Dense modules on the vector of the first token.
        vocab_size: Number of token ids.
        num_segments: Number of token types that the model distinguishes: at most 2 in BERT, and 1
            in the other families. Type 0 is the query, and type 1 is the text. With 2 types, the
            token table has two rows for each token. The second row is for tokens of a text, and
            includes the vector of type 1. The caller therefore adds `vocab_size` to the ids of a
            text (`model.checkpoints.cross_encoder`).
        label: Name of the only label.
    """

    model: EmbeddingConfig
    vocab_size: int
    num_segments: int
    label: str


def by_architecture(files: EmbeddingFiles) -> EmbeddingFiles | CrossEncoderFiles:
    """Returns CrossEncoderFiles if the config names the architecture of a cross-encoder.

    If the folder has a `modules.json`, or the config names another architecture, the given files
    are returned unchanged.

    Raises:
        CheckpointFormatError: The config is damaged.
    """
    options = read_options_if_there(files.encoder / CONFIG)
    if files.head is None and is_cross_encoder(options):
        return CrossEncoderFiles(files.name, files.folder)
    return files


def is_cross_encoder(options: Mapping[str, Any]) -> bool:
    named = options.get("architectures")
    return isinstance(named, list) and len(named) == 1 and named[0] in ARCHITECTURES


def read_cross_encoder(files: CrossEncoderFiles) -> CrossEncoderConfig:
    """Reads the config of a cross-encoder.

    Raises:
        UnsupportedModelError: The head does not have exactly one label, or an option is not
            implemented.
        CheckpointError: A file is damaged.
    """
    path = files.folder / CONFIG
    options = read_options(path)
    encoder = text_encoders.read_config(options, str(path))
    labels = options.get("id2label")
    if not isinstance(labels, dict | None):
        raise UnsupportedModelError(str(path), ["id2label must be an object"])
    num_labels = options.get("num_labels", DEFAULT_LABELS if labels is None else len(labels))
    if num_labels != 1:
        raise UnsupportedModelError(
            str(path),
            [
                f"the classifier has {num_labels} labels; a model that reranks has 1 label. Serve "
                "a cross-encoder with 1 label, or an embedding model"
            ],
        )
    num_segments = min(encoder.token_types, 2) if options["model_type"] == "bert" else 1
    width = encoder.d_model
    head = (DenseConfig(width, width, True, True), DenseConfig(width, 1, True, False))
    folded = replace(encoder, vocab_size=encoder.vocab_size * max(1, num_segments))
    tokens = read_max_tokens(files.folder, encoder)
    model = EmbeddingConfig(folded, (Pooling.CLS,), head, tokens)
    label = str((labels or {}).get("0", DEFAULT_LABEL))
    return CrossEncoderConfig(model, encoder.vocab_size, max(1, num_segments), label)


def load_pair_tokenizer(files: CrossEncoderFiles, config: CrossEncoderConfig) -> PairTokenizer:
    """Loads the tokenizer of a cross-encoder.

    Raises:
        CheckpointError: A file is damaged, an option is not implemented, or the vocabulary is
            larger than the encoder's.
    """
    path = files.folder / TOKENIZER
    own = files.folder / TOKENIZER_CONFIG
    settings = read_options_if_there(own)
    if reasons := unsupported(settings, TOKENIZER_SUPPORTED):
        raise UnsupportedModelError(str(own), reasons)
    is_lowercase = read_transformer_options(files.folder).get("do_lower_case") is True
    tokenizer = TextTokenizer(path, config.model.max_tokens, is_lowercase)
    if tokenizer.vocab_size > config.vocab_size:
        raise CheckpointFormatError(
            f"{path} has ids up to {tokenizer.vocab_size - 1}; the weights are for "
            f"{config.vocab_size} ids"
        )
    inputs = settings.get("model_input_names")
    has_segments = not isinstance(inputs, list) or SEGMENTS in inputs
    return PairTokenizer(tokenizer, config.model.max_tokens, str(path), has_segments)


def head_names(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns (module, tensor prefix) of the two linear layers of the head."""
    if options["model_type"] == "bert":
        return [("head.0.linear", "pooler.dense"), ("head.1.linear", "classifier")]
    return [("head.0.linear", "classifier.dense"), ("head.1.linear", "classifier.out_proj")]
