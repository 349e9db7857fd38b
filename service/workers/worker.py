"""The device worker: owns one engine a model, takes work, steps, reports.

It runs in a process of its own (`python -m service.workers.worker FD`) and imports nothing of HTTP.
A test may run the same class in a thread, over a socket pair.
"""

import logging
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from model.engine.engine import Engine
from model.errors import ModelError
from model.sequence import BatchStats, Sequence
from service.ipc.channel import Channel
from service.ipc.machine import freeze_heap
from service.workers.background_load import BackgroundLoads, Outcome, load_timed
from service.workers.device_memory import (
    free_memory,
    give_back_memory,
    is_out_of_memory,
    memory_bytes,
)
from service.workers.executors.attention import InspectionQueue
from service.workers.executors.embedding import EmbeddingQueue
from service.workers.loading import (
    LoadedEmbedder,
    LoadEmbedder,
    LoadEngine,
    Loader,
    embedder_of,
    load_embedder,
    load_failed,
    load_from_files,
    resident_of,
)
from service.workers.messages import (
    Abort,
    AttentionTask,
    Done,
    Embed,
    Embedded,
    EmbedTask,
    Failed,
    Inspect,
    Inspected,
    Load,
    Loaded,
    Ready,
    Report,
    Resident,
    Stop,
    ToWorker,
    Unload,
    Unloaded,
    Work,
    WorkerConfig,
)
from service.workers.time_slicing import EMBEDDING_SHARE, Queue, SideWork

logger = logging.getLogger("regard.worker")

REPORT_SECONDS = 0.1
"""Figures of batches are sent this often while there is work."""

HOLD_ROWS, HOLD_STEPS = 16, 3
"""Beside a batch of at least HOLD_ROWS rows, a result waits while up to so many tokens a row are
decoded for others to be sent with, and the places that they leave are filled together: a message
costs the server and this process about as much as one token of all rows, a millisecond. Where one
step gives more tokens than that, nothing waits."""


