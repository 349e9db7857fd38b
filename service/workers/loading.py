"""From files to what a device worker computes with, warm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from model.backends.native.runner import NativeRunner
from model.checkpoints.build import load_engine
from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import EmbeddingFiles
from model.checkpoints.load import ModelFiles
from model.device import select_device
from model.encoding.embedding import EmbeddingEncode, EmbeddingJob, embed
from model.encoding.teacher_forced import TeacherForcedPass
from model.encoding.text_attention import TextCapturePass
from model.encoding.translation_encoder import TranslationEncode
from model.engine.engine import Engine
from model.errors import ModelError
from model.sequence import Sequence as SourceSequence
from service.workers.device_memory import held_bytes, is_out_of_memory
from service.workers.executors.attention import NewInspection
from service.workers.executors.embedding import BATCH_TOKENS, NewPass, Pass
from service.workers.messages import (
    EmbedTask,
    Load,
    LoadFailed,
    Resident,
    ResidentEmbedder,
    ResidentModel,
    WorkerConfig,
)

WARM_TOKENS = 32


@dataclass(frozen=True, slots=True)
class LoadedEmbedder:
    """What embeds.

    Attributes:
        new_pass: Begins to embed texts.
        new_inspection: Begins to show attention.
        device: Where that is done.
        dtype: Such as `float32`.
        num_bytes: Memory that it takes; none of its own where a translation model's is used.
    """

    new_pass: NewPass
    new_inspection: NewInspection
    device: torch.device
    dtype: str
    num_bytes: int = 0


LoadEngine = Callable[[ModelFiles, WorkerConfig], Engine]
LoadEmbedder = Callable[[EmbeddingFiles, WorkerConfig], LoadedEmbedder]


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads models of both kinds; calls may come from any thread."""

    load_engine: LoadEngine
    load_embedder: LoadEmbedder

    def __call__(self, load: Load) -> Engine | LoadedEmbedder:
        """What computes with the model.

        Raises:
            ModelError: The files or the device cannot be used.
        """
        torch.set_num_threads(load.config.threads)  # every thread has a number of its own
        if isinstance(load.files, ModelFiles):
            return self.load_engine(load.files, load.config)
        return self.load_embedder(load.files, load.config)


def load_from_files(files: ModelFiles, config: WorkerConfig) -> Engine:
    """The engine of one model, warm.

    Raises:
        ModelError: The files or the device cannot be used.
    """
    device = select_device(config.device)
    use_shortlist = config.shortlist == "on" or (
        config.shortlist == "auto" and device.type == "cpu"
    )
    engine = load_engine(files, device, config.dtype, config.limits, use_shortlist)
    warm_up(engine)
    return engine


def warm_up(engine: Engine) -> None:
    """Decodes a few tokens of the smallest and the largest batch, so that kernels exist.

    Native code has its own; a large batch would only have it hold memory before there is one.
    """
    limits = engine.limits
    filler = [2] * (limits.max_source_tokens - 1) + [engine.config.eos_id]
    largest = limits.max_batch_tokens // limits.max_source_tokens
    batches = [(1, filler[-8:]), (max(1, min(limits.max_rows, largest)), filler)]
    for rows, source in batches[:1] if isinstance(engine.runner, NativeRunner) else batches:
        engine.admit([SourceSequence(row, source) for row in range(rows)])
        for _ in range(1 + engine.runner.pipeline_depth):
            engine.step()  # until the outcome of the first is there
        engine.clear()


def load_embedder(files: EmbeddingFiles, config: WorkerConfig) -> LoadedEmbedder:
    """An embedding model, warm.

    Raises:
        ModelError: The files or the device cannot be used.
    """
    model = load_embedding_model(files, select_device(config.device), config.dtype)
    embed(model, [EmbeddingJob([0] * min(WARM_TOKENS, model.config.max_tokens))])

    def new_pass(tasks: Sequence[EmbedTask]) -> Pass:
        return EmbeddingEncode(model, jobs_of(tasks), BATCH_TOKENS)

    new_inspection = partial(TextCapturePass, model.encoder)
    place = model.encoder.device, str(model.precision)
    return LoadedEmbedder(new_pass, new_inspection, *place, held_bytes(model))


def embedder_of(engine: Engine) -> LoadedEmbedder:
    """A translation model, which is there already: its encoder, and attention of both sides."""
    model = engine.model

    def new_pass(tasks: Sequence[EmbedTask]) -> Pass:
        return TranslationEncode(model, jobs_of(tasks), BATCH_TOKENS)

    new_inspection = partial(TeacherForcedPass, model)
    return LoadedEmbedder(new_pass, new_inspection, model.device, str(model.precision))


def resident_of(name: str, loaded: Engine | LoadedEmbedder, seconds: float) -> Resident:
    """What the server is told of a model that has been loaded in so many seconds."""
    if isinstance(loaded, LoadedEmbedder):
        place = str(loaded.device), loaded.dtype
        return ResidentEmbedder(name, *place, seconds, loaded.num_bytes)
    place = str(loaded.model.device), str(loaded.model.precision)
    rows = loaded.limits.max_rows
    return ResidentModel(name, *place, seconds, rows, loaded.config, held_bytes(loaded))


def load_failed(name: str, error: Exception) -> LoadFailed:
    """What it is told of one that cannot be loaded."""
    kind = "" if isinstance(error, ModelError) else type(error).__name__
    return LoadFailed(f"{name}: {error}", name, kind, is_out_of_memory(error))


def jobs_of(tasks: Sequence[EmbedTask]) -> list[EmbeddingJob]:
    """Tasks, for the model."""
    return [EmbeddingJob(task.ids, task.is_per_token, is_raw=task.is_raw) for task in tasks]
