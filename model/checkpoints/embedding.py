"""Builds an embedding model or a cross-encoder, filled with its weights, from its files."""

import ctypes
import logging
import mmap
import re
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.backends.native.library import can_serve, is_supported, select_native_precision
from model.backends.native.runner import NativeTextEncoder
from model.checkpoints.families.cross_encoders import (
    HEADS,
    CrossEncoderConfig,
    CrossEncoderFiles,
    read_cross_encoder,
)
from model.checkpoints.families.sentence_transformers import (
    CONFIG,
    EmbeddingFiles,
    load_tokenizer,
    read_config,
)
from model.checkpoints.families.text_encoders import MASKED_HEADS, family_of
from model.checkpoints.formats.files import find_weights, read_options
from model.checkpoints.formats.tensors import read_tensors
from model.checkpoints.weights import DEGENERATE, all_samples, fill, normal_names
from model.config import EmbeddingConfig
from model.encoding.embedding import (
    Dense,
    EmbeddingJob,
    EmbeddingModel,
    Normalize,
    Vectors,
    embed,
    on_device,
)
from model.precision import Precision, select_precision
from model.quantization.int8 import Replaced, quantize, restore

NOTHING = re.compile(r"(?!)")
TOKENS = "embeddings.word_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"

MIN_COSINE = 0.998
"""Lower limit of the mean cosine of sample sentences at which `auto` keeps int8 or float16.

For all-MiniLM-L6-v2, it is 0.9990 on the samples, and 0.9992 on 2,000 real sentences.
"""

MIN_DEGENERATE_COSINE = 0.98
"""Lower limit of the cosine of a degenerate text: 0.994 for all-MiniLM-L6-v2 in int8."""

logger = logging.getLogger("regard.models")


def load_embedding_model(files: EmbeddingFiles, device: torch.device, dtype: str) -> EmbeddingModel:
    """Returns the model, filled with its weights, on its device.

    The encoder is in the selected precision, and the modules after it are in float32. If `dtype` is
    `auto`, int8 or float16 is used only if it hardly changes the vectors of sample texts; see
    `MIN_COSINE` and `MIN_DEGENERATE_COSINE`. SPLADE and ColBERT are as cross-encoders.

    Raises:
        CheckpointError: The files are damaged, unsupported, or do not match each other.
        DeviceError: The precision is unknown, or the device does not compute in it.
    """
    model = _load(files, device, dtype)
    if files.query is not None:
        model.query = _load(files.query, device, dtype)
    return model


def _load(files: EmbeddingFiles, device: torch.device, dtype: str) -> EmbeddingModel:
    config = read_config(files)
    if config.encoder.blocks and (config.sparse is not None or config.multi is not None):
        return _without_check(_read_model(files, config), device, dtype)
    precision = select_native_precision(config.encoder, dtype, device)
    if device.type == "cpu" and config.encoder.blocks and not is_supported(config.encoder):
        logger.info(
            "%s: PyTorch computes it in %s, because native code does not have its layers",
            files.name,
            precision,
        )
    if files.is_static:
        precision = Precision.FLOAT32  # only sums are computed
    model = _read_model(files, config)
    if precision is Precision.INT8 or (precision is Precision.FLOAT16 and dtype == "auto"):
        precision = _round(model, files, device, dtype, precision)
    return on_device(model, device, precision)


def _read_model(
    files: EmbeddingFiles, config: EmbeddingConfig, cross: CrossEncoderConfig | None = None
) -> EmbeddingModel:
    path = find_weights(files.encoder)
    arrays = read_tensors(path)
    with torch.device("meta"):
        model = EmbeddingModel(config)
    names: Mapping[str, str] = {"embedding.tokens": "tokens"}
    head: dict[str, str] = {}  # a table of the modules after the encoder, if its file has them
    ignored = NOTHING
    if files.is_static:  # a file of one tensor
        arrays = {"tokens": arrays.popitem()[1]}
    else:
        options = read_options(files.encoder / CONFIG)
        family = family_of(options, CONFIG)
        names, ignored = family.names, family.ignored
        arrays = normal_names(arrays, family)
        if config.sparse is not None:
            dense, norm, bias = MASKED_HEADS[options["model_type"]]
            if bias not in arrays:  # one tensor of two names; a file has one of them
                bias = f"{bias.removesuffix('bias')}decoder.bias"
            head = {"words.dense": dense, "words.norm": norm, "words.bias": bias}
        elif config.multi is not None and files.head is None:
            head = {"head.0.linear": "linear"}
        elif cross is not None and (files.head is None or cross.answers):
            layers = enumerate(HEADS[options["model_type"]])
            head = {f"head.{i}{part}": name for i, name in layers for part in ("", ".linear")}
    if cross is not None:
        arrays = folded(arrays, cross) | answer_weights(arrays, cross.answers)
    if head:
        names = {f"encoder.{ours}": theirs for ours, theirs in names.items()} | head
        fill(model, arrays, names, ignored, str(path))
    else:
        fill(model.encoder, arrays, names, ignored, str(path))
        _fill_head(model, files)
    return model


