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


def attributes() -> tuple[int, ...]:
    """The niceness and the slice in ns of this thread."""
    found = ctypes.create_string_buffer(ATTRIBUTES.size)
    number = GET_ATTRIBUTES[platform.machine()]
    assert ctypes.CDLL(None).syscall(number, 0, found, ATTRIBUTES.size, 0) == 0
    _, _, _, niceness, _, slice_ns, *_ = ATTRIBUTES.unpack(found.raw)
    return niceness, slice_ns


def in_thread(call: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def has_slices() -> bool:
    major, minor = (int(part) for part in platform.release().split(".")[:2])
    return (major, minor) >= (6, 12)


@pytest.mark.skipif(not has_slices(), reason="this kernel has no slices of threads")
def test_slice_changes_and_niceness_does_not() -> None:
    def change() -> tuple[int, ...]:
        os.nice(2)
        assert set_time_slice(0.05)
        return attributes()

    niceness, _ = in_thread(attributes)
    assert in_thread(change) == (min(19, niceness + 2), 50_000_000)
    assert in_thread(attributes)[0] == niceness


def test_unknown_machine_has_no_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SYSTEM_CALLS", {})
    assert not set_time_slice(0.05)


def test_refused_slice_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SYSTEM_CALLS", {platform.machine(): 100_000})
    assert not set_time_slice(0.05)
