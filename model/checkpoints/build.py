"""Builds a translation model, filled with its weights, and the engine that runs it."""

import logging
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from functools import partial

import torch

from model.architectures.seq2seq import EncoderDecoder
from model.architectures.shortlist import Shortlist
from model.backends.cuda.runner import CudaRunner, fitting_rows
from model.backends.native.library import warn_without_build
from model.backends.native.runner import NativeRunner, can_serve, is_supported
from model.backends.torch_runner import TorchRunner
from model.checkpoints.calibration import MAX_CHANGE, ForcedPair, forced_pairs, mean_change
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
from model.checkpoints.quantize import quantize_floats
from model.config import ModelConfig
from model.engine.engine import Engine
from model.errors import UnsupportedModelError
from model.precision import Precision, select_precision
from model.sequence import EngineLimits

logger = logging.getLogger("regard.models")

CPU_ROWS = 64


def load_model(files: ModelFiles, device: torch.device, dtype: str) -> EncoderDecoder:
    """Returns the model, filled with its weights, on its device and in its precision.

    Args:
        files: The files of the model.
        device: The device of the model.
        dtype: A precision, or `auto`.

    Raises:
        CheckpointError: The files are damaged, unsupported, or do not match each other.
        DeviceError: The precision is unknown, or the device does not compute in it.
    """
    load = _load_marian if files.is_marian else _load_hugging_face
    vocabularies = load_vocabularies(files)
    model = load(files, vocabularies, device, dtype)
    if dtype != "auto" or model.precision is not Precision.FLOAT16:
        return model.to(device, model.precision.dtype)
    pairs = forced_pairs(model, files, vocabularies)
    model = model.to(device, torch.float16)
    if _is_faithful(model, pairs, files.name):
        return model
    del model  # frees its memory for the second model
    return load(files, vocabularies, device, Precision.FLOAT32).to(device)


def _load_marian(
    files: ModelFiles, vocabularies: Vocabularies, device: torch.device, dtype: str
) -> EncoderDecoder:
    file = (MarianNpz if files.weights.suffix == NPZ else MarianFile)(files.weights)
    tokenizer = vocabularies.target
    config = marian.read_config(file, files.max_length_factor, tokenizer.eos_id, tokenizer.unk_id)
    check_vocabularies(config, vocabularies, files)
    load = partial(marian.load_weights, file, config)
    if file.is_quantized:
        if is_supported(config):
            warn_without_build(dtype, device)
        precision = select_precision(dtype, device, can_serve(config))
        return _computing_in(precision, load(precision is Precision.INT8))
    return _load_floats(load, config, files, vocabularies, device, dtype)


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
    load = partial(hf_weights.load_weights, files.weights, config)
    return _load_floats(load, config, files, vocabularies, device, dtype)


def _load_floats(
    load: Callable[[], EncoderDecoder],
    config: ModelConfig,
    files: ModelFiles,
    vocabularies: Vocabularies,
    device: torch.device,
    dtype: str,
) -> EncoderDecoder:
    """Returns a model whose file has float weights.

    `auto` selects int8 only if `_is_faithful` accepts the int8 model.
    """
    if is_supported(config):
        warn_without_build(dtype, device)
    precision, model = select_precision(dtype, device, can_serve(config)), load()
    if precision is not Precision.INT8:
        return _computing_in(precision, model)
    pairs = forced_pairs(model, files, vocabularies) if dtype == "auto" else []
    quantize_floats(model)
    if _is_faithful(model, pairs, files.name):
        return model
    return _computing_in(select_precision(dtype, device), load())


def _is_faithful(model: EncoderDecoder, pairs: SequenceOf[ForcedPair], name: str) -> bool:
    """Returns whether a rounded model hardly changes the probabilities of sample translations.

    A rounded model is in int8 or float16. If `pairs` is empty, the model is accepted. If the model
    gives probabilities that are not finite, the result is False.
    """
    change = mean_change(model, pairs) if pairs else 0.0
    if change <= MAX_CHANGE:
        return True
    logger.warning(
        "%s: %s changes the log-probabilities of sample translations by %.3f on average, more "
        "than %.3f, so it is not used; set REGARD_DTYPE=%s to use it nevertheless",
        name,
        model.precision,
        change,
        MAX_CHANGE,
        model.precision,
    )
    return False


def _computing_in(precision: Precision, model: EncoderDecoder) -> EncoderDecoder:
    """Sets the `precision` of a model, and returns the model. The weights are not converted."""
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
        DeviceError: The precision is unknown, or the device does not compute in it.
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
