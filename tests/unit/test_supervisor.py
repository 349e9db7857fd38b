"""The supervisor with processes that do nothing: what becomes of those that hang or end."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from model.checkpoints.load import ModelFiles
from model.sequence import EngineLimits
from service.ipc import processes
from service.ipc.channel import pack
from service.ipc.processes import MAX_BACKOFF_SECONDS, Process
from service.metrics.definitions import Metrics
from service.scheduling.admission import Admission
from service.scheduling.scheduler import Scheduler
from service.workers.messages import (
    FromWorker,
    Loaded,
    LoadFailed,
    Ready,
    Report,
    ResidentModel,
    Unloaded,
    WorkerConfig,
)
from service.workers.supervisor import Supervisor
from tests.tiny import tiny_config
from tests.unit.scheduling import begin, sentences, settle

ANY = Path(__file__)  # no worker reads it
FILES = ModelFiles("en", "pt", ANY, ANY, ANY, None, 3.0)
CONFIG = WorkerConfig(
    (FILES,), "cpu", "float32", "auto", EngineLimits(), threads=1, attention_share=0.1
)


class DeafProcess:
    """It holds its end of the socket, reads nothing, and ends only when it is killed."""

    pid = 0

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection.dup()
        self.ended = asyncio.Event()
        self.is_killed = False

    async def wait(self) -> int:
        await self.ended.wait()
        return 0

    def say(self, message: FromWorker) -> None:
        self.connection.sendall(pack(message))

    def end(self) -> None:
        self.connection.close()
        self.ended.set()

    def kill(self) -> None:
        self.is_killed = True
        self.end()


class Starts:
    """A StartWorker of such processes."""

    def __init__(self) -> None:
        self.processes: list[DeafProcess] = []
        self.may_start = asyncio.Event()
        self.may_start.set()

    async def __call__(self, connection: socket.socket, _threads: int) -> Process:
        await self.may_start.wait()
        self.processes.append(DeafProcess(connection))
        return self.processes[-1]


def run(test: Callable[[Supervisor, Starts], Awaitable[None]], count: int = 1) -> None:
    async def main() -> None:
        metrics, starts = Metrics(("en-pt",)), Starts()
        scheduler = Scheduler(("en-pt",), Admission(1, 1), metrics)
        await test(Supervisor(CONFIG, count, scheduler, metrics, starts), starts)

    asyncio.run(main())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.02)


def test_worker_that_does_not_listen_is_killed() -> None:
    """It was waited for without end."""

    async def test(supervisor: Supervisor, starts: Starts) -> None:
        supervisor.start()
        await until(lambda: len(starts.processes) == 2)
        for process in starts.processes:
            process.say(Ready([]))
        await until(lambda: len(supervisor.ready) == 2)
        await supervisor.stop()
        assert [process.is_killed for process in starts.processes] == [True, True]
        assert supervisor.is_stopping
        assert not supervisor.links

    run(test, count=2)


def test_worker_that_loads_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It listens to nothing until it has loaded, and holds nothing that could be lost."""
    monkeypatch.setattr(processes, "STOP_SECONDS", 1000.0)

    async def test(supervisor: Supervisor, starts: Starts) -> None:
        supervisor.start()
        await until(lambda: supervisor.links)
        await supervisor.stop()
        assert starts.processes[0].is_killed

    run(test)


def test_worker_that_is_being_started_at_the_end_is_ended_too() -> None:
    """Nothing told it to stop, as it had no link yet."""

    async def test(supervisor: Supervisor, starts: Starts) -> None:
        starts.may_start.clear()
        supervisor.start()
        await settle()
        stopping = asyncio.create_task(supervisor.stop())
        await settle()
        starts.may_start.set()
        await stopping
        assert all(process.is_killed for process in starts.processes)
        assert all(task.done() for task in supervisor.keeper.tasks)

    run(test)


def test_worker_that_waits_to_be_started_again_is_not_started_at_the_end() -> None:
    async def test(supervisor: Supervisor, starts: Starts) -> None:
        supervisor.start()
        await until(lambda: len(supervisor.links) == 2)
        starts.processes[0].end()
        await until(lambda: len(supervisor.links) == 1)
        await settle()
        await supervisor.stop()
        assert len(starts.processes) == 2
        assert all(task.done() for task in supervisor.keeper.tasks)

    run(test, count=2)


def test_supervisor_that_was_never_started_can_stop() -> None:
    async def test(supervisor: Supervisor, _: Starts) -> None:
        await supervisor.stop()
        assert not supervisor.is_ready

    run(test)


