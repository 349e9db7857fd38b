"""Builds an embedding model, filled with its weights, from its files."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from model.architectures.text_encoder import TextEncoder
from model.backends.native.library import warn_without_build
from model.backends.native.text_runner import NativeTextEncoder, can_serve, is_supported
from model.checkpoints.families.sentence_modules import CONFIG
from model.checkpoints.families.sentence_transformers import (
    EmbeddingFiles,
    load_tokenizer,
    read_config,
)
from model.checkpoints.families.text_encoders import family_of
from model.checkpoints.families.text_weights import load_weights
from model.checkpoints.formats.json_files import read_options
from model.checkpoints.formats.mapped_files import forget_pages
from model.checkpoints.formats.tensors import read_tensors
from model.checkpoints.formats.weight_files import find_weights, weight_files
from model.checkpoints.names import fill
from model.checkpoints.samples import DEGENERATE, all_samples
from model.embedding_config import EmbeddingConfig
from model.encoding.embedding import EmbeddingJob, Vectors, embed
from model.encoding.pooling import Dense, EmbeddingModel
from model.precision import (
    MIN_COSINE,
    MIN_DEGENERATE_COSINE,
    Precision,
    select_precision,
)
from model.quantization.asymmetric import quantize, restore

NOTHING = re.compile(r"(?!)")

logger = logging.getLogger("regard.models")


def load_embedding_model(files: EmbeddingFiles, device: torch.device, dtype: str) -> EmbeddingModel:
    """Returns the model, filled with its weights, on its device.

    The encoder is in the selected precision. The modules after the encoder are in float32.

    Args:
        files: The files of the model.
        device: The device of the model.
        dtype: float32, bfloat16, int8 or `auto`. On a CPU, `auto` selects int8 if native code
            serves the encoder and int8 hardly changes the vectors of sample texts; see
            `MIN_COSINE` and `MIN_DEGENERATE_COSINE`.

    Raises:
        CheckpointError: The files are damaged, unsupported, or do not match each other.
        DeviceError: The device does not compute in that precision.
    """
    config = read_config(files)
    if is_supported(config.encoder):
        warn_without_build(dtype, device)
    precision = select_precision(dtype, device, is_int8=can_serve(config.encoder))
    with torch.device("meta"):
        model = EmbeddingModel(config)
    model.encoder = _load_encoder(files, config)
    folders = [folder for kind, folder in files.head or () if kind != "Pooling"]
    for module, folder in zip(model.head, folders, strict=True):
        if isinstance(module, Dense):
            _fill_dense(module, folder)
    model.eval()
    if precision is Precision.INT8 and not _use_int8(model, files, is_checked=dtype == "auto"):
        precision = select_precision(dtype, device)
    if precision is Precision.INT8:
        for path in weight_files(find_weights(files.encoder)):
            forget_pages(path)  # the float matrices are not read again
    model.precision = precision
    model.encoder.to(precision.dtype)
    return model.to(device)


def _use_int8(model: EmbeddingModel, files: EmbeddingFiles, is_checked: bool) -> bool:
    """Quantises the encoder to int8, and returns whether it stays in int8.

    If `is_checked` is True and int8 changes the vectors of sample texts too much, the encoder is
    restored.
    """
    real, jobs = all_samples(), list[EmbeddingJob]()
    if is_checked:
        tokenizer = load_tokenizer(files, model.config)
        jobs = [
            EmbeddingJob(tokenizer.tokenize(text).tokenized.ids) for text in (*real, *DEGENERATE)
        ]
    exact = embed(model, jobs)
    replaced = quantize(model.encoder.layers)
    if can_serve(model.config.encoder):
        model.native = NativeTextEncoder(model.encoder)
    if not is_checked:
        return True
    cosines = cosines_of(exact, embed(model, jobs))
    mean, least = cosines[: len(real)].mean(), cosines[len(real) :].min()
    if mean >= MIN_COSINE and least >= MIN_DEGENERATE_COSINE:
        return True
    logger.warning(
        "%s: int8 vectors of sample sentences have a mean cosine of %.4f with float32 vectors, and "
        "those of degenerate texts one of at least %.4f. The limits are %.4f and %.4f, so int8 is "
        "not used; REGARD_DTYPE=int8 selects it all the same",
        files.name,
        mean,
        least,
        MIN_COSINE,
        MIN_DEGENERATE_COSINE,
    )
    model.native = None
    restore(replaced)
    return False


def cosines_of(vectors: Sequence[Vectors], others: Sequence[Vectors]) -> Vectors:
    """Returns the cosine (B) between vectors that have the same index in two lists."""
    a, b = np.stack(vectors), np.stack(others)  # (B, E)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines: Vectors = (a * b).sum(axis=1) / norms
    return cosines


def _load_encoder(files: EmbeddingFiles, config: EmbeddingConfig) -> TextEncoder:
    path = find_weights(files.encoder)
    family = family_of(read_options(files.encoder / CONFIG), CONFIG)
    return load_weights(read_tensors(path), family, config.encoder, str(path))


def _fill_dense(module: Dense, folder: Path) -> None:
    path = find_weights(folder)
    pairs = [(name, name) for name, _ in module.named_parameters()]
    fill(module, read_tensors(path), pairs, NOTHING, str(path))
