import ctypes
import gc
import importlib
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from service.ipc import machine
from service.ipc.machine import (
    ATTRIBUTES,
    available_cores,
    freeze_heap,
    http_workers,
    num_gpus,
    require_linux,
    set_time_slice,
    uses_gpu,
    worker_devices,
)


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("250000 100000", 2),
        ("50000 100000", 1),
        ("9900000 100000", 8),
        ("nonsense", 8),
        (None, 8),
    ],
)
def test_cores_are_those_that_the_container_may_use(
    quota: str | None, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_text(path: Path, encoding: str) -> str:
        assert str(path) == "/sys/fs/cgroup/cpu.max"
        if quota is None:
            raise FileNotFoundError
        return f"{quota}\n"

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(8)})
    assert available_cores() == cores


class FakeDriver:
    """The driver of CUDA on a machine with some GPUs."""

    def __init__(self) -> None:
        self.number = 0
        self.error = 0

    def cuInit(self, _flags: int) -> int:
        return self.error

    def cuDeviceGetCount(self, place: Any) -> int:
        place._obj.value = self.number
        return 0


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    driver = FakeDriver()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    monkeypatch.setattr(machine, "has_cuda_build", lambda: True)
    num_gpus.cache_clear()
    yield driver
    num_gpus.cache_clear()


@pytest.mark.parametrize(
    ("device", "has_gpu", "expected"),
    [
        ("auto", True, True),
        ("auto", False, False),
        ("cpu", True, False),
        ("cuda", False, True),
        ("cuda:1", False, True),
    ],
)
def test_gpu_is_used_where_there_is_one_or_it_is_asked_for(
    device: str, has_gpu: bool, expected: bool, gpus: FakeDriver
) -> None:
    gpus.number = int(has_gpu)
    assert uses_gpu(device) == expected


def test_gpus_are_those_that_cuda_lists(gpus: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus.number = 3
    assert num_gpus() == 3
    gpus.error = 100  # CUDA_ERROR_NO_DEVICE
    num_gpus.cache_clear()
    assert num_gpus() == 0
    monkeypatch.undo()
    monkeypatch.setattr(machine, "has_cuda_build", lambda: True)
    monkeypatch.setattr(machine, "CUDA_DRIVER", "libno-such-library.so")
    num_gpus.cache_clear()
    assert num_gpus() == 0


def test_torch_without_cuda_has_no_gpu(
    gpus: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A machine may have a driver, and an installation for CPUs."""
    gpus.number = 1
    monkeypatch.undo()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: gpus)
    package = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(machine, "find_spec", lambda name: package)
    assert num_gpus() == 0
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libtorch_cuda.so").touch()
    num_gpus.cache_clear()
    assert num_gpus() == 1


@pytest.mark.parametrize(
    ("wanted", "device", "cores", "expected"),
    [
        (0, "cpu", 16, 1),
        (0, "cuda", 16, 8),
        (0, "cuda", 64, 8),
        (0, "cuda", 5, 2),
        (0, "cuda", 1, 1),
        (3, "cpu", 2, 3),
        (12, "cuda", 2, 12),
        (1, "cuda", 16, 1),
    ],
)
def test_http_workers_are_as_asked_for_or_fit_the_machine(
    wanted: int, device: str, cores: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "available_cores", lambda: cores)
    assert http_workers(wanted, device) == expected


@pytest.mark.parametrize(
    ("num_gpus", "wanted", "device", "expected"),
    [
        (2, 0, "cpu", 6 * ["cpu"]),
        (2, 2, "cpu", 2 * ["cpu"]),
        (2, 0, "auto", ["cuda:0", "cuda:1"]),
        (2, 0, "cuda", ["cuda:0", "cuda:1"]),
        (2, 0, "cuda:1", ["cuda:1"]),
        (2, 2, "cuda", ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]),
        (0, 0, "auto", 6 * ["auto"]),
        (0, 0, "cuda", ["cuda"]),  # its worker reports that there is no such device
    ],
)
def test_each_core_or_each_gpu_gets_the_wanted_workers(
    num_gpus: int, wanted: int, device: str, expected: list[str], gpus: FakeDriver
) -> None:
    gpus.number = num_gpus
    assert worker_devices(wanted, device, 6) == expected


def test_another_platform_is_refused_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    require_linux()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SystemExit, match="runs on Linux only; this platform is darwin"):
        require_linux()


def test_missing_proc_is_refused_with_a_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "PROC", tmp_path / "stat")
    with pytest.raises(SystemExit, match="Regard needs /proc"):
        require_linux()


@pytest.mark.parametrize("module", ["service.workers.worker", "service.http_workers.http_worker"])
def test_child_process_checks_the_platform_first(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SystemExit, match="Linux only"):
        importlib.import_module(module).main()


def test_what_is_there_after_the_start_is_collected_no_more() -> None:
    gc.unfreeze()  # the tests run with a frozen heap
    freeze_heap()
    assert gc.get_freeze_count() > 10_000


LARGE_BLOCKS = """
import threading
from pathlib import Path
from service.ipc.machine import map_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) >> 8  # MiB

def use():
    for size in (25, 24) * 3:
        block = bytearray(size << 20)
        del block

map_large_blocks()
start = resident()
everything = threading.Barrier(4)
threads = [threading.Thread(target=lambda: (use(), everything.wait(), everything.wait()))
           for _ in range(3)]
for thread in threads:
    thread.start()
everything.wait()
print(resident() - start)
everything.wait()
"""


def test_large_blocks_are_given_back() -> None:
    """glibc would keep a block of each thread, 75 MiB in all."""
    done = subprocess.run(
        [sys.executable, "-c", LARGE_BLOCKS], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 20


T = TypeVar("T")

GET_ATTRIBUTES = {"x86_64": 315, "aarch64": 275}


def slice_ns() -> int:
    """The slice of this thread."""
    found = ctypes.create_string_buffer(ATTRIBUTES.size)
    number = GET_ATTRIBUTES[platform.machine()]
    assert ctypes.CDLL(None).syscall(number, 0, found, ATTRIBUTES.size, 0) == 0
    return int(ATTRIBUTES.unpack(found.raw)[5])


def in_thread(call: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def has_slices() -> bool:
    major, minor = (int(part) for part in platform.release().split(".")[:2])
    return (major, minor) >= (6, 12)


@pytest.mark.skipif(not has_slices(), reason="Linux before 6.12 does not keep or report a slice")
def test_kernel_keeps_the_slice() -> None:
    def change() -> int:
        assert set_time_slice(0.05)
        return slice_ns()

    assert in_thread(change) == 50_000_000


def test_niceness_stays() -> None:
    def change() -> int:
        before = os.nice(2)
        set_time_slice(0.05)
        return os.getpriority(os.PRIO_PROCESS, 0) - before

    assert in_thread(change) == 0


def test_unknown_machine_or_refused_slice_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for calls in ({}, {platform.machine(): 100_000}):
        monkeypatch.setattr(machine, "SYSTEM_CALLS", calls)
        assert not set_time_slice(0.05)
