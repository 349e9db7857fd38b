"""Device workers in threads of the test, with models that echo their input.

The threads run the real `Worker` and the real executors over a real socket pair. Only the engines
and the batches of texts are fakes. The tests of the engine prove which tokens a model chooses.
"""

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from model.checkpoints.families.sentence_transformers import EmbeddingFiles
from model.checkpoints.load import ModelFiles
from model.config import ModelConfig
from model.encoding.capture_pass import CapturePass
from model.engine.engine import Engine
from model.errors import CheckpointError
from model.inspection.query import AttentionJob
from model.precision import Precision
from model.sequence import BatchStats, EngineLimits, Finished, Hypothesis
from model.sequence import Sequence as SourceSequence
from service.ipc.channel import Channel
from service.items import ATTENTION, EMBED, EmbeddingItem
from service.workers.loading import LOADERS, LoadedModel, Loaders, load_embedder, loaded_engine
from service.workers.messages import WorkerConfig
from service.workers.worker import Worker

LIMIT_SECONDS = 60.0
PULSE_SECONDS = 0.002
DEFAULT_ROWS = 8

LoadTranslationModel = Callable[[ModelFiles, WorkerConfig], LoadedModel]
LoadEmbedder = Callable[[EmbeddingFiles, WorkerConfig], LoadedModel]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"the condition is not true after {LIMIT_SECONDS:.0f} s")
        time.sleep(PULSE_SECONDS)


class Died(BaseException):
    """Ends a worker's thread, as a signal ends a process."""


def opened() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass
class Script:
    """Controls the fake models of a test, and records the input that they received.

    Attributes:
        may_load: Until it is set, no model loads.
        may_finish: Until it is set, items stay in their batch; aborts are still taken.
        stuck: Tokens whose sequences never finish.
        num_steps: Number of steps after which an item is finished.
        poison: Tokens that make each step of their batch fail.
        no_memory: Tokens for which a batch of more than one sequence is too large.
        device_errors: Tokens at which the device fails for good; each entry is used once.
        fatal: Tokens at which the worker dies; each entry is used once.
        hanging: Tokens at which the worker hangs until `may_go_on`; each entry is used once.
        may_go_on: Until it is set, a worker at a hanging token waits; then it dies.
        load_error: Error of every load that has no entry in `load_errors` or `failing`.
        load_errors: Errors of the next loads, in order; None for a load that succeeds.
        failing: Errors of loads by name of the model.
        admitted: Every sequence that an engine took, in order.
        embedded: Batches of texts that were begun, in order.
        aborted: Ids of every sequence that was taken out of an engine.
    """

    may_load: threading.Event = field(default_factory=opened)
    may_finish: threading.Event = field(default_factory=opened)
    stuck: set[int] = field(default_factory=set)
    num_steps: int = 2
    poison: set[int] = field(default_factory=set)
    no_memory: set[int] = field(default_factory=set)
    device_errors: list[int] = field(default_factory=list)
    fatal: list[int] = field(default_factory=list)
    hanging: list[int] = field(default_factory=list)
    may_go_on: threading.Event = field(default_factory=threading.Event)
    load_error: CheckpointError | None = None
    load_errors: list[Exception | None] = field(default_factory=list)
    failing: dict[str, Exception] = field(default_factory=dict)
    admitted: list[SourceSequence] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    embedded: list[list[EmbeddingItem]] = field(default_factory=list)

    @property
    def loaders(self) -> Loaders:
        return {ModelFiles: self.load, EmbeddingFiles: self.load_embedder}

    def load(self, files: ModelFiles, config: WorkerConfig) -> LoadedModel:
        error = self.load_errors.pop(0) if self.load_errors else self.load_error
        self._wait(files.name, error)
        rows = config.limits.max_rows or DEFAULT_ROWS
        engine = EchoEngine(replace(config.limits, max_rows=rows), self)
        return loaded_engine(cast("Engine", engine))

    def _wait(self, name: str, error: Exception | None = None) -> None:
        assert self.may_load.wait(LIMIT_SECONDS)
        error = self.failing.get(name, error)
        if error is not None:
            raise error

    def load_embedder(self, files: EmbeddingFiles, _config: WorkerConfig) -> LoadedModel:
        self._wait(files.name)

        def begin_embedding(items: Sequence[EmbeddingItem]) -> EchoBatch:
            self.embedded.append([*items])
            return EchoBatch([item.ids for item in items], self)

        def begin_capture(_jobs: Sequence[AttentionJob]) -> CapturePass:
            raise AssertionError("the fake embedding model has no attention")

        executables = {EMBED: begin_embedding, ATTENTION: begin_capture}
        return LoadedModel(executables, torch.device("cpu"), "float32")

    def reset(self) -> None:
        """Lets what waits go on, and forgets all that a test has scripted and all that came."""
        for event in (self.may_load, self.may_finish, self.may_go_on):
            event.set()
        vars(self).update(vars(Script()))

    def fail_at(self, tokens: set[int]) -> None:
        """Fails, hangs or dies if one of the tokens of a batch is scripted to."""
        for token in tokens.intersection(self.device_errors):
            self.device_errors.remove(token)
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        for token in tokens.intersection(self.fatal):
            self.fatal.remove(token)
            raise Died
        for token in tokens.intersection(self.hanging):
            self.hanging.remove(token)
            assert self.may_go_on.wait(LIMIT_SECONDS)
            raise Died
        if tokens & self.poison:
            raise RuntimeError("a fault of the device")


ECHO_CONFIG = ModelConfig(
    d_model=256,
    num_heads=8,
    ffn_dim=1536,
    encoder_layers=6,
    decoder_layers=2,
    source_vocab_size=32000,
    target_vocab_size=32000,
)
"""Sizes of the built-in models, which the fake engine reports."""


