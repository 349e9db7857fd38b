"""The supervisor with processes that do nothing: those that hang or end, and their models."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from model.checkpoints.load import ModelFiles
from model.sequence import EngineLimits, Hypothesis
from service.ipc import processes
from service.ipc.channel import pack
from service.ipc.processes import MAX_BACKOFF_SECONDS, Process
from service.items import Done
from service.scheduling.supervisor import LoadRefusedError, Supervisor
from service.workers.messages import (
    FromWorker,
    LoadFailed,
    ModelSet,
    Ready,
    Report,
    Resident,
    Unloaded,
    WorkerConfig,
)
from tests.tiny import tiny_config
from tests.unit.scheduling import begin, make_scheduler, numbers, sentences, settle

ANY = Path(__file__)  # the processes read no files
FILES = ModelFiles("en", "pt", ANY, ANY, ANY, None, 3.0)
CONFIG = WorkerConfig(ModelSet((FILES,)), {}, "cpu", "float32", "auto", EngineLimits(), threads=1)
RESIDENT = Resident("en-pt", "cpu", "float32", 0.1, max_rows=8, config=tiny_config())
READY = Ready({"en-pt": RESIDENT})
ONE_ROW = Ready({"en-pt": replace(RESIDENT, max_rows=1)})
SECRET = "Rumpelstiltskin"


class DeafProcess:
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
    def __init__(self) -> None:
        self.processes: list[DeafProcess] = []
        self.may_start = asyncio.Event()
        self.may_start.set()

    async def __call__(self, connection: socket.socket, _threads: int) -> Process:
        await self.may_start.wait()
        self.processes.append(DeafProcess(connection))
        return self.processes[-1]


@pytest.fixture
def starts() -> Starts:
    return Starts()


@pytest.fixture
def count() -> int:
    """Number of workers. A test may parametrize it."""
    return 1


@pytest.fixture
def supervisor(count: int, starts: Starts) -> Supervisor:
    scheduler = make_scheduler()
    return Supervisor(CONFIG, ["cpu"] * count, scheduler, scheduler.metrics, starts)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def started(supervisor: Supervisor, starts: Starts, *ready: Ready) -> list[DeafProcess]:
    """Starts all workers; the first of them report the models that they have loaded."""
    supervisor.start()
    await until(lambda: len(supervisor.links) == len(supervisor.devices))
    for process, message in zip(starts.processes, ready, strict=False):
        process.say(message)
    await until(lambda: len(supervisor.ready) == len(ready))
    return starts.processes


@pytest.fixture(autouse=True)
def _short_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.02)


@pytest.mark.parametrize("count", [2])
async def test_worker_that_ignores_a_stop_is_killed(supervisor: Supervisor, starts: Starts) -> None:
    workers = await started(supervisor, starts, Ready({}), Ready({}))
    await supervisor.stop()
    assert [process.is_killed for process in workers] == [True, True]
    assert supervisor.is_stopping
    assert not supervisor.links


async def test_worker_that_loads_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor, starts: Starts
) -> None:
    """It reads no message until it has loaded, and holds no item that could be lost."""
    monkeypatch.setattr(processes, "STOP_SECONDS", 1000.0)
    (worker,) = await started(supervisor, starts)
    await supervisor.stop()
    assert worker.is_killed


async def test_worker_that_is_being_started_at_the_end_is_ended_too(
    supervisor: Supervisor, starts: Starts
) -> None:
    """It has no channel yet that could be closed."""
    starts.may_start.clear()
    supervisor.start()
    await settle()
    stopping = asyncio.create_task(supervisor.stop())
    await settle()
    starts.may_start.set()
    await stopping
    assert all(process.is_killed for process in starts.processes)
    assert all(task.done() for task in supervisor.keeper.tasks)


@pytest.mark.parametrize("count", [2])
async def test_worker_that_waits_to_be_started_again_is_not_started_at_the_end(
    supervisor: Supervisor, starts: Starts
) -> None:
    supervisor.start()
    await until(lambda: len(supervisor.links) == 2)
    starts.processes[0].end()
    await until(lambda: len(supervisor.links) == 1)
    await settle()
    await supervisor.stop()
    assert len(starts.processes) == 2
    assert all(task.done() for task in supervisor.keeper.tasks)


async def test_supervisor_that_was_never_started_can_stop(supervisor: Supervisor) -> None:
    await supervisor.stop()
    assert not supervisor.is_ready


async def test_pauses_between_starts_grow_up_to_a_bound(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a thousand failures, the doubled pause would be too large for a float."""
    pauses: list[float] = []

    async def fail(_connection: socket.socket, _threads: int) -> Process:
        raise OSError("no more processes")

    async def pause(waiting: Awaitable[object], seconds: float) -> None:
        pauses.append(seconds)
        asyncio.ensure_future(waiting).cancel()
        if len(pauses) == 1100:
            supervisor.keeper.stopping.set()
        await asyncio.sleep(0)
        raise TimeoutError

    supervisor.start_worker = fail
    monkeypatch.setattr(asyncio, "wait_for", pause)
    monkeypatch.setattr(processes.logger, "disabled", True)
    supervisor.start()
    await supervisor.keeper.tasks[0]
    assert pauses[:4] == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_BACKOFF_SECONDS


