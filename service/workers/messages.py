"""What the server and a device worker say to each other, over one socket pair.

The server sends lists of messages, so that those of many requests are read as one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from model.checkpoints.families.sentence_transformers import EmbeddingFiles
from model.checkpoints.load import ModelFiles
from model.config import ModelConfig
from model.inspection.query import AttentionJob
from model.sequence import BatchStats, DecodingOptions, EngineLimits, Hypothesis, Sequence
from service.ipc.channel import pickle_by_fields


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Server to worker, first: what to load and how.

    Attributes:
        models: Files of each translation model.
        device: auto, cpu, cuda or cuda:N.
        dtype: auto, or a precision.
        shortlist: auto, on or off.
        limits: Of each model's batch; max_rows 0 lets the device decide.
        threads: Intra-op threads on a CPU.
        attention_share: Of the time, how much goes to attention while there is other work.
        embedders: Files of each embedding model.
        placements: Device and dtype of single models, by folder; empty for those above.
    """

    models: tuple[ModelFiles, ...]
    device: str
    dtype: str
    shortlist: str
    limits: EngineLimits
    threads: int
    attention_share: float
    embedders: tuple[EmbeddingFiles, ...] = ()
    placements: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Of all models."""
        return {files.name for files in self.files}

    @property
    def files(self) -> list[ModelFiles | EmbeddingFiles]:
        """Of all models."""
        return [*self.models, *self.embedders]

    def load(self, files: ModelFiles | EmbeddingFiles) -> "Load":
        """The message that has a worker load one of the models beside its work."""
        folder = files.weights.parent if isinstance(files, ModelFiles) else files.folder
        return Load(files, replace(self.of(folder), models=(), embedders=(), placements={}))

    def plus(
        self,
        files: ModelFiles | EmbeddingFiles,
        placements: Mapping[str, tuple[str, str]],
    ) -> "WorkerConfig":
        """The same with one more model, and where such models are placed."""
        placed = replace(self, placements={**self.placements, **placements})
        if isinstance(files, ModelFiles):
            return replace(placed, models=(*self.models, files))
        return replace(placed, embedders=(*self.embedders, files))

    def without(self, name: str) -> "WorkerConfig":
        """The same less one model."""
        return replace(
            self,
            models=tuple(files for files in self.models if files.name != name),
            embedders=tuple(files for files in self.embedders if files.name != name),
        )

    def of(self, folder: Path) -> "WorkerConfig":
        """The same for the model in a folder, which may have a device and dtype of its own."""
        device, dtype = self.placements.get(str(folder), ("", ""))
        return replace(self, device=device or self.device, dtype=dtype or self.dtype)


@dataclass(frozen=True, slots=True)
class Work:
    """Server to worker: sequences to translate, by model, never more than it has rows free.

    A worker says once, in Ready, how many rows it has; the server counts those that it has
    given out. Messages arrive in order, so that rows freed by an Abort are free for the Work
    that follows it.

    Attributes:
        sequences: By model.
        bulk: Ids of those that others may have to wait for: they are of requests with many.
    """

    sequences: dict[str, list[Sequence]]
    bulk: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AttentionTask:
    """A job that has an id, the server's, unique among these and sequences."""

    id: int
    job: AttentionJob


@dataclass(frozen=True, slots=True)
class Inspect:
    """Server to worker: show attention, by model; a few at a time."""

    tasks: dict[str, list[AttentionTask]]


@dataclass(slots=True)
class EmbedTask:
    """A text whose vector is wanted.

    Attributes:
        id: The server's, unique among these, tasks of attention and sequences.
        ids: Its tokens, as the model reads them.
        is_per_token: Whether the vectors of the tokens are wanted in place of the text's.
        is_raw: Whether the model's closing Normalize is left out.
    """

    id: int
    ids: list[int]
    is_per_token: bool = False
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class Embed:
    """Server to worker: embed texts, by model; some batches at a time."""

    tasks: dict[str, list[EmbedTask]]


@dataclass(frozen=True, slots=True)
class Load:
    """Server to worker: load one more model beside the work; Loaded or LoadFailed answers.

    Attributes:
        files: Of a translation or of an embedding model.
        config: Where and how.
    """

    files: ModelFiles | EmbeddingFiles
    config: WorkerConfig


