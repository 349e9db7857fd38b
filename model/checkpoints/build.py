"""Builds a translation model, filled with its weights, and the engine that runs it."""

import logging
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from model.architectures.output import AnyShortlist, FixedShortlist, Shortlist
from model.architectures.stack import EncoderDecoder
from model.backends.cuda.runner import CudaRunner, fitting_rows
from model.backends.native.library import can_serve, select_native_precision
from model.backends.native.runner import NativeRunner
from model.backends.torch_runner import TorchRunner
from model.checkpoints.families import ctranslate2, hf_config, marian
from model.checkpoints.families.ctranslate2_folder import CTranslate2File
from model.checkpoints.families.marian import MarianFile, MarianNpz
from model.checkpoints.families.translation_folder import read_target_ids
from model.checkpoints.formats.tensors import merge_copies, read_tensors
from model.checkpoints.load import (
    NPZ,
    Format,
    ModelFiles,
    Vocabularies,
    check_vocabularies,
    load_vocabularies,
)
from model.checkpoints.weights import (
    SAMPLES,
    Checkpoint,
    all_samples,
    load_weights,
    quantize_floats,
)
from model.config import ModelConfig
from model.encoding.capture_pass import TeacherForcedPass
from model.engine.engine import Engine
from model.errors import UnsupportedModelError
from model.inspection.query import AttentionJob, ProbabilityQuery
from model.inspection.results import TokenProbabilities
from model.precision import Precision, select_precision
from model.sequence import EngineLimits, Sequence
from model.tokenization.tokenizer import MappedTokenizer

logger = logging.getLogger("regard.models")

CPU_ROWS = 64

MAX_CHANGE = 0.025
"""Largest mean change of a log-probability at which `auto` selects int8 or float16.

The built-in models change by 0.004 to 0.007 in int8, and by 0.032 with 31 steps instead of 255."""

MAX_TOKENS = 48
"""Largest number of tokens of a sample, so that samples do not slow loading."""


LogProbs = NDArray[np.float32]


def load_model(files: ModelFiles, device: torch.device, dtype: str) -> EncoderDecoder:
    """Raises CheckpointError for unusable files, and DeviceError for an unusable precision."""
    vocabularies = load_vocabularies(files)
    found = read_checkpoint(files, vocabularies)
    precision = select_native_precision(found.config, dtype, device)
    if found.integers is not None and precision is Precision.INT8:
        return load_weights(found, is_quantized=True)
    model = load_weights(found)
    del found  # only the model holds its tensors
    if precision is Precision.INT8 or (precision is Precision.FLOAT16 and dtype == "auto"):
        samples = translate_samples(model, files, vocabularies) if dtype == "auto" else []
        exact = log_probs(model, samples) if samples else []
        if precision is Precision.INT8:
            quantize_floats(model)
        model = model.to(device, precision.dtype)
        model.precision = precision
        if not samples or _is_faithful(exact, log_probs(model, samples), files.name, precision):
            return model
        del model  # frees its memory for the second model
        is_half = precision is Precision.FLOAT16
        precision = Precision.FLOAT32 if is_half else select_precision(dtype, device)
        model = load_weights(read_checkpoint(files, vocabularies))
    model.precision = precision
    return model.to(device, precision.dtype)


def read_checkpoint(files: ModelFiles, vocabularies: Vocabularies) -> Checkpoint:
    target = vocabularies.target
    if files.format is Format.CTRANSLATE2:
        assert isinstance(target, MappedTokenizer)
        found = ctranslate2.read_checkpoint(CTranslate2File(files.weights), target)
    elif files.format in (Format.BERGAMOT, Format.OPUS):
        file = (MarianNpz if files.weights.suffix == NPZ else MarianFile)(files.weights)
        ids = target.eos_id, target.unk_id
        found = marian.read_checkpoint(file, files.max_length_factor, *ids)
    else:
        found = read_hugging_face(files.weights, files.num_bytes, target.unk_id)
    check_vocabularies(found.config, vocabularies, files)
    forces_first = files.tokens is not None and files.tokens.begins_target
    return replace(found, config=replace(found.config, forces_first=forces_first))


def read_hugging_face(weights: Path, num_bytes: int, unk_id: int) -> Checkpoint:
    try:
        config = hf_config.read_config(weights.parent, num_bytes, unk_id)
    except UnsupportedModelError:
        # A truncated file is too small for the sizes in its config, so the config is refused. In
        # that case, `read_tensors` raises an error that names the damaged file.
        read_tensors(weights)
        raise
    arrays = merge_copies(read_tensors(weights), hf_config.copies_of(config), weights)
    if config.block is not None:  # T5, where the output layer may have the shared matrix
        output = arrays.get(hf_config.OUTPUT)
        if output is not None and np.array_equal(output, arrays.get(hf_config.T5_SHARED, [])):
            del arrays[hf_config.OUTPUT]
        config = replace(config, tied_output=hf_config.OUTPUT not in arrays)
    names = hf_config.names_of(config)
    return Checkpoint(config, str(weights), arrays, names, hf_config.IGNORED)


