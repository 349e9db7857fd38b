"""The messages between the server and a device worker, over one socket pair, and the model set.

The server sends lists of one message each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from model.config import ModelConfig
from model.sequence import EngineLimits
from service.ipc.channel import pickle_by_fields
from service.items import Done, Failed, WorkItem
from service.logs import LogFormat
from service.metrics.figures import WorkerFigures


class AnyFiles(Protocol):
    """Describes the files of one model, as `ModelFiles` does. A remote model has no files."""

    @property
    def name(self) -> str: ...

    @property
    def folder(self) -> Path:
        """Folder that holds the files; an empty path for a remote model."""

    @property
    def revision(self) -> str:
        """First digits of a checksum of the weights, or of a remote model's name and address."""


@dataclass(frozen=True, slots=True)
class ModelSet:
    """Models, and the devices and dtypes of single models."""

    files: tuple[AnyFiles, ...] = ()  # models of the settings, then models that were loaded later
    # Device and dtype by a model's folder. Without an entry, or for a value "", the settings apply.
    placements: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        return {files.name for files in self.files}

    def with_model(self, files: AnyFiles, placements: Mapping[str, tuple[str, str]]) -> "ModelSet":
        return ModelSet((*self.files, files), {**self.placements, **placements})

    def without(self, name: str) -> "ModelSet":
        """Returns the set without one model, and without the placement of its folder."""
        files = tuple(each for each in self.files if each.name != name)
        folders = {str(each.folder) for each in self.files if each.name == name}
        used = {str(each.folder) for each in files}
        placements = {
            folder: placement
            for folder, placement in self.placements.items()
            if folder not in folders or folder in used
        }
        return replace(self, files=files, placements=placements)

    def placement(self, files: AnyFiles) -> tuple[str, str]:
        return self.placements.get(str(files.folder), ("", ""))


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """First message of the server to a worker: models to load, and settings."""

    models: ModelSet
    # Share of the time of each task kind, in order of precedence; None for translation.
    shares: Mapping[str, float | None]
    device: str
    dtype: str
    shortlist: str
    limits: EngineLimits  # of each model's batch; if `max_rows` is 0, the worker chooses it
    threads: int  # intra-op threads on a CPU
    log_level: str = "info"
    log_format: LogFormat = "text"

    def load(self, files: AnyFiles) -> "Load":
        """Returns the message that loads one of the models, with the model's device and dtype.

        If the model's device is `auto` or `cuda`, a worker with a GPU loads it on this GPU.
        """
        device, dtype = self.models.placement(files)
        if device in {"auto", "cuda"} and self.device.startswith("cuda:"):
            device = self.device
        placed = replace(self, device=device or self.device, dtype=dtype or self.dtype)
        return Load(files, replace(placed, models=ModelSet()))


@dataclass(frozen=True, slots=True)
class Compute:
    """Server to worker: compute items, for which there is capacity."""

    items: Sequence[WorkItem]


@dataclass(frozen=True, slots=True)
class Load:
    """Server to worker: load one more model while other work continues.

    The worker answers with Resident or LoadFailed, unless an Unload drops the model before that.
    """

    files: AnyFiles
    config: WorkerConfig


@dataclass(frozen=True, slots=True)
class Unload:
    """Server to worker: drop a model and all of its items; the worker answers with Unloaded."""

    name: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Server to worker: the results of these items are no longer wanted."""

    ids: list[int]


@dataclass(frozen=True, slots=True)
class Resident:
    """Worker to server: a model is loaded and warm. The answer to a Load, and a part of Ready."""

    name: str
    device: str
    dtype: str
    load_seconds: float  # from reading the files to the end of the warm-up
    memory_bytes: int = 0  # of the weights and of the state of the rows
    max_rows: int = 0  # of the in-flight batch; 0 for a model without such a batch
    config: ModelConfig | None = None  # of a translation model; None for any other model

    @property
    def is_on_gpu(self) -> bool:
        return self.device.startswith("cuda")


@dataclass(frozen=True, slots=True)
class Ready:
    """Worker to server: every model is loaded and warm. The keys are served names."""

    models: dict[str, Resident]


@dataclass(frozen=True, slots=True)
class Unloaded:
    """Worker to server: the model of an Unload is gone.

    If the model was still being loaded, its memory is released after the load has ended.
    """

    name: str


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """Worker to server: a model could not be loaded. At its start, the worker then ends."""

    message: str  # the reason, with the model's name
    name: str = ""
    # Name of the error's class; empty for a ModelError, which means that the files or the device
    # cannot be used.
    error: str = ""
    is_out_of_memory: bool = False


@dataclass(frozen=True, slots=True)
class Report(WorkerFigures):
    """Worker to server: results and counts since the last report."""

    done: list[Done] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ping:
    """Server to worker: send a Report."""


@dataclass(frozen=True, slots=True)
class DeviceLost:
    """Worker to server: the device cannot be used any more; the worker ends after this message."""

    message: str


ToWorker = WorkerConfig | Compute | Abort | Load | Unload | Ping
FromWorker = Ready | LoadFailed | Resident | Unloaded | Report | DeviceLost

pickle_by_fields(Compute)
pickle_by_fields(Report)
