"""The device worker: owns the loaded models, receives items, computes them, and reports results.

It runs in a separate process (`python -m service.workers.worker FD`) and imports no HTTP code. It
has no code for particular task kinds: `executors.EXECUTORS` has the executor of each kind.
"""

import logging
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from model.errors import ModelError
from model.precision import select_device
from model.sequence import BatchStats
from service import logs
from service.ipc.channel import Channel
from service.ipc.machine import WORKER_SLICE_SECONDS, freeze_heap, require_linux, set_time_slice
from service.items import Done, Failed
from service.logs import LogFormat
from service.workers.background_load import BackgroundLoads, Outcome
from service.workers.device_memory import (
    OUT_OF_MEMORY,
    free_memory,
    give_back_memory,
    is_fatal,
    is_out_of_memory,
    memory_bytes,
)
from service.workers.executors import EXECUTORS, Executor
from service.workers.loading import LOADERS, LoadedModel, Loaders, load, load_failed
from service.workers.messages import (
    Abort,
    Compute,
    DeviceLost,
    Load,
    Ping,
    Ready,
    Report,
    Resident,
    ToWorker,
    Unload,
    Unloaded,
    WorkerConfig,
)
from service.workers.time_share import TimeShare

logger = logging.getLogger("regard.worker")

REPORT_SECONDS = 0.1
"""While there is work, the worker sends statistics of its batches at this interval."""

BESIDE_SECONDS = 0.005
"""Steps of the foreground kind (translation) stay short for this time after other kinds' work."""


