"""Builds a translation model, filled with its weights, and the engine that runs it."""

from dataclasses import replace

import torch

from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import Shortlist
from model.backends.cuda.runner import CudaRunner, fitting_rows
from model.backends.native.library import warn_without_build
from model.backends.native.runner import NativeRunner, can_serve, is_supported
from model.backends.torch_runner import TorchRunner
from model.checkpoints.families import hf_config, hf_weights, marian
from model.checkpoints.formats.marian_bin import MarianFile
from model.checkpoints.formats.marian_npz import MarianNpz
from model.checkpoints.formats.tensors import read_tensors
from model.checkpoints.load import (
    NPZ,
    ModelFiles,
    Vocabularies,
    check_vocabularies,
    load_vocabularies,
)
from model.engine.engine import Engine
from model.errors import UnsupportedModelError
from model.precision import Precision, select_precision
from model.sequence import EngineLimits

CPU_ROWS = 64


def load_model(files: ModelFiles, device: torch.device, dtype: str) -> EncoderDecoder:
    """Returns the model, filled with its weights, on its device and in its precision.

    Args:
        files: The files of the model.
        device: The device of the model.
        dtype: A precision, or `auto`.

    Raises:
        CheckpointError: The files are damaged, unsupported, or do not match each other.
        DeviceError: The device does not compute in that precision.
    """
    load = _load_marian if files.is_marian else _load_hugging_face
    model = load(files, load_vocabularies(files), device, dtype)
    return model.to(device, model.precision.dtype)


def _load_marian(
    files: ModelFiles, vocabularies: Vocabularies, device: torch.device, dtype: str
) -> EncoderDecoder:
    file = (MarianNpz if files.weights.suffix == NPZ else MarianFile)(files.weights)
    tokenizer = vocabularies.target
    config = marian.read_config(file, files.max_length_factor, tokenizer.eos_id, tokenizer.unk_id)
    check_vocabularies(config, vocabularies, files)
    if file.is_quantized and is_supported(config):
        warn_without_build(dtype, device)
    precision = select_precision(dtype, device, file.is_quantized and can_serve(config))
    model = marian.load_weights(file, config, is_quantized=precision is Precision.INT8)
    model.precision = precision
    return model


def _load_hugging_face(
    files: ModelFiles, vocabularies: Vocabularies, device: torch.device, dtype: str
) -> EncoderDecoder:
    try:
        config = hf_config.read_config(
            files.weights.parent, files.num_bytes, vocabularies.target.unk_id
        )
    except UnsupportedModelError:
        # A truncated file is too small for the sizes in its config, so the config is refused. In
        # that case, `read_tensors` raises an error that names the damaged file.
        read_tensors(files.weights)
        raise
    check_vocabularies(config, vocabularies, files)
    if files.tokens is not None:
        config = replace(config, forces_first=files.tokens.begins_target)
    precision = select_precision(dtype, device)
    model = hf_weights.load_weights(files.weights, config, precision is Precision.INT8)
    model.precision = precision
    return model


def load_engine(
    files: ModelFiles,
    device: torch.device,
    dtype: str,
    limits: EngineLimits,
    use_shortlist: bool,
) -> Engine:
    """Returns an engine of the model.

    Args:
        files: The files of the model.
        device: The device of the model.
        dtype: A precision, or `auto`.
        limits: Limits of the batch. If `max_rows` is `0`, `default_rows` computes this limit.
        use_shortlist: Whether output is restricted to the model's lexical shortlist, if the model
            has one.

    Raises:
        CheckpointError: The files are damaged, unsupported, or do not match each other.
        DeviceError: The device does not compute in that precision.
    """
    model = load_model(files, device, dtype)
    if not limits.max_rows:
        limits = replace(limits, max_rows=default_rows(model, limits))
    shortlist = None
    if use_shortlist and files.shortlist is not None:
        config = model.config
        shortlist = Shortlist.read(
            files.shortlist,
            config.source_vocab_size,
            config.target_vocab_size,
            files.has_shared_vocab,
        )
    return new_engine(model, limits, shortlist)


def default_rows(model: EncoderDecoder, limits: EngineLimits) -> int:
    """Returns the number of rows that replaces a `max_rows` of 0."""
    if model.device.type == "cpu":
        return CPU_ROWS
    free_bytes, _ = torch.cuda.mem_get_info(model.device)
    return fitting_rows(model, limits, free_bytes)


def new_engine(
    model: EncoderDecoder, limits: EngineLimits, shortlist: Shortlist | None = None
) -> Engine:
    """Returns an engine that is ready to compute, with the fastest runner for the model."""
    if model.precision is Precision.INT8 and can_serve(model.config):
        return Engine(NativeRunner(model, limits, shortlist), limits)
    if model.device.type == "cuda" and shortlist is None:
        runner = CudaRunner(model, limits)
        runner.capture()
        return Engine(runner, limits)
    return Engine(TorchRunner(model, limits, shortlist), limits)