def _is_faithful(
    exact: SequenceOf[LogProbs], found: SequenceOf[LogProbs], name: str, precision: Precision
) -> bool:
    change = mean_change(exact, found)
    if change <= MAX_CHANGE:
        return True
    logger.warning(
        "%s: %s changes the log-probabilities of sample translations by %.3f on average, more "
        "than %.3f, so it is not used; set REGARD_DTYPE=%s to use it nevertheless",
        *(name, precision, change, MAX_CHANGE, precision),
    )
    return False


def load_engine(
    files: ModelFiles, device: torch.device, dtype: str, limits: EngineLimits, use_shortlist: bool
) -> Engine:
    """Raises the errors of `load_model`; if `limits.max_rows` is 0, `default_rows` computes it."""
    model = load_model(files, device, dtype)
    most = model.config.max_tokens
    if most is not None and limits.max_source_tokens > most:
        reason = f"it has {most} positions; set REGARD_MAX_SOURCE_TOKENS to at most {most}"
        raise UnsupportedModelError(files.name, [reason])
    if not limits.max_rows:
        limits = replace(limits, max_rows=default_rows(model, limits))
    shortlist = read_shortlist(files, model.config) if use_shortlist else None
    return new_engine(model, limits, shortlist)


def read_shortlist(files: ModelFiles, config: ModelConfig) -> AnyShortlist | None:
    """Returns the lexical shortlist, or the ids of target pieces if the vocabulary has others."""
    if files.shortlist is not None:
        sizes = config.source_vocab_size, config.target_vocab_size
        return Shortlist.read(files.shortlist, *sizes, files.has_shared_vocab)
    is_multilingual = files.format is Format.MULTILINGUAL
    if files.target_ids is None or files.target_ids != files.source_ids or is_multilingual:
        return None
    ids = read_target_ids(files.source_vocab, files.target_vocab, files.target_ids)
    return FixedShortlist(np.array(ids, np.int32)) if len(ids) < config.target_vocab_size else None


def default_rows(model: EncoderDecoder, limits: EngineLimits) -> int:
    if model.device.type == "cpu":
        return CPU_ROWS
    free_bytes, _ = torch.cuda.mem_get_info(model.device)
    return fitting_rows(model, limits, free_bytes)


def new_engine(
    model: EncoderDecoder, limits: EngineLimits, shortlist: AnyShortlist | None = None
) -> Engine:
    if model.precision is Precision.INT8 and can_serve(model.config):
        return Engine(NativeRunner(model, limits, shortlist), limits)
    if model.device.type == "cuda" and not model.config.has_sinusoids:
        logger.warning("this model is decoded without CUDA graphs, so each step takes longer")
    elif model.device.type == "cuda" and not isinstance(shortlist, Shortlist):
        runner = CudaRunner(model, limits, shortlist)
        runner.capture()
        return Engine(runner, limits)
    return Engine(TorchRunner(model, limits, shortlist), limits)


def translate_samples(
    model: EncoderDecoder, files: ModelFiles, vocabularies: Vocabularies
) -> list[tuple[list[int], list[int]]]:
    """Returns the ids of samples of the source language, or else of all, and of translations."""
    language = next((code for code in SAMPLES if code in files.sources), files.sources[0])
    if files.tokens is not None and not files.source:
        target = next((code for code in files.targets if code != language), language)
        vocabularies = vocabularies.between(files.tokens, language, target)
    texts = SAMPLES.get(language) or all_samples()
    tokenizer, first_id = vocabularies.source, vocabularies.first_id
    ids = [tokenizer.encode(text)[: MAX_TOKENS - 1] for text in texts]
    sources = [[*each, *tokenizer.source_end] for each in ids]
    limits = EngineLimits(max_rows=len(sources), max_source_tokens=MAX_TOKENS)
    engine = Engine(TorchRunner(model, limits), limits)
    engine.admit([Sequence(i, source, first_id=first_id) for i, source in enumerate(sources)])
    targets: dict[int, list[int]] = {}
    while engine.num_rows:
        targets |= {done.id: done.hypotheses[0].tokens for done in engine.step()}
    return [(source, targets[i]) for i, source in enumerate(sources)]


def log_probs(
    model: EncoderDecoder, pairs: SequenceOf[tuple[list[int], list[int]]]
) -> list[LogProbs]:
    jobs = [AttentionJob(*pair, (ProbabilityQuery(top=0),)) for pair in pairs]
    whole = TeacherForcedPass(model, jobs)
    while whole.advance():
        pass
    return [
        found.log_probs for (found,) in whole.results() if isinstance(found, TokenProbabilities)
    ]


def mean_change(exact: SequenceOf[LogProbs], found: SequenceOf[LogProbs]) -> float:
    return float(np.abs(np.concatenate(found) - np.concatenate(exact)).mean())