def test_pauses_between_starts_grow_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a thousand failures their doubling was too large a number to compute with."""
    pauses: list[float] = []

    async def fail(_connection: socket.socket, _threads: int) -> Process:
        raise OSError("no more processes")

    async def pause(waiting: Awaitable[object], seconds: float) -> None:
        pauses.append(seconds)
        asyncio.ensure_future(waiting).cancel()
        if len(pauses) == 1100:
            supervisors[0].keeper.stopping.set()
        await asyncio.sleep(0)
        raise TimeoutError

    supervisors: list[Supervisor] = []

    async def test(supervisor: Supervisor, _: Starts) -> None:
        supervisor.start_worker = fail
        supervisors.append(supervisor)
        monkeypatch.setattr(asyncio, "wait_for", pause)
        monkeypatch.setattr(processes.logger, "disabled", True)
        supervisor.start()
        await supervisor.keeper.tasks[0]

    run(test)
    assert pauses[:4] == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_BACKOFF_SECONDS


def test_only_a_worker_that_has_work_and_says_nothing_is_ended() -> None:
    """Not one that reports, nor one that has nothing to do, nor one that loads its models."""

    async def test(supervisor: Supervisor, starts: Starts) -> None:
        supervisor.timeout_seconds = 0.2
        supervisor.start()
        await until(lambda: len(supervisor.links) == 4)
        silent, talking, idle, loading = starts.processes
        model = ResidentModel("en-pt", "cpu", "float32", 0.0, 1, tiny_config())
        for process in (silent, talking):
            process.say(Ready([model]))
        idle.say(Ready([]))
        await until(lambda: len(supervisor.ready) == 3)
        work = begin(supervisor.scheduler, sentences(2))
        async with asyncio.timeout(20):
            while not silent.is_killed:
                talking.say(Report(memory_bytes={"resident": 1}))
                await asyncio.sleep(0.002)
        assert not any(process.is_killed for process in (talking, idle, loading))
        work.cancel()
        await supervisor.stop()

    run(test, count=4)


def test_worker_that_hangs_is_noticed_although_its_requests_time_out() -> None:
    """With their end it has no work, for a while, and so need not say anything."""

    async def test(supervisor: Supervisor, starts: Starts) -> None:
        supervisor.timeout_seconds = 0.2
        supervisor.start()
        await until(lambda: supervisor.links)
        starts.processes[0].say(
            Ready([ResidentModel("en-pt", "cpu", "float32", 0.0, 1, tiny_config())])
        )
        await until(lambda: supervisor.ready)
        async with asyncio.timeout(20):
            while not starts.processes[0].is_killed:
                work = begin(supervisor.scheduler, sentences(1))
                await asyncio.sleep(0.03)
                work.cancel()
                await asyncio.sleep(0.03)
        await supervisor.stop()

    run(test)


def test_model_that_was_unloaded_may_be_gone_for_a_worker_that_still_starts() -> None:
    """It ended the server, for which the model was of no account any more."""

    async def test(supervisor: Supervisor, starts: Starts) -> None:
        supervisor.start()
        await until(lambda: starts.processes)
        await supervisor.unload("en-pt")
        starts.processes[0].say(LoadFailed("en-pt: it is not there", "en-pt"))
        starts.processes[0].end()
        await until(lambda: len(starts.processes) == 2)
        assert supervisor.failure is None
        starts.processes[1].say(Ready([]))
        await until(lambda: supervisor.is_ready)
        await supervisor.stop()

    run(test)


def test_worker_that_starts_with_a_model_of_then_has_not_the_one_of_now() -> None:
    """Of the same name: it went on to answer for the model that had been unloaded."""

    async def test(supervisor: Supervisor, starts: Starts) -> None:
        supervisor.start()
        await until(lambda: len(supervisor.links) == 2)
        resident = ResidentModel("en-pt", "cpu", "float32", 0.1, 8, tiny_config())
        first, second = starts.processes
        first.say(Ready([resident]))
        await until(lambda: supervisor.ready)
        unloading = asyncio.create_task(supervisor.unload("en-pt"))
        first.say(Unloaded("en-pt"))
        await unloading
        loading = asyncio.create_task(supervisor.load(replace(FILES), {}))
        await settle()
        first.say(Loaded(resident))
        await loading
        second.say(Ready([resident]))
        await until(lambda: len(supervisor.ready) == 2)
        seats = {link.name: seat for link, seat in supervisor.scheduler.seats.items()}
        assert [seat.missing for seat in seats.values()] == [set(), {"en-pt"}]
        second.say(Unloaded("en-pt"))
        second.say(Loaded(resident))
        await until(lambda: all(ready.names for ready in supervisor.ready.values()))
        await supervisor.stop()

    run(test, count=2)