class Worker:
    """One loop: receive, admit, step every engine, embed, show some attention, report.

    Args:
        channel: To the server.
        load: Makes the engine of a model.
        load_embedder: Makes an embedding model.
    """

    def __init__(
        self,
        channel: Channel,
        load: LoadEngine = load_from_files,
        load_embedder: LoadEmbedder = load_embedder,
    ) -> None:
        self.channel = channel
        self.loader = Loader(load, load_embedder)
        self.engines: dict[str, Engine] = {}
        self.embedding = SideWork[EmbedTask, Embedded](EMBEDDING_SHARE)
        self.attention = SideWork[AttentionTask, Inspected](0.0)  # until it is told
        self.held: dict[str, dict[int, Sequence]] = defaultdict(dict)
        self.newcomers: dict[str, list[Sequence]] = defaultdict(list)
        self.bulk: set[int] = set()
        self.loads = BackgroundLoads()
        self.is_stopping = False
        self.last_report = 0.0
        self.held_back = 0  # tokens decoded since the first result that is not yet sent
        self.done: list[Done] = []
        self.failed: list[Failed] = []
        self.inspected: list[Inspected] = []
        self.embedded: list[Embedded] = []
        self.splits: Counter[str] = Counter()
        self.out_of_memory: Counter[str] = Counter()

    def run(self) -> None:
        """Works until told to stop, or until the server is gone."""
        try:
            (config,) = self.channel.receive()
            self._start(config)
            while not self.is_stopping:
                self._receive()
                self._install()
                self._step()
                self._embed()
                self._inspect()
                self._report()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            logger.info("the server is gone; the worker ends")
        finally:
            self.loads.close()

    def _start(self, config: WorkerConfig) -> None:
        torch.set_num_threads(config.threads)
        self.attention.share = config.attention_share
        ready = Ready([])
        for files in config.files:
            outcome = load_timed(files.name, partial(self.loader, config.load(files)), ModelError)
            if isinstance(outcome.loaded, Exception):
                self.channel.send(load_failed(outcome.name, outcome.loaded))
                self.is_stopping = True
                return
            ready = ready.plus(self._add(outcome))
        freeze_heap()
        self.channel.send(ready)

    def _add(self, outcome: Outcome) -> Resident:
        """Takes a model that has been loaded into use."""
        name, loaded = outcome.name, outcome.loaded
        assert not isinstance(loaded, Exception)
        if not isinstance(loaded, LoadedEmbedder):
            self.engines[name] = loaded
        own = loaded if isinstance(loaded, LoadedEmbedder) else embedder_of(loaded)
        self.attention.queues[name] = InspectionQueue(own.new_inspection, own.device)
        self.embedding.queues[name] = EmbeddingQueue(own.new_pass, own.device)
        return resident_of(name, loaded, outcome.seconds)

    def _install(self) -> None:
        """Takes models into use that have been loaded beside the work."""
        outcomes = self.loads.finished()
        while outcomes:
            if not self._settle(outcomes.pop(0)):
                give_back_memory()  # now, for the error's frames hold what had been read

    def _settle(self, outcome: Outcome) -> bool:
        """Tells the server of a load; False where there is no model."""
        if isinstance(outcome.loaded, Exception):
            logger.error("%s cannot be loaded", outcome.name, exc_info=outcome.loaded)
            self.channel.send(load_failed(outcome.name, outcome.loaded))
            return False
        self.channel.send(Loaded(self._add(outcome)))
        freeze_heap()
        return True

    def _forget(self, name: str) -> None:
        """Gives up a model of which nothing is asked any more, or that is being loaded."""
        if not self.loads.drop(name):
            self.last_report = 0.0  # its last figures
            self._report()
            for held in (self.engines, self.held, self.newcomers):
                held.pop(name, None)
            for work in (self.embedding, self.attention):
                work.queues.pop(name, None)
            give_back_memory()
        self.channel.send(Unloaded(name))

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to compute."""
        return not (self.is_translating or len(self.embedding) or len(self.attention))

    @property
    def is_translating(self) -> bool:
        """Whether an engine has a sequence."""
        return any(engine.num_rows for engine in self.engines.values())

    def _side_queues(self) -> Iterator[Queue[Any, object]]:
        yield from self.embedding.queues.values()
        yield from self.attention.queues.values()

    def _receive(self) -> None:
        """Takes what has arrived; waits only when there is nothing else to do.

        Newcomers of all messages are encoded together: one alone takes an eighth longer in all.
        """
        if self.is_idle:
            self.channel.wait(self.loads.fileno())
        while not self.is_stopping and self.channel.has_message():
            for message in self.channel.receive():
                self._obey(message)
        if self.newcomers:
            start = time.perf_counter()
            for name, newcomers in self.newcomers.items():
                self._admit(name, newcomers)
            self.newcomers.clear()
            self._earn(time.perf_counter() - start)

    def _obey(self, message: ToWorker) -> None:
        match message:
            case Work():
                for name, sequences in message.sequences.items():
                    self.newcomers[name] += sequences
                self.bulk.update(message.bulk)
            case Inspect():
                for name, tasks in message.tasks.items():
                    self.attention.queues[name].add(tasks)
            case Embed():
                for name, texts in message.tasks.items():
                    self.embedding.queues[name].add(texts)
            case Abort():
                self._abort(message.ids)
            case _:
                self._change(message)

    def _change(self, message: ToWorker) -> None:
        match message:
            case Load():
                self.loads.begin(message.files.name, partial(self.loader, message))
            case Unload():
                self._forget(message.name)
            case Stop():
                self.is_stopping = True

    def _admit(self, name: str, sequences: list[Sequence]) -> None:
        self.held[name].update((sequence.id, sequence) for sequence in sequences)
        try:
            self.engines[name].admit(sequences)
        except Exception as error:
            self._isolate(name, error)

    def _abort(self, ids: list[int]) -> None:
        for name, engine in self.engines.items():
            for sequence_id in ids:
                engine.abort(sequence_id)
                self.held[name].pop(sequence_id, None)
        for name, newcomers in self.newcomers.items():
            self.newcomers[name] = [each for each in newcomers if each.id not in ids]
        self.bulk.difference_update(ids)
        for queue in self._side_queues():
            queue.abort(ids)

    def _step(self) -> None:
        start = time.perf_counter()
        for name, engine in self.engines.items():
            try:
                engine.low_latency = self._is_hurried(name, engine)
                self._take(name, engine)
            except Exception as error:
                self._isolate(name, error)
        self._earn(time.perf_counter() - start)

    def _is_hurried(self, name: str, engine: Engine) -> bool:
        """Whether others wait for the end of its step: other work, or newcomers to a small batch.

        Those of a large one wait longer, are encoded in larger groups, and there is less Python
        around it all: 5 % more requests at 64 clients. Not where it has bulk work: who comes then
        has few sentences, and is not one of many that wait for each other anyway.
        """
        has_others = any(map(len, self._side_queues()))
        has_others |= any(each.num_rows for each in self.engines.values() if each is not engine)
        has_others |= not self.bulk.isdisjoint(self.held[name])
        return has_others or engine.num_rows < HOLD_ROWS

    def _earn(self, seconds: float) -> None:
        """Translations have taken so long, which is what other work gets its share beside."""
        self.embedding.earn(seconds)
        self.attention.earn(seconds)

    def _embed(self) -> None:
        """Computes slices of embeddings, whose time attention earns its share of as well."""
        start = time.perf_counter()
        self.embedded += self.embedding.run(self.is_translating, self._isolate_tasks)
        self.attention.earn(time.perf_counter() - start)

    def _inspect(self) -> None:
        """Computes slices of attention."""
        is_beside = self.is_translating or len(self.embedding) > 0
        self.inspected += self.attention.run(is_beside, self._isolate_tasks)

    def _isolate_tasks(self, name: str, queue: Queue[Any, object], error: Exception) -> None:
        """Has tasks of a batch that failed computed one by one, until the culprit is alone."""
        self.out_of_memory[name] += is_out_of_memory(error)
        self.splits[name] += queue.num_running > 1
        logger.warning("a pass over %d failed: %s", queue.num_running, type(error).__name__)
        free_memory(queue.device, error)
        for task in queue.isolate():
            self._fail(queue.noun, task.id, error)

    def _fail(self, noun: str, work_id: int, error: Exception) -> None:
        """Gives up what failed alone in its batch."""
        logger.error("%s %d cannot be computed", noun, work_id, exc_info=error)
        self.failed.append(Failed(work_id, type(error).__name__, is_out_of_memory(error)))

    def _take(self, name: str, engine: Engine) -> None:
        for finished in engine.step():
            if self.held[name].pop(finished.id, None) is not None:
                self.bulk.discard(finished.id)
                self.done.append(Done(finished.id, finished.hypotheses))

    def _isolate(self, name: str, error: Exception) -> None:
        """Starts all sequences of a batch that failed anew, in halves, until the culprit is alone.

        Decoding gives the same ids again, so that starting anew loses only time. An error that
        the device does not survive ends the process here, and the server starts another.
        """
        engine = self.engines[name]
        groups = self._split(name, list(self.held[name].values()), error)
        while groups:
            group = [sequence for sequence in groups.pop() if sequence.id in self.held[name]]
            try:
                engine.admit(group)
                while engine.num_rows:
                    self._take(name, engine)
                    self._report()  # the server takes one that says nothing for one that hangs
            except Exception as next_error:
                groups += self._split(name, group, next_error)
            self._report()

    def _split(self, name: str, group: list[Sequence], error: Exception) -> list[list[Sequence]]:
        self.engines[name].clear()
        self.out_of_memory[name] += is_out_of_memory(error)
        self.splits[name] += len(group) > 1
        logger.warning("a batch of %d failed: %s", len(group), type(error).__name__)
        free_memory(self.engines[name].model.device, error)
        group = [sequence for sequence in group if sequence.id in self.held[name]]
        if len(group) == 1:
            del self.held[name][group[0].id]
            self._fail("sequence", group[0].id, error)
            return []
        middle = len(group) // 2
        return [half for half in (group[middle:], group[:middle]) if half]

    def _report(self) -> None:
        """Sends results at once or a few together, and figures of batches when they are due."""
        now = time.monotonic()
        is_due = now - self.last_report > REPORT_SECONDS or self.is_idle
        has_figures = any(each.stats for each in self.engines.values())
        # While a long pass is under way too: who says nothing is taken to hang.
        has_figures |= any(len(each) or each.stats for each in self._side_queues())
        if not (self._has_results() or (has_figures and is_due)):
            return
        report = Report(self.done, self.failed, inspected=self.inspected, embedded=self.embedded)
        if is_due:
            self.last_report = now
            report = replace(
                report,
                batches=self._drain_stats(),
                splits=dict(self.splits),
                out_of_memory=dict(self.out_of_memory),
                memory_bytes=memory_bytes(),
            )
            self.splits, self.out_of_memory = Counter(), Counter()
        self.channel.send(report)
        self.done, self.failed, self.inspected, self.embedded = [], [], [], []

    def _drain_stats(self) -> dict[str, dict[BatchStats, int]]:
        batches: dict[str, Counter[BatchStats]] = defaultdict(Counter)
        for queues in (self.engines, self.attention.queues, self.embedding.queues):
            for name, queue in queues.items():
                batches[name].update(Counter(queue.drain_stats()))
        return dict(batches)

    def _has_results(self) -> bool:
        """Whether there are results that need not wait for others."""
        if self.inspected or self.embedded:
            return True
        if not (self.done or self.failed):
            self.held_back = 0
            return False
        self.held_back += max((each.tokens_per_step for each in self.engines.values()), default=0)
        rows = sum(engine.num_rows for engine in self.engines.values())
        return rows < HOLD_ROWS or self.held_back > HOLD_STEPS


def main() -> None:
    """Runs a worker on the socket whose file descriptor is the first argument."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    # The server decides when a worker ends: a signal to the whole group must not cut it short.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        Worker(Channel(connection)).run()


if __name__ == "__main__":
    main()
