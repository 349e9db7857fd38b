"""Time slices, as the kernel reports them. Each test runs in a thread of its own."""

import ctypes
import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from service.ipc import time_slices
from service.ipc.time_slices import ATTRIBUTES, set_time_slice

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


def test_unknown_machine_has_no_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SYSTEM_CALLS", {})
    assert not set_time_slice(0.05)


def test_refused_slice_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SYSTEM_CALLS", {platform.machine(): 100_000})
    assert not set_time_slice(0.05)
