"""Reads folders of cross-encoders. Does not import torch.

A cross-encoder is an encoder with a classification head of one label. It reads a query and a text
together, and gives one score.

Source: transformers, `*ForSequenceClassification` of the families in ARCHITECTURES.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from model.checkpoints.families import text_encoders
from model.checkpoints.families.sentence_transformers import (
    CONFIG,
    PROMPTS,
    TOKENIZER,
    TOKENIZER_CONFIG,
    EmbeddingFiles,
    read_max_tokens,
    read_tokenizer,
)
from model.checkpoints.formats.files import read_options, read_options_if_there
from model.config import DenseConfig, EmbeddingConfig, Pooling
from model.errors import UnsupportedModelError
from model.tokenization.pairs import PairTokenizer

ARCHITECTURES = (
    "BertForSequenceClassification RobertaForSequenceClassification "
    "XLMRobertaForSequenceClassification CamembertForSequenceClassification "
    "MPNetForSequenceClassification"
).split()


IDENTITY = "torch.nn.modules.linear.Identity"


class CrossEncoderFiles(EmbeddingFiles):
    """The files of one cross-encoder, whose `modules.json`, if any, lists the transformer alone."""


@dataclass(frozen=True, slots=True)
class CrossEncoderConfig:
    """Config of a cross-encoder: the encoder, and the head as Dense modules on the first token.

    `num_segments` is the number of token types that the model distinguishes: at most 2 in BERT, and
    1 in the other families. Type 0 is the query, and type 1 is the text. With 2 types, the token
    table has a second row for each token, to whose id the caller adds `vocab_size` in a text
    (`model.checkpoints.embedding`). `label` is the name of the only label. `is_raw` says that
    sentence-transformers returns the logit itself as the score, and not its sigmoid.
    """

    model: EmbeddingConfig
    vocab_size: int
    num_segments: int
    label: str
    is_raw: bool = False


def by_architecture(files: EmbeddingFiles) -> EmbeddingFiles:
    """Returns CrossEncoderFiles for a folder without modules that names such an architecture."""
    named = read_options_if_there(files.encoder / CONFIG).get("architectures")
    if files.head is not None or not isinstance(named, list) or len(named) != 1:
        return files
    is_ours = named[0] in ARCHITECTURES
    return CrossEncoderFiles(files.name, files.folder, files.encoder) if is_ours else files


def read_cross_encoder(files: CrossEncoderFiles) -> CrossEncoderConfig:
    path = files.folder / CONFIG
    options = read_options(path)
    encoder = text_encoders.read_config(options, str(path))
    labels = options.get("id2label")
    if not isinstance(labels, dict | None):
        raise UnsupportedModelError(str(path), ["id2label must be an object"])
    num_labels = options.get("num_labels", 2 if labels is None else len(labels))
    if num_labels != 1:
        reason = (
            f"the classifier has {num_labels} labels; a model that reranks has 1 label. Serve "
            "a cross-encoder with 1 label, or an embedding model"
        )
        raise UnsupportedModelError(str(path), [reason])
    num_segments = max(1, min(encoder.token_types, 2)) if options["model_type"] == "bert" else 1
    width = encoder.d_model
    head = (DenseConfig(width, width, True, True), DenseConfig(width, 1, True, False))
    folded = replace(encoder, vocab_size=encoder.vocab_size * num_segments)
    tokens = read_max_tokens(files.folder, encoder)
    model = EmbeddingConfig(folded, (Pooling.CLS,), head, tokens)
    label = str((labels or {}).get("0", "LABEL_0"))
    own = read_options_if_there(files.folder / PROMPTS)
    if prompt := own.get("default_prompt_name"):
        reason = f"default_prompt_name is {prompt!r}; cross-encoders with prompts are not served"
        raise UnsupportedModelError(str(files.folder / PROMPTS), [reason])
    is_raw = (own.get("activation_fn") or _activation(options)) == IDENTITY
    return CrossEncoderConfig(model, encoder.vocab_size, num_segments, label, is_raw)


def _activation(options: Mapping[str, Any]) -> object:
    """Returns the name of the function between logit and score, or None for the default.

    Since version 5.4 it is in `config_sentence_transformers.json`.
    """
    newer = options.get("sentence_transformers")
    own = newer.get("activation_fn") if isinstance(newer, dict) else None
    return own or options.get("sbert_ce_default_activation_function")


def load_pair_tokenizer(files: CrossEncoderFiles, config: CrossEncoderConfig) -> PairTokenizer:
    folder, max_tokens = files.folder, config.model.max_tokens
    tokenizer = read_tokenizer(folder, max_tokens, config.vocab_size)
    inputs = read_options_if_there(folder / TOKENIZER_CONFIG).get("model_input_names")
    has_segments = not isinstance(inputs, list) or "token_type_ids" in inputs
    return PairTokenizer(tokenizer, max_tokens, str(folder / TOKENIZER), has_segments)


def head_names(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    if options["model_type"] == "bert":
        return [("head.0.linear", "pooler.dense"), ("head.1.linear", "classifier")]
    return [("head.0.linear", "classifier.dense"), ("head.1.linear", "classifier.out_proj")]