def _fill_head(model: EmbeddingModel, files: EmbeddingFiles) -> None:
    folders = [folder for kind, folder in files.head or () if kind in ("Dense", "LayerNorm")]
    modules = [module for module in model.head if not isinstance(module, Normalize)]
    for module, folder in zip(modules, folders, strict=True):
        weights = find_weights(folder)
        names = {"linear": "linear"} if isinstance(module, Dense) else {"": "norm"}
        fill(module, read_tensors(weights), names, NOTHING, str(weights))


def _without_check(model: EmbeddingModel, device: torch.device, dtype: str) -> EmbeddingModel:
    precision = select_precision(dtype, device)
    if dtype == "auto" and precision is Precision.FLOAT16:
        precision = Precision.FLOAT32
    if precision is Precision.INT8:
        _forget(quantize(model.encoder.layers))
    return on_device(model, device, precision)


def _round(
    model: EmbeddingModel,
    files: EmbeddingFiles,
    device: torch.device,
    dtype: str,
    precision: Precision,
) -> Precision:
    """Rounds the encoder, or restores it if `auto` finds that the samples' vectors change much."""
    jobs: list[EmbeddingJob] = []
    if dtype == "auto":
        tokenizer = load_tokenizer(files, model.config)
        texts = (*all_samples(), *DEGENERATE)
        jobs = [EmbeddingJob(tokenizer.tokenize(text).tokenized.ids) for text in texts]
    exact, is_int8 = embed(model, jobs), precision is Precision.INT8
    encoder = model.encoder if is_int8 else deepcopy(model.encoder)
    replaced = quantize(model.encoder.layers) if is_int8 else []
    if not is_int8:
        model.encoder.to(torch.float16)
        model.to(device)
    elif can_serve(model.config.encoder):
        model.native = NativeTextEncoder(model.encoder)
    if not jobs or _is_faithful(exact, embed(model, jobs), files.name, precision):
        _forget(replaced)
        return precision
    model.native, model.encoder = None, encoder
    restore(replaced)
    return select_precision(dtype, device) if is_int8 else Precision.FLOAT32


def _forget(replaced: list[Replaced]) -> None:
    for _, _, linear in replaced:
        forget_pages(linear.weight)


def forget_pages(tensor: Tensor) -> None:
    """Frees the memory of a tensor that is not read again, on Linux.

    The tensor may be a part of a mapped file, which stays mapped while other parts are used. Pages
    that it shares with other tensors stay.
    """
    end = (tensor.data_ptr() + tensor.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    if sys.platform == "linux" and start < end:
        madvise = ctypes.CDLL(None).madvise
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


def _is_faithful(
    exact: Sequence[Vectors], rounded: Sequence[Vectors], name: str, precision: Precision
) -> bool:
    a, b = np.stack(exact), np.stack(rounded)  # (B, E)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines = (a * b).sum(axis=1) / norms
    mean, least = cosines[: -len(DEGENERATE)].mean(), cosines[-len(DEGENERATE) :].min()
    if mean >= MIN_COSINE and least >= MIN_DEGENERATE_COSINE:
        return True
    logger.warning(
        "%s: the mean cosine between %s and float32 vectors of sample sentences is %.4f. The "
        "smallest cosine of a degenerate text is %.4f. The limits are %.4f and %.4f, so %s is "
        "not used; set REGARD_DTYPE=%s to use it nevertheless",
        *(name, precision, mean, least, MIN_COSINE, MIN_DEGENERATE_COSINE, precision, precision),
    )
    return False


def load_cross_encoder_model(
    files: CrossEncoderFiles, device: torch.device, dtype: str
) -> EmbeddingModel:
    """Returns a cross-encoder on its device. For each pair, its output is one number: the score.

    If `dtype` is `auto`, int8 and float16 are never selected, because the cosine that checks
    embedding models cannot check an output of one number.
    """
    config = read_cross_encoder(files)
    return _without_check(_read_model(files, config.model, config), device, dtype)


def answer_weights(arrays: Mapping[str, NDArray[Any]], answers: Sequence[int]) -> dict[str, Any]:
    """Returns the weights of a score, which is a logit of a language model, or a difference of two.

    The output layer may be the token table, which a file has once.
    """
    table = arrays.get("lm_head.weight", arrays.get("embed_tokens.weight"))
    if table is None or not answers:
        return {}
    first, *others = (np.asarray(table[answer]) for answer in answers)
    return {"score.weight": np.subtract(first, sum(others))[None]}


def folded(arrays: Mapping[str, NDArray[Any]], config: CrossEncoderConfig) -> dict[str, Any]:
    """Adds the rows of segment 1 to the token table, if a BERT has two segments.

    The segment of an id selects a vector that is added to it: 0 for the query, 1 for the text. The
    forward pass of embedding models always adds vector 0. So row `vocab_size + id` holds the vector
    of `id`, plus vector 1, minus vector 0. For BERT-base, these rows take 94 MB in float32.

    Tables of wrong shapes stay unchanged, so that `fill` refuses them.
    """
    merged = dict(arrays)
    encoder = config.model.encoder
    known = [np.shape(arrays.get(name, ())) for name in (TOKENS, TYPES)]
    wanted = [(rows, encoder.d_model) for rows in (config.vocab_size, encoder.token_types)]
    if config.num_segments > 1 and known == wanted:
        tokens, types = np.asarray(arrays[TOKENS]), np.asarray(arrays[TYPES])
        merged[TOKENS] = np.concatenate([tokens, tokens + (types[1] - types[0])])
    return merged
