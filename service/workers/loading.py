"""Loads a model from its files, and warms it up for the executors."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from model.backends.native.runner import NativeRunner
from model.checkpoints.build import load_engine
from model.checkpoints.embedding import load_cross_encoder_model, load_embedding_model
from model.checkpoints.families.cross_encoders import CrossEncoderFiles
from model.checkpoints.families.sentence_transformers import EmbeddingFiles
from model.checkpoints.load import ModelFiles
from model.config import ModelConfig
from model.encoding.capture_pass import TeacherForcedPass, TextCapturePass
from model.encoding.embedding import (
    Embedder,
    EmbeddingEncode,
    EmbeddingJob,
    EmbeddingModel,
    MeanOfMemory,
    embed,
)
from model.engine.engine import Engine
from model.errors import ModelError
from model.precision import select_device
from model.sequence import Sequence as SourceSequence
from service.items import ATTENTION, EMBED, RERANK, TRANSLATE, EmbeddingItem, batch_tokens
from service.workers.device_memory import held_bytes, is_out_of_memory
from service.workers.messages import Load, LoadFailed, Resident, WorkerConfig

WARM_TOKENS = 32


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in a worker; `Resident` explains the other fields."""

    executables: Mapping[str, Any]  # task kind to the object with which its executor computes
    device: torch.device
    dtype: str
    num_bytes: int = 0
    max_rows: int = 0
    config: ModelConfig | None = None
    seconds: float = 0.0

    def resident(self, name: str) -> Resident:
        values = self.dtype, self.seconds, self.num_bytes, self.max_rows, self.config
        return Resident(name, str(self.device), *values)


Loaders = Mapping[type, Callable[[Any, WorkerConfig], LoadedModel]]
"""Maps each type of model files to the function that loads a model from such files."""


def load(loaders: Loaders, message: Load) -> LoadedModel:
    """Loads the model whose files a message contains, in any thread."""
    torch.set_num_threads(message.config.threads)  # applies to the calling thread only
    start = time.perf_counter()
    loaded = loaders[type(message.files)](message.files, message.config)
    return replace(loaded, seconds=time.perf_counter() - start)


def load_translation_model(files: ModelFiles, config: WorkerConfig) -> LoadedModel:
    device = select_device(config.device)
    use_shortlist = config.shortlist == "on" or (
        config.shortlist == "auto" and device.type == "cpu"
    )
    engine = load_engine(files, device, config.dtype, config.limits, use_shortlist)
    warm_up(engine)
    return loaded_engine(engine, held_bytes(engine))


def loaded_engine(engine: Engine, num_bytes: int = 0) -> LoadedModel:
    model = engine.model
    executables = {
        TRANSLATE: engine,
        EMBED: begin_batch(MeanOfMemory(model), model.device),
        ATTENTION: partial(
            TeacherForcedPass,
            model,
            shortlist=engine.runner.shortlist,
            forced_decoder=engine.runner.forced_decoder,
        ),
    }
    precision = str(model.precision)
    rows = engine.limits.max_rows
    return LoadedModel(executables, model.device, precision, num_bytes, rows, engine.config)


def warm_up(engine: Engine) -> None:
    """Decodes a few tokens of the smallest and of the largest batch, so that kernels are compiled.

    Native code decodes only the smallest batch: it has nothing to compile, and a large batch would
    allocate memory before it is needed.
    """
    limits = engine.limits
    filler = [2] * (limits.max_source_tokens - 1) + [engine.config.eos_id]
    largest = limits.max_batch_tokens // limits.max_source_tokens
    batches = [(1, filler[-8:]), (max(1, min(limits.max_rows, largest)), filler)]
    for rows, source in batches[:1] if isinstance(engine.runner, NativeRunner) else batches:
        engine.admit([SourceSequence(row, source) for row in range(rows)])
        for _ in range(1 + engine.runner.pipeline_depth):
            engine.step()  # until the tokens of the first launch have arrived
        engine.clear()


def load_embedder(files: EmbeddingFiles, config: WorkerConfig) -> LoadedModel:
    model = load_embedding_model(files, select_device(config.device), config.dtype)
    begin = begin_batch(model, model.encoder.device)
    return loaded_texts(model, {EMBED: begin, ATTENTION: partial(TextCapturePass, model.encoder)})


def load_cross_encoder(files: CrossEncoderFiles, config: WorkerConfig) -> LoadedModel:
    model = load_cross_encoder_model(files, select_device(config.device), config.dtype)
    begin = begin_batch(model, model.encoder.device)
    capture = partial(TextCapturePass, model.encoder, score=model.embed)
    return loaded_texts(model, {RERANK: begin, ATTENTION: capture})


def loaded_texts(model: EmbeddingModel, executables: Mapping[str, Any]) -> LoadedModel:
    for each in filter(None, (model, model.query)):
        embed(each, [EmbeddingJob([0] * min(WARM_TOKENS, each.config.max_tokens))])
    device, precision = model.encoder.device, str(model.precision)
    return LoadedModel(executables, device, precision, held_bytes(model))


def begin_batch(
    model: Embedder, device: torch.device
) -> Callable[[Sequence[EmbeddingItem]], EmbeddingEncode]:
    """Returns the function that begins to compute the vectors or scores of a batch of items."""
    tokens = batch_tokens(device.type == "cuda")

    def begin(items: Sequence[EmbeddingItem]) -> EmbeddingEncode:
        jobs = [
            EmbeddingJob(each.ids, each.is_per_token, each.is_raw, each.unpooled, each.is_query)
            for each in items
        ]
        return EmbeddingEncode(model, jobs, tokens)

    return begin


def load_failed(name: str, error: Exception) -> LoadFailed:
    kind = "" if isinstance(error, ModelError) else type(error).__name__
    return LoadFailed(f"{name}: {error}", name, kind, is_out_of_memory(error))


LOADERS: Loaders = {
    ModelFiles: load_translation_model,
    EmbeddingFiles: load_embedder,
    CrossEncoderFiles: load_cross_encoder,
}
