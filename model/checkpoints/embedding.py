"""A filled embedding model, from its files."""

import re
from pathlib import Path

import torch

from model.checkpoints.json_files import read_options
from model.checkpoints.names import fill
from model.checkpoints.sentence_transformers import CONFIG, EmbeddingFiles, read_config
from model.checkpoints.tensors import read_tensors
from model.checkpoints.text_encoders import family_of
from model.checkpoints.text_weights import load_weights
from model.checkpoints.weight_files import weights_path
from model.device import Precision, select_precision
from model.embedding_config import EmbeddingConfig
from model.errors import DeviceError
from model.pooling import Dense, EmbeddingModel
from model.text_encoder import TextEncoder

NOTHING = re.compile(r"(?!)")


def load_embedding_model(files: EmbeddingFiles, device: torch.device, dtype: str) -> EmbeddingModel:
    """The model, filled, on its device; its encoder in that precision, the rest in float32.

    Args:
        files: Where the model lies.
        device: Where it computes.
        dtype: float32, bfloat16 or `auto`.

    Raises:
        CheckpointError: The files are damaged, unsupported, or do not fit each other.
        DeviceError: The device does not compute in that precision.
    """
    precision = select_precision(dtype, device)
    if precision is Precision.INT8:
        raise DeviceError("dtype int8 is for translation models; use bfloat16 or float32")
    config = read_config(files)
    with torch.device("meta"):
        model = EmbeddingModel(config)
    model.encoder = _load_encoder(files, config)
    folders = [folder for kind, folder in files.head or () if kind != "Pooling"]
    for module, folder in zip(model.head, folders, strict=True):
        if isinstance(module, Dense):
            _fill_dense(module, folder)
    model.encoder.to(precision.dtype)
    return model.to(device).eval()


def _load_encoder(files: EmbeddingFiles, config: EmbeddingConfig) -> TextEncoder:
    path = weights_path(files.encoder)
    family = family_of(read_options(files.encoder / CONFIG), CONFIG)
    return load_weights(read_tensors(path), family, config.encoder, str(path))


def _fill_dense(module: Dense, folder: Path) -> None:
    path = weights_path(folder)
    pairs = [(name, name) for name, _ in module.named_parameters()]
    fill(module, read_tensors(path), pairs, NOTHING, str(path))
