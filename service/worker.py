"""The device worker: owns one engine a model, takes work, steps, reports.

It runs in a process of its own (`python -m service.worker FD`) and imports nothing of HTTP. A
test may run the same class in a thread, over a socket pair.
"""

import logging
import os
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from model.checkpoints.build import load_engine
from model.checkpoints.load import ModelFiles
from model.device import select_device
from model.engine import Engine
from model.errors import ModelError
from model.sequence import BatchStats, Sequence
from model.transformer import EncoderDecoder
from service.channel import Channel
from service.inspection_queue import InspectionQueue
from service.machine import freeze_heap
from service.messages import (
    Abort,
    Done,
    Failed,
    Inspect,
    Inspected,
    LoadFailed,
    Ready,
    Report,
    ResidentModel,
    Stop,
    ToWorker,
    Work,
    WorkerConfig,
)

logger = logging.getLogger("regard.worker")

REPORT_SECONDS = 0.1
"""Figures of batches are sent this often while there is work."""

HOLD_ROWS = 16
HOLD_STEPS = 3
"""Beside a batch of at least HOLD_ROWS rows, a result waits while up to so many tokens a row are
decoded for others to be sent with, and the places that they leave are filled together: a message
costs the server and this process about as much as one token of all rows, a millisecond. Where one
step gives more tokens than that, nothing waits."""

MAX_CREDIT_SECONDS = 0.005
"""Time that attention may have saved up, so that it takes no long turn after a quiet while."""

LoadEngine = Callable[[ModelFiles, WorkerConfig], Engine]


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
    """Decodes a few tokens of the smallest and the largest batch, so that kernels exist."""
    limits = engine.limits
    filler = [2] * (limits.max_source_tokens - 1) + [engine.config.eos_id]
    largest = limits.max_batch_tokens // limits.max_source_tokens
    for rows, source in ((1, filler[-8:]), (max(1, min(limits.max_rows, largest)), filler)):
        engine.admit([Sequence(row, source) for row in range(rows)])
        for _ in range(1 + engine.runtime.lag):
            engine.step()  # until the outcome of the first is there
        engine.clear()