@dataclass(frozen=True, slots=True)
class Unload:
    """Server to worker: forget a model and whatever is asked of it; Unloaded answers."""

    name: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Server to worker: nobody waits for these sequences or tasks any more."""

    ids: list[int]


@dataclass(frozen=True, slots=True)
class Stop:
    """Server to worker: end now."""


@dataclass(frozen=True, slots=True)
class ResidentModel:
    """A model as the worker loaded it.

    Attributes:
        name: Served name.
        device: Such as `cpu` or `cuda:0`.
        dtype: Such as `float32`.
        load_seconds: From disk to ready, warm-up included.
        max_rows: Rows of its batch.
        config: Its sizes and switches.
        memory_bytes: That it takes: weights, and the state of its rows.
    """

    name: str
    device: str
    dtype: str
    load_seconds: float
    max_rows: int
    config: ModelConfig
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ResidentEmbedder:
    """An embedding model as the worker loaded it; the attributes are those of a ResidentModel."""

    name: str
    device: str
    dtype: str
    load_seconds: float
    memory_bytes: int = 0


Resident = ResidentModel | ResidentEmbedder


@dataclass(frozen=True, slots=True)
class Ready:
    """Worker to server: every model is loaded and warm."""

    models: list[ResidentModel]
    embedders: list[ResidentEmbedder] = field(default_factory=list)

    @property
    def residents(self) -> list[Resident]:
        """All that is loaded."""
        return [*self.models, *self.embedders]

    @property
    def names(self) -> set[str]:
        """Of all that is."""
        return {resident.name for resident in self.residents}

    def plus(self, resident: Resident) -> "Ready":
        """The same with one more."""
        if isinstance(resident, ResidentModel):
            return replace(self, models=[*self.models, resident])
        return replace(self, embedders=[*self.embedders, resident])

    def without(self, name: str) -> "Ready":
        """The same less one."""
        return Ready(
            [model for model in self.models if model.name != name],
            [embedder for embedder in self.embedders if embedder.name != name],
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """Worker to server: the model of a Load is there and warm."""

    resident: Resident


@dataclass(frozen=True, slots=True)
class Unloaded:
    """Worker to server: the model of an Unload is gone, and its memory given back."""

    name: str


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """Worker to server: a model could not be loaded.

    At the start the worker ends with it; of a Load it goes on without.

    Attributes:
        message: Why, with the model's name.
        name: The model's.
        error: The class of an error other than a ModelError, which is a fault, or a lack of
            memory; empty for files that cannot be used, and never will be.
        is_out_of_memory: Whether the device ran out of memory.
    """

    message: str
    name: str = ""
    error: str = ""
    is_out_of_memory: bool = False


@dataclass(slots=True)
class Done:
    """The translations of one sequence."""

    id: int
    hypotheses: list[Hypothesis]


@dataclass(frozen=True, slots=True)
class Inspected:
    """What one task asked for: an AttentionMaps or AttentionTrace for each query."""

    id: int
    results: list[Any]


@dataclass(slots=True)
class Embedded:
    """The vector of one text, or those of its tokens: float32, as bytes, one behind the other.

    A list of 384 floats takes forty times as long to pickle.
    """

    id: int
    vectors: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """One sequence or task could not be computed, alone in its batch.

    Attributes:
        id: Of the sequence or task.
        error: The class of the error.
        is_out_of_memory: Whether the device ran out of memory.
    """

    id: int
    error: str
    is_out_of_memory: bool


@dataclass(frozen=True, slots=True)
class Report:
    """Worker to server: what has happened since the last one.

    Attributes:
        done: Finished sequences.
        failed: Sequences and tasks that failed.
        inspected: Finished tasks of attention.
        embedded: Finished texts.
        batches: How often a model was called for such a batch, by model.
        splits: How often a failing batch was split, by model.
        out_of_memory: How often the device ran out of memory, by model.
        memory_bytes: By kind: resident, allocated, reserved, peak.
    """

    done: list[Done] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    batches: dict[str, dict[BatchStats, int]] = field(default_factory=dict)
    splits: dict[str, int] = field(default_factory=dict)
    out_of_memory: dict[str, int] = field(default_factory=dict)
    memory_bytes: dict[str, int] = field(default_factory=dict)
    inspected: list[Inspected] = field(default_factory=list)
    embedded: list[Embedded] = field(default_factory=list)


ToWorker = WorkerConfig | Work | Inspect | Embed | Abort | Load | Unload | Stop
FromWorker = Ready | LoadFailed | Loaded | Unloaded | Report

for _cls in (BatchStats, DecodingOptions, Done, Embedded, EmbedTask, Hypothesis, Sequence):
    pickle_by_fields(_cls)
