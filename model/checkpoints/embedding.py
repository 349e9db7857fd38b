"""Builds an embedding model, filled with its weights, from its files."""

import logging
import re
from collections.abc import Sequence
from copy import deepcopy
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
from model.checkpoints.formats.json_files import read_options
from model.checkpoints.formats.mapped_files import forget_pages
from model.checkpoints.formats.tensors import read_tensors
from model.checkpoints.formats.weight_files import find_weights, weight_files
from model.checkpoints.names import fill
from model.checkpoints.samples import DEGENERATE, all_samples
from model.checkpoints.text_weights import load_weights
from model.embedding_config import EmbeddingConfig
from model.encoding.embedding import EmbeddingJob, Vectors, embed
from model.encoding.pooling import Dense, EmbeddingModel, on_device
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
        dtype: A precision, or `auto`. On a CPU, `auto` prefers int8 if native code can compute
            the encoder. `auto` uses int8 or float16 only if that precision hardly changes the
            vectors of sample texts; see `MIN_COSINE` and `MIN_DEGENERATE_COSINE`.

    Raises:
        CheckpointError: The files are damaged, unsupported, or do not match each other.
        DeviceError: The precision is unknown, or the device does not compute in it.
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
    if (
        precision is Precision.FLOAT16
        and dtype == "auto"
        and not _use_float16(model, files, device)
    ):
        precision = Precision.FLOAT32
    if precision is Precision.INT8:
        for path in weight_files(find_weights(files.encoder)):
            forget_pages(path)  # the float matrices are not read again
    model.precision = precision
    model.encoder.to(precision.dtype)
    return on_device(model, device)


def _use_int8(model: EmbeddingModel, files: EmbeddingFiles, is_checked: bool) -> bool:
    """Quantises the encoder to int8, and returns whether it stays in int8.

    If `is_checked` is True and int8 changes the vectors of sample texts too much, the encoder is
    restored to float32.
    """
    jobs = _samples(files, model) if is_checked else []
    exact = embed(model, jobs)
    replaced = quantize(model.encoder.layers)
    if can_serve(model.config.encoder):
        model.native = NativeTextEncoder(model.encoder)
    if not is_checked or _is_faithful(exact, embed(model, jobs), files.name, Precision.INT8):
        return True
    model.native = None
    restore(replaced)
    return False


def _use_float16(model: EmbeddingModel, files: EmbeddingFiles, device: torch.device) -> bool:
    """Rounds the encoder to float16, and returns whether it stays in float16.

    The model is moved to the device. If float16 changes the vectors of sample texts too much, a
    float32 copy on the CPU replaces the encoder.
    """
    jobs = _samples(files, model)
    exact, encoder = embed(model, jobs), deepcopy(model.encoder)
    model.encoder.to(torch.float16)
    if _is_faithful(exact, embed(model.to(device), jobs), files.name, Precision.FLOAT16):
        return True
    model.encoder = encoder
    return False


def _samples(files: EmbeddingFiles, model: EmbeddingModel) -> list[EmbeddingJob]:
    """Returns a job for each sample sentence, and then for each degenerate text."""
    tokenizer = load_tokenizer(files, model.config)
    texts = (*all_samples(), *DEGENERATE)
    return [EmbeddingJob(tokenizer.tokenize(text).tokenized.ids) for text in texts]


def _is_faithful(
    exact: Sequence[Vectors], rounded: Sequence[Vectors], name: str, precision: Precision
) -> bool:
    """Returns whether rounding the encoder hardly changes the vectors of the texts of `_samples`.

    A rounded encoder is in int8 or float16. The result is False if a vector is not finite.
    """
    cosines = cosines_of(exact, rounded)
    mean, least = cosines[: -len(DEGENERATE)].mean(), cosines[-len(DEGENERATE) :].min()
    if mean >= MIN_COSINE and least >= MIN_DEGENERATE_COSINE:
        return True
    logger.warning(
        "%s: the mean cosine between %s and float32 vectors of sample sentences is %.4f. The "
        "smallest cosine of a degenerate text is %.4f. The limits are %.4f and %.4f, so %s is "
        "not used; set REGARD_DTYPE=%s to use it nevertheless",
        name,
        precision,
        mean,
        least,
        MIN_COSINE,
        MIN_DEGENERATE_COSINE,
        precision,
        precision,
    )
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
