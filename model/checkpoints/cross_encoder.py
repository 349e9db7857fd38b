"""Builds a cross-encoder, filled with its weights, from its files.

BERT adds a segment vector to each token vector. The query is segment 0, and the text is segment 1.
`model.architectures.text_encoder.TextEmbedding` always adds the vector of segment 0, because
embedding models read single texts. The loader therefore gives the token table of a BERT
cross-encoder a second row for each token. Row `vocab_size + id` holds the vector of `id`, plus the
vector of segment 1, minus the vector of segment 0. The forward pass of embedding models can then
run a cross-encoder unchanged.

The table of BERT-base grows from 30,522 to 61,044 rows, and takes 94 MB more in float32.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from model.checkpoints.families.cross_encoders import (
    CrossEncoderConfig,
    CrossEncoderFiles,
    head_names,
    read_cross_encoder,
)
from model.checkpoints.families.sentence_modules import CONFIG
from model.checkpoints.families.text_encoders import family_of
from model.checkpoints.formats.json_files import read_options
from model.checkpoints.formats.tensors import read_tensors
from model.checkpoints.formats.weight_files import find_weights
from model.checkpoints.names import fill
from model.checkpoints.text_weights import name_pairs, normal_names
from model.encoding.pooling import EmbeddingModel, on_device
from model.precision import Precision, select_precision
from model.quantization.asymmetric import quantize

TOKENS = "embeddings.word_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"
IGNORED = re.compile(r"(^|\.)embeddings\.(position_ids|token_type_ids)$|^pooler\.")
"""Pattern for the names of tensors that may stay unused: two constants, and the pooler.

In BERT, the pooler is a part of the head: `head_names` lists it, so the loader reads it. The heads
of the other families do not use the pooler.
"""


def load_cross_encoder_model(
    files: CrossEncoderFiles, device: torch.device, dtype: str
) -> EmbeddingModel:
    """Returns a cross-encoder on its device. For each pair, its output is one number: the score.

    Args:
        files: Files of the model.
        device: Device that computes.
        dtype: Precision of the encoder, or `auto`. `auto` never selects int8 or float16 here. For
            embedding models, a loader checks these precisions by the cosine of vectors
            (`model.precision.MIN_COSINE`). A cosine cannot check an output of one number.

    Raises:
        CheckpointError: The files are damaged or unsupported, or do not fit each other.
        DeviceError: The precision is unknown, or the device does not compute in it.
    """
    config = read_cross_encoder(files)
    precision = select_precision(dtype, device)
    if dtype == "auto" and precision is Precision.FLOAT16:
        precision = Precision.FLOAT32
    path = find_weights(files.folder)
    options = read_options(files.folder / CONFIG)
    family = family_of(options, CONFIG)
    with torch.device("meta"):
        model = EmbeddingModel(config.model)
    arrays = folded(normal_names(read_tensors(path), family), config)
    pairs = [(f"encoder.{ours}", theirs) for ours, theirs in name_pairs(family, model.encoder)]
    for ours, theirs in head_names(options):
        pairs += [(f"{ours}.{kind}", f"{theirs}.{kind}") for kind in ("weight", "bias")]
    fill(model, arrays, pairs, IGNORED, str(path))
    model.eval()
    if precision is Precision.INT8:
        quantize(model.encoder.layers)
    model.precision = precision
    model.encoder.to(precision.dtype)
    return on_device(model, device)


def folded(arrays: Mapping[str, NDArray[Any]], config: CrossEncoderConfig) -> dict[str, Any]:
    """Returns the arrays. If the model has two segments, the token table gets rows of segment 1.

    The other arrays stay unchanged. Tables of wrong shapes also stay unchanged, so that `fill`
    refuses them.
    """
    merged = dict(arrays)
    encoder = config.model.encoder
    known = [np.shape(arrays.get(name, ())) for name in (TOKENS, TYPES)]
    wanted = [(rows, encoder.d_model) for rows in (config.vocab_size, encoder.token_types)]
    if config.num_segments > 1 and known == wanted:
        tokens, types = np.asarray(arrays[TOKENS]), np.asarray(arrays[TYPES])
        merged[TOKENS] = np.concatenate([tokens, tokens + (types[1] - types[0])])
    return merged