class EchoEngine:
    """Translates each sequence to itself; alternative n leaves the first n tokens out."""

    searches_apart = True

    def __init__(self, limits: EngineLimits, script: Script) -> None:
        self.limits = limits
        self.script = script
        cpu = torch.device("cpu")
        self.model = SimpleNamespace(
            device=cpu,
            precision=Precision.FLOAT32,
            encoder=SimpleNamespace(device=cpu),
            config=ECHO_CONFIG,
        )
        self.runner = SimpleNamespace(shortlist=None, forced_decoder=None)
        self.config = ECHO_CONFIG
        self.clear()

    def clear(self) -> None:
        self.running: dict[int, tuple[SourceSequence, int]] = {}
        self.stats: list[BatchStats] = []

    @property
    def num_rows(self) -> int:
        return sum(sequence.options.beam_size for sequence, _ in self.running.values())

    @property
    def free_rows(self) -> int:
        return self.limits.max_rows - self.num_rows

    def drain_stats(self) -> list[BatchStats]:
        stats, self.stats = self.stats, []
        return stats

    def admit(self, sequences: Sequence[SourceSequence]) -> None:
        assert sum(sequence.options.beam_size for sequence in sequences) <= self.free_rows
        longest = max((len(sequence.source) for sequence in sequences), default=0)
        assert longest <= self.limits.max_source_tokens
        for sequence in sequences:
            self.running[sequence.id] = sequence, 0
            self.script.admitted.append(sequence)
        tokens = sum(len(sequence.source) for sequence in sequences)
        padding = longest * len(sequences) - tokens
        self.stats.append(BatchStats("encode", len(sequences), tokens, padding))

    def abort(self, sequence_id: int) -> bool:
        if self.running.pop(sequence_id, None) is None:
            return False
        self.script.aborted.append(sequence_id)
        return True

    def step(self, only_searches: bool = False) -> list[Finished]:
        if not self.running:
            return []
        self._fail_if_scripted()
        # A short wait only, so that the worker continues to receive aborts.
        may_finish = self.script.may_finish.wait(PULSE_SECONDS)
        self.stats.append(BatchStats("decode", self.num_rows, self.num_rows, 0))
        if not may_finish:
            return []
        for sequence_id, (sequence, steps) in self.running.items():
            if sequence.options.needs_log_probs or not only_searches:
                self.running[sequence_id] = sequence, steps + 1
        ended = [s for s, steps in self.running.values() if steps >= self.script.num_steps]
        done = [sequence for sequence in ended if not self.script.stuck & {*sequence.source}]
        for sequence in done:
            del self.running[sequence.id]
        return [Finished(sequence.id, hypotheses(sequence)) for sequence in done]

    def _fail_if_scripted(self) -> None:
        tokens = {token for sequence, _ in self.running.values() for token in sequence.source}
        if len(self.running) > 1 and tokens & self.script.no_memory:
            raise torch.OutOfMemoryError("tried to allocate more than there is")
        self.script.fail_at(tokens)


@dataclass
class EchoBatch:
    """Embeds each text as three numbers: the number of its ids, the first and the last id."""

    texts: list[list[int]]
    script: Script
    steps: int = 0

    def advance(self) -> bool:
        self.script.fail_at({token for ids in self.texts for token in ids})
        # A short wait only, so that the worker continues to receive aborts.
        self.steps += self.script.may_finish.wait(PULSE_SECONDS)
        return self.steps < self.script.num_steps

    is_ready = True

    def take_finished(self) -> dict[int, NDArray[np.float32]]:
        rows = [[len(ids), ids[0], ids[-1]] for ids in self.texts]
        return {index: np.array(row, dtype=np.float32) for index, row in enumerate(rows)}


def hypotheses(sequence: SourceSequence) -> list[Hypothesis]:
    """Returns the requested number of hypotheses; each token scores -0.5 where scores are on."""
    options = sequence.options
    versions = [sequence.source[rank:] or sequence.source for rank in range(options.num_hypotheses)]
    if options.beam_size == 1 and not options.return_scores:
        return [Hypothesis(tokens) for tokens in versions]
    return [Hypothesis(tokens, [-0.5] * len(tokens), -0.5) for tokens in versions]


class OneThread(Worker):
    """A worker whose models compute with one thread. More wait for each other in busy loops."""

    def _start(self, config: WorkerConfig) -> None:
        super()._start(replace(config, threads=1))


class ThreadWorker:
    """A worker in a thread, on its own descriptor of the socket."""

    pid = os.getpid()

    def __init__(self, connection: socket.socket, loaders: Loaders) -> None:
        self.connection = connection.dup()
        self.worker = OneThread(Channel(self.connection), loaders)
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self) -> None:
        with self.connection, contextlib.suppress(Died):
            self.worker.run()

    async def wait(self) -> int:
        await asyncio.to_thread(self.thread.join)
        return 0

    def kill(self) -> None:
        with contextlib.suppress(OSError):  # it has ended already
            self.connection.shutdown(socket.SHUT_RDWR)


class Threads:
    """A StartWorker that starts threads and records them."""

    def __init__(
        self, load: LoadTranslationModel, load_embedder: LoadEmbedder = load_embedder
    ) -> None:
        self.loaders: Loaders = {**LOADERS, ModelFiles: load, EmbeddingFiles: load_embedder}
        self.started: list[ThreadWorker] = []

    async def __call__(self, connection: socket.socket, _threads: int) -> ThreadWorker:
        self.started.append(ThreadWorker(connection, self.loaders))
        return self.started[-1]
