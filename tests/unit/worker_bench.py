"""A worker without a socket, whose models take time by a clock that only the test moves."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from model.architectures.stack import EncoderDecoder
from model.checkpoints.families.sentence_transformers import EmbeddingFiles
from model.checkpoints.load import ModelFiles
from model.encoding.capture_pass import CapturePass, TeacherForcedPass
from model.inspection.query import AttentionJob, AttentionKind, resolve_query
from model.sequence import DecodingOptions, EngineLimits, Finished
from model.sequence import Sequence as SourceSequence
from service.ipc.channel import Channel
from service.items import (
    ATTENTION,
    EMBED,
    TRANSLATE,
    AttentionItem,
    EmbeddingItem,
    TranslationItem,
    WorkItem,
)
from service.settings import Settings
from service.tasks.table import shares
from service.workers.executors import AttentionExecutor
from service.workers.loading import LoadedModel, Loaders
from service.workers.messages import Abort, Compute, ModelSet, Report, WorkerConfig
from service.workers.time_share import TimeShare
from service.workers.worker import Worker
from tests.attention_jobs import random_pairs
from tests.tiny import tiny_config, tiny_model
from tests.workers import EchoEngine, Script

TEXT_SLICE_SECONDS = 0.003
TEXT_SLICES = 3
"""Number of slices of each batch of texts."""

ATTENTION_SLICE_SECONDS = 0.002
POISON = 99
"""Token of a text whose batch fails."""

CPU = torch.device("cpu")
NOWHERE = Path("/nowhere")
PAIRS = random_pairs(6, seed=5, longest=20)


def files(source: str, target: str) -> ModelFiles:
    """Returns the name of a model; the fake engines read no files."""
    return ModelFiles(source, target, NOWHERE, NOWHERE, NOWHERE, None, 3.0)


TRANSLATION_FILES = files("en", "pt"), files("pt", "en")
EMBEDDING_FILES = tuple(EmbeddingFiles(name, NOWHERE, NOWHERE, None) for name in ("tiny", "other"))
MODELS = ModelSet(TRANSLATION_FILES + EMBEDDING_FILES)


def shares_with(attention_share: float = 0.1) -> dict[str, float | None]:
    settings: dict[str, Any] = {"attention_share": attention_share}
    return shares(Settings(**settings))


def sentence(number: int, model: str = "en-pt") -> TranslationItem:
    return TranslationItem(model, [5, 0], DecodingOptions(), id=number)


def text(number: int, model: str = "tiny", length: int = 200, token: int = 5) -> EmbeddingItem:
    return EmbeddingItem(model, [token] * length, id=number)


def pair(number: int, model: str = "en-pt") -> AttentionItem:
    """Returns one of a few sentence pairs."""
    source, target = PAIRS[number % len(PAIRS)]
    query = resolve_query(tiny_config(), [AttentionKind.ENCODER, AttentionKind.CROSS])
    return AttentionItem(model, AttentionJob(source, target, (query,)), id=number)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


class TimedEngine(EchoEngine):
    """Decodes sequences that never finish; admitting and stepping take time of the clock."""

    searches_apart = False

    def __init__(self, clock: Clock) -> None:
        super().__init__(EngineLimits(max_rows=1 << 20), Script())
        self.clock = clock
        self.step_seconds = 0.0
        self.admit_seconds = 0.0
        self.num_steps = 0
        self.low_latency = False

    def admit(self, sequences: Sequence[SourceSequence]) -> None:
        self.clock.now += self.admit_seconds
        super().admit(sequences)

    def step(self, only_searches: bool = False) -> list[Finished]:
        assert not only_searches
        self.num_steps += 1
        self.clock.now += self.step_seconds
        return []


class TimedBatch:
    """A batch of texts; each slice takes TEXT_SLICE_SECONDS of the clock."""

    def __init__(self, bench: "Bench", items: Sequence[EmbeddingItem]) -> None:
        self.bench = bench
        self.items = items
        self.slices_left = TEXT_SLICES

    def advance(self) -> bool:
        self.bench.text_slices += 1
        self.bench.clock.now += TEXT_SLICE_SECONDS
        if any(POISON in item.ids for item in self.items):
            raise self.bench.error
        self.slices_left -= 1
        return self.slices_left > 0

    is_ready = True

    def take_finished(self) -> dict[int, NDArray[np.float32]]:
        return {index: np.zeros(2, np.float32) for index in range(len(self.items))}


class TimedPass(TeacherForcedPass):
    def __init__(self, capture: "TimedCapture", jobs: Sequence[AttentionJob]) -> None:
        super().__init__(capture.model, jobs)
        self.capture = capture

    def advance(self) -> bool:
        self.capture.slices += 1
        self.capture.clock.now += ATTENTION_SLICE_SECONDS
        return super().advance()


class TimedCapture:
    def __init__(self, model: EncoderDecoder, clock: Clock) -> None:
        self.model = model
        self.clock = clock
        self.slices = 0

    def __call__(self, jobs: Sequence[AttentionJob]) -> CapturePass:
        return TimedPass(self, jobs)


class Bench:
    """A worker with two translation and two embedding models.

    Args:
        clock: The clock of the worker.
        attention_share: Share of the time that attention receives beside other work.

    Attributes:
        sent: Reports of the worker.
        engines: Engines of the translation models, by name.
        captures: Attention of the translation models, by name.
        text_slices: Number of slices of all batches of texts.
        error: Error of a batch that has a poisoned text.
        waits: Number of times that the worker waited for messages.
    """

    def __init__(self, clock: Clock, attention_share: float = 0.1) -> None:
        self.clock = clock
        self.sent: list[Report] = []
        self.engines: dict[str, TimedEngine] = {}
        self.captures: dict[str, TimedCapture] = {}
        self.text_slices = 0
        self.error: Exception = RuntimeError("a fault of the device")
        self.model = tiny_model(tiny_config(), seed=1)
        self.waits = 0
        channel = SimpleNamespace(
            send=self.sent.append, has_message=lambda: False, wait=self._count_wait
        )
        loaders: Loaders = {
            ModelFiles: self._load_translation,
            EmbeddingFiles: self._load_embedding,
        }
        self.worker = Worker(cast("Channel", channel), loaders)
        limits, threads = EngineLimits(), torch.get_num_threads()
        config = WorkerConfig(
            MODELS, shares_with(attention_share), "cpu", "float32", "auto", limits, threads
        )
        self.worker._start(config)
        self.sent.clear()  # the Ready
        self.worker.last_report = clock.now

    def _load_translation(self, files: ModelFiles, _config: WorkerConfig) -> LoadedModel:
        engine = self.engines[files.name] = TimedEngine(self.clock)
        capture = self.captures[files.name] = TimedCapture(self.model, self.clock)
        return LoadedModel({TRANSLATE: engine, ATTENTION: capture}, CPU, "float32")

    def _load_embedding(self, _files: EmbeddingFiles, _config: WorkerConfig) -> LoadedModel:
        return LoadedModel({EMBED: lambda items: TimedBatch(self, items)}, CPU, "float32")

    @property
    def engine(self) -> TimedEngine:
        return self.engines["en-pt"]

    @property
    def capture(self) -> TimedCapture:
        return self.captures["en-pt"]

    @property
    def attention(self) -> TimeShare:
        return self.worker.shares[ATTENTION]

    @property
    def embedding(self) -> TimeShare:
        return self.worker.shares[EMBED]

    def send(self, *items: WorkItem) -> None:
        self.worker._take(Compute(items))

    def abort(self, *ids: int) -> None:
        self.worker._take(Abort([*ids]))

    def translate(self, step_seconds: float, rows: int = 4) -> None:
        """Fills rows of the first model with sentences that never finish."""
        self.engine.step_seconds = step_seconds
        self.send(*(sentence(1_000_000 + row) for row in range(rows)))

    def stop_translating(self) -> None:
        self.abort(*self.engine.running)

    def attend_one_by_one(self, numbers: Sequence[int], model: str = "en-pt") -> None:
        """Queues pairs that are captured one after the other, as parts of failed batches are."""
        executor = self.attention.executors[model]
        assert isinstance(executor, AttentionExecutor)
        executor.current.retries.extend([pair(number, model)] for number in numbers)

    def _count_wait(self, *descriptors: int) -> None:
        self.waits += 1

    def loop(self, times: int = 1) -> None:
        for _ in range(times):
            self.worker._compute()
            self.worker._report()

    def finish(self) -> None:
        while not self.worker.is_idle:
            self.loop()
        self.loop()

    def has_low_latency(self) -> bool:
        """Runs the worker's loop; returns whether the first model's step had low latency."""
        self.loop()
        return self.engine.low_latency

    def run_for(self, seconds: float) -> None:
        begin = self.clock.now
        while self.clock.now < begin + seconds:
            self.loop()

    @property
    def done(self) -> list[int]:
        return [done.id for report in self.sent for done in report.done]

    @property
    def failed(self) -> list[int]:
        return [failed.id for report in self.sent for failed in report.failed]

    def total(self, figure: str, model: str) -> int:
        return sum(getattr(report, figure).get(model, 0) for report in self.sent)