class Worker:
    """One loop: receive, admit, step every engine, show some attention, report.

    Args:
        channel: To the server.
        load: Makes the engine of a model.
    """

    def __init__(self, channel: Channel, load: LoadEngine = load_from_files) -> None:
        self.channel = channel
        self.load = load
        self.engines: dict[str, Engine] = {}
        self.inspections: dict[str, InspectionQueue] = {}
        self.attention_share = 0.0  # until it is told
        self.credit = 0.0  # seconds that attention may take
        self.held: dict[str, dict[int, Sequence]] = defaultdict(dict)
        self.newcomers: dict[str, list[Sequence]] = defaultdict(list)
        self.is_stopping = False
        self.last_report = 0.0
        self.held_back = 0  # tokens decoded since the first result that is not yet sent
        self.done: list[Done] = []
        self.failed: list[Failed] = []
        self.inspected: list[Inspected] = []
        self.splits: Counter[str] = Counter()
        self.out_of_memory: Counter[str] = Counter()

    def run(self) -> None:
        """Works until told to stop, or until the server is gone."""
        try:
            (config,) = self.channel.receive()
            self._start(config)
            while not self.is_stopping:
                self._receive()
                self._step()
                self._inspect()
                self._report()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            logger.info("the server is gone; the worker ends")

    def _start(self, config: WorkerConfig) -> None:
        torch.set_num_threads(config.threads)
        self.attention_share = config.attention_share
        resident = []
        for files in config.models:
            start = time.perf_counter()
            try:
                engine = self.load(files, config.of(files.weights.parent))
            except ModelError as error:
                self.channel.send(LoadFailed(f"{files.name}: {error}"))
                self.is_stopping = True
                return
            self.engines[files.name] = engine
            self.inspections[files.name] = InspectionQueue(engine.model)
            device, dtype = str(engine.model.device), str(engine.model.precision)
            seconds = time.perf_counter() - start
            rows = engine.limits.max_rows
            resident.append(ResidentModel(files.name, device, dtype, seconds, rows, engine.config))
        freeze_heap()
        self.channel.send(Ready(resident))

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to compute."""
        return not (self.is_translating or any(map(len, self.inspections.values())))

    @property
    def is_translating(self) -> bool:
        """Whether an engine has a sequence."""
        return any(engine.num_rows for engine in self.engines.values())

    def _receive(self) -> None:
        """Takes what has arrived; waits only when there is nothing else to do.

        Newcomers of all messages are encoded together: one alone takes an eighth longer in all.
        """
        is_waiting = self.is_idle
        while not self.is_stopping and (is_waiting or self.channel.has_message()):
            for message in self.channel.receive():
                self._obey(message)
            is_waiting = False
        for name, newcomers in self.newcomers.items():
            self._admit(name, newcomers)
        self.newcomers.clear()

    def _obey(self, message: ToWorker) -> None:
        if isinstance(message, Work):
            for name, sequences in message.sequences.items():
                self.newcomers[name] += sequences
        elif isinstance(message, Inspect):
            for name, tasks in message.tasks.items():
                self.inspections[name].add(tasks)
        elif isinstance(message, Abort):
            self._abort(message.ids)
        elif isinstance(message, Stop):
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
        for inspection in self.inspections.values():
            inspection.abort(ids)

    def _step(self) -> None:
        start = time.perf_counter()
        for name, engine in self.engines.items():
            try:
                self._take(name, engine)
            except Exception as error:
                self._isolate(name, error)
        share = self.attention_share
        earned = (time.perf_counter() - start) * share / (1 - share)
        self.credit = min(self.credit + earned, MAX_CREDIT_SECONDS)

    def _inspect(self) -> None:
        """Computes slices of attention: one of each model, or its share beside translations."""
        if not self.is_translating:
            self.credit = 0.0
            for name in self._inspected_models():
                self._advance(name)
            return
        while self.credit > 0 and (names := self._inspected_models()):
            # Its turn ends here: credit is often for one slice, and the first would get them all.
            self.inspections[names[0]] = self.inspections.pop(names[0])
            start = time.perf_counter()
            self._advance(names[0])
            self.credit -= time.perf_counter() - start

    def _inspected_models(self) -> list[str]:
        """Models that attention is asked of, whose turn is next first."""
        return [name for name, queue in self.inspections.items() if len(queue)]

    def _advance(self, name: str) -> None:
        queue = self.inspections[name]
        try:
            self.inspected += queue.advance()
        except Exception as error:
            self.out_of_memory[name] += is_out_of_memory(error)
            logger.warning("a pass over %d failed: %s", len(queue.running), type(error).__name__)
            free_memory(queue.model, error)
            for task in queue.isolate():
                self._fail("attention task", task.id, error)

    def _fail(self, noun: str, work_id: int, error: Exception) -> None:
        """Gives up what failed alone in its batch."""
        logger.error("%s %d cannot be computed", noun, work_id, exc_info=error)
        self.failed.append(Failed(work_id, type(error).__name__, is_out_of_memory(error)))

    def _take(self, name: str, engine: Engine) -> None:
        for finished in engine.step():
            if self.held[name].pop(finished.id, None) is not None:
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
        free_memory(self.engines[name].model, error)
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
        has_figures |= any(len(each) or each.stats for each in self.inspections.values())
        if not (self._has_results() or (has_figures and is_due)):
            return
        report = Report(self.done, self.failed, inspected=self.inspected)
        if is_due:
            self.last_report = now
            report = replace(
                report,
                batches={name: Counter(self._drain_stats(name)) for name in self.engines},
                splits=dict(self.splits),
                out_of_memory=dict(self.out_of_memory),
                memory_bytes=memory_bytes(),
            )
            self.splits, self.out_of_memory = Counter(), Counter()
        self.channel.send(report)
        self.done, self.failed, self.inspected = [], [], []

    def _drain_stats(self, name: str) -> list[BatchStats]:
        return self.engines[name].drain_stats() + self.inspections[name].drain_stats()

    def _has_results(self) -> bool:
        """Whether there are results that need not wait for others."""
        if self.inspected:
            return True
        if not (self.done or self.failed):
            self.held_back = 0
            return False
        self.held_back += max(engine.tokens_per_step for engine in self.engines.values())
        rows = sum(engine.num_rows for engine in self.engines.values())
        return rows < HOLD_ROWS or self.held_back > HOLD_STEPS


def is_out_of_memory(error: Exception) -> bool:
    """Whether a device, or the machine, had no memory left."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError)


def free_memory(model: EncoderDecoder, error: Exception) -> None:
    """Has torch give back what it keeps of a GPU's memory, if it was that that ran out."""
    if is_out_of_memory(error) and model.device.type == "cuda":
        torch.cuda.empty_cache()


def memory_bytes() -> dict[str, int]:
    """What this process holds: resident memory, and on a GPU what torch holds of its memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    memory = {"resident": pages * os.sysconf("SC_PAGE_SIZE")}
    if torch.cuda.is_available():
        memory["allocated"] = torch.cuda.memory_allocated()
        memory["reserved"] = torch.cuda.memory_reserved()
        memory["peak"] = torch.cuda.max_memory_allocated()
    return memory


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