@dataclass(eq=False)
class Worker:
    """Receives messages, computes each task kind for its share of the time, and reports."""

    channel: Channel
    loaders: Loaders = field(default_factory=lambda: LOADERS)
    configure_log: Callable[[str, LogFormat], None] = lambda level, log_format: None
    shares: dict[str, TimeShare] = field(default_factory=dict)
    loads: BackgroundLoads = field(default_factory=BackgroundLoads)
    is_stopping: bool = False
    exit_status: int = 0
    last_report: float = 0.0
    last_beside: float = 0.0  # when a kind other than the foreground kind last had work
    done: list[Done] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    splits: Counter[str] = field(default_factory=Counter)
    out_of_memory: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """Works until the server closes the channel, or the device fails.

        The worker also ends if it cannot load one of the models of its WorkerConfig.
        """
        try:
            (config,) = self.channel.receive()
            self._start(config)
            while not self.is_stopping:
                self._receive()
                self._install()
                self._compute()
                if not self.exit_status:
                    self._report()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            logger.info("the server has closed the channel; the worker ends")

    def _start(self, config: WorkerConfig) -> None:
        self.configure_log(config.log_level, config.log_format)
        torch.set_num_threads(config.threads)
        if config.device.startswith("cuda"):
            # The choice of the GPU holds for one thread. Other threads may load models, but only
            # this thread runs the models.
            with suppress(ModelError):  # the load of each model reports the error
                select_device(config.device)
        else:
            set_time_slice(WORKER_SLICE_SECONDS)  # also of the threads that this one starts
        self.shares = {kind: TimeShare(share) for kind, share in config.shares.items()}
        models = {}
        for files in config.models.files:
            try:
                loaded = load(self.loaders, config.load(files))
            except (ModelError, *OUT_OF_MEMORY) as error:
                self.channel.send(load_failed(files.name, error))
                self.is_stopping = True
                return
            models[files.name] = self._add(files.name, loaded)
        freeze_heap()
        self.channel.send(Ready(models))

    def _add(self, name: str, loaded: LoadedModel) -> Resident:
        for kind, executable in loaded.executables.items():
            self.shares[kind].executors[name] = EXECUTORS[kind](executable, loaded.device)
        return loaded.resident(name)

    def _install(self) -> None:
        outcomes = self.loads.finished()
        while outcomes:
            if not self._settle(*outcomes.pop(0)):
                # The traceback of the error keeps the weights alive until `_settle` returns.
                give_back_memory()

    def _settle(self, name: str, outcome: Outcome) -> bool:
        if isinstance(outcome, Exception):
            logger.error("%s cannot be loaded", name, exc_info=outcome)
            self.channel.send(load_failed(name, outcome))
            return False
        self.channel.send(self._add(name, outcome))
        freeze_heap()
        return True

    def _forget(self, name: str) -> None:
        """Releases a loaded model with all of its items, or drops the load of a model."""
        if not self.loads.drop(name):
            self.last_report = 0.0  # so that the next report includes the model's last statistics
            self._report()
            for share in self.shares.values():
                share.executors.pop(name, None)
            give_back_memory()
        self.channel.send(Unloaded(name))

    @property
    def is_idle(self) -> bool:
        return not any(self.shares.values())

    def _executors(self) -> Iterator[tuple[str, Executor[Any, Any]]]:
        for share in self.shares.values():
            yield from share.executors.items()

    def _receive(self) -> None:
        """Takes the messages that have arrived; waits only when there is nothing to compute."""
        if self.is_idle:
            self.channel.wait(self.loads.fileno())
        while not self.is_stopping and self.channel.has_message():
            for message in self.channel.receive():
                self._take(message)

    def _take(self, message: ToWorker) -> None:
        match message:
            case Compute():
                for item in message.items:
                    self.shares[item.kind].executors[item.model].add((item,))
            case Abort():
                ids = {*message.ids}  # each waiting item is looked up
                for _, executor in self._executors():
                    executor.abort(ids)
            case Load():
                begin = partial(load, self.loaders, message)
                self.loads.begin(message.files.name, begin)
            case Unload():
                self._forget(message.name)
            case Ping():
                self.channel.send(Report())

    def _compute(self) -> None:
        """Computes each task kind for its share of time.

        The credit of a kind is the time for which it may run while other work waits. The time that
        a kind takes increases the credit of all kinds after it in the task table.
        """
        shares = list(self.shares.values())
        for position, share in enumerate(shares):
            if not share:
                continue
            others = shares if share.share is None else shares[:position]
            is_beside = any(other for other in others if other is not share)
            if share.share is None:
                is_beside |= time.monotonic() - self.last_beside < BESIDE_SECONDS
            self.done += share.run(is_beside, self._isolate)
            if share.share is not None:
                self.last_beside = time.monotonic()
            if self.is_stopping:
                return
            for later in shares[position + 1 :]:
                later.earn(share.spent)

    def _isolate(self, name: str, executor: Executor[Any, Any], error: Exception) -> None:
        """Queues a failed batch again in parts; fails an item that was alone in its batch.

        After a fatal error of the device, the worker ends instead. Only a new process can use the
        device again.
        """
        if self.exit_status:  # an earlier error was fatal
            return
        if is_fatal(error):
            logger.critical("%s failed", executor.device, exc_info=error)
            self.is_stopping, self.exit_status = True, 1
            self.channel.send(DeviceLost(str(error).partition("\n")[0]))
            return
        self.out_of_memory[name] += is_out_of_memory(error)
        self.splits[name] += executor.num_running > 1
        logger.warning("a batch of %d failed: %s", executor.num_running, type(error).__name__)
        if is_out_of_memory(error):
            executor.shrink()
        for item in executor.isolate():
            logger.error("%s item %d cannot be computed", item.kind, item.id, exc_info=error)
            self.failed.append(Failed(item.id, type(error).__name__, is_out_of_memory(error)))
        free_memory(executor.device, error)

    def _report(self) -> None:
        now = time.monotonic()
        is_due = now - self.last_report > REPORT_SECONDS or self.is_idle
        # Statistics are sent even before a long batch has results, because the server kills a
        # silent worker.
        has_figures = any(executor or executor.has_stats for _, executor in self._executors())
        if not (self.done or self.failed or (has_figures and is_due)):
            return
        report = Report(done=self.done, failed=self.failed)
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
        self.done, self.failed = [], []

    def _drain_stats(self) -> dict[str, dict[BatchStats, int]]:
        batches: dict[str, dict[BatchStats, int]] = defaultdict(dict)
        for name, executor in self._executors():
            for stats, count in Counter(executor.drain_stats()).items():
                batches[name][stats] = batches[name].get(stats, 0) + count
        return dict(batches)


def main() -> int:
    """Runs a worker on the socket whose file descriptor is the first argument.

    Returns the exit status of the process: 1 after a fatal error of the device, otherwise 0.
    """
    require_linux()
    logs.configure("info", logs.environment_format())  # until the WorkerConfig has arrived
    # The server decides when a worker ends. A signal to the process group must not end the worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        worker = Worker(Channel(connection), configure_log=logs.configure)
        worker.run()
    return worker.exit_status


if __name__ == "__main__":
    sys.exit(main())