@pytest.mark.parametrize("count", [4])
async def test_only_a_silent_worker_with_work_is_ended(
    supervisor: Supervisor, starts: Starts
) -> None:
    """A worker that reports, or is idle, or loads its models goes on."""
    supervisor.timeout_seconds = 0.2
    workers = await started(supervisor, starts, ONE_ROW, ONE_ROW, Ready({}))
    silent, talking, idle, loading = workers
    work = begin(supervisor.scheduler, sentences(2))
    async with asyncio.timeout(20):
        while not silent.is_killed:
            talking.say(Report(memory_bytes={"resident": 1}))
            await asyncio.sleep(0.002)
    assert not any(process.is_killed for process in (talking, idle, loading))
    work.cancel()
    await supervisor.stop()


async def test_worker_that_hangs_is_noticed_although_its_requests_time_out(
    supervisor: Supervisor, starts: Starts
) -> None:
    """Without requests it has no work for a while, and need not report."""
    supervisor.timeout_seconds = 0.2
    (worker,) = await started(supervisor, starts, ONE_ROW)
    async with asyncio.timeout(20):
        while not worker.is_killed:
            work = begin(supervisor.scheduler, sentences(1))
            await asyncio.sleep(0.03)
            work.cancel()
            await asyncio.sleep(0.03)
    await supervisor.stop()


async def test_starting_worker_may_fail_to_load_a_model_that_was_unloaded(
    supervisor: Supervisor, starts: Starts
) -> None:
    """The server goes on: it does not serve the model any more."""
    supervisor.start()
    await until(lambda: starts.processes)
    await supervisor.unload("en-pt")
    starts.processes[0].say(LoadFailed("en-pt: it is not there", "en-pt"))
    starts.processes[0].end()
    await until(lambda: len(starts.processes) == 2)
    assert supervisor.failure is None
    starts.processes[1].say(Ready({}))
    await until(lambda: supervisor.is_ready)
    await supervisor.stop()


@pytest.mark.parametrize("count", [2])
async def test_worker_that_started_with_an_earlier_model_of_the_same_name_loads_the_new_one(
    supervisor: Supervisor, starts: Starts
) -> None:
    """It must not go on to serve the model that was unloaded."""
    first, second = await started(supervisor, starts, READY)
    unloading = asyncio.create_task(supervisor.unload("en-pt"))
    await settle()
    first.say(Unloaded("en-pt"))
    await unloading
    loading = asyncio.create_task(supervisor.load(replace(FILES), {}))
    await settle()
    first.say(RESIDENT)
    await loading
    second.say(READY)
    await until(lambda: len(supervisor.ready) == 2)
    assert [[*each.max_rows] for each in supervisor.scheduler.workers.values()] == [["en-pt"], []]
    second.say(Unloaded("en-pt"))
    second.say(RESIDENT)
    await until(lambda: all(supervisor.ready.values()))
    await supervisor.stop()


async def test_each_worker_computes_on_its_own_device(starts: Starts) -> None:
    """A model that is loaded later goes to the same device; all devices are listed."""
    scheduler = make_scheduler()
    devices = ["cuda:0", "cuda:1"]
    supervisor = Supervisor(CONFIG, devices, scheduler, scheduler.metrics, starts)
    ready = [Ready({"en-pt": replace(RESIDENT, device=device)}) for device in devices]
    await started(supervisor, starts, *ready)
    assert [link.config.device for link in supervisor.links] == devices
    found = supervisor.resident_models()["en-pt"]
    assert sorted(each.device for each in found) == devices
    await supervisor.stop()


@pytest.mark.parametrize("method", ["report", "worker_loaded"])
async def test_fault_of_the_server_does_not_end_a_worker(
    method: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    supervisor: Supervisor,
    starts: Starts,
) -> None:
    """The worker goes on with its other work. A load that waits for the answer ends."""
    (process,) = await started(supervisor, starts, READY)
    work = begin(supervisor.scheduler, sentences(1))
    await settle()

    def fail(*_: object) -> None:
        raise ValueError(SECRET)

    with monkeypatch.context() as patched:
        patched.setattr(supervisor.scheduler, method, fail)
        if method == "report":
            process.say(Report())
            await until(lambda: caplog.text)
        else:
            loading = asyncio.create_task(supervisor.load(replace(FILES, target="de"), {}))
            await settle()
            process.say(replace(RESIDENT, name="en-de"))
            await until(lambda: "en-de" not in supervisor.files)
            process.say(Unloaded("en-de"))
            with pytest.raises(LoadRefusedError):
                await loading
    (number,) = next(iter(supervisor.scheduler.workers.values())).held
    process.say(Report(done=[Done(number, [Hypothesis([2, 0])])]))
    assert numbers(await work) == [2]
    assert len(starts.processes) == 1
    assert "ValueError" in caplog.text
    assert SECRET not in caplog.text
    await supervisor.stop()


async def test_worker_whose_models_cannot_be_recorded_is_started_again(
    monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor, starts: Starts
) -> None:
    """It would get no work, although it looks ready."""

    def fail(*_: object) -> None:
        raise ValueError

    supervisor.start()
    await until(lambda: starts.processes)
    with monkeypatch.context() as patched:
        patched.setattr(supervisor.scheduler, "worker_ready", fail)
        starts.processes[0].say(READY)
        await until(lambda: len(starts.processes) == 2)
    starts.processes[1].say(READY)
    await until(lambda: supervisor.ready)
    await supervisor.stop()
