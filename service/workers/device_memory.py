"""Memory of a device worker: how much it holds, and what to do when there is none left."""

import ctypes
import gc
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from service.ipc.machine import freeze_heap

OURS = ("model.", "service.", "torch.nn.")
"""Modules whose objects are looked into for what they hold."""

malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Only glibc has it."""


def is_out_of_memory(error: Exception) -> bool:
    """Whether a device, or the machine, had no memory left."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError)


def free_memory(device: torch.device, error: Exception) -> None:
    """Has torch give back what it keeps of a GPU's memory, if it was that that ran out."""
    if is_out_of_memory(error) and device.type == "cuda":
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


def held_bytes(*roots: object) -> int:
    """Memory of all tensors and arrays that objects hold: weights, and the state of rows.

    What two of them share is counted once. Not counted is what CUDA graphs keep for themselves.
    """
    sizes: dict[int, int] = {}
    native_bytes = 0
    seen: set[int] = set()
    waiting = [*roots]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            storage = value.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
        elif isinstance(value, np.ndarray):
            sizes.setdefault(value.ctypes.data, value.nbytes)
        else:
            native_bytes += getattr(value, "native_bytes", 0)
            waiting.extend(parts_of(value))
    return sum(sizes.values()) + native_bytes


def parts_of(value: object) -> Iterator[object]:
    """What an object of ours, or a container, consists of."""
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value
    elif type(value).__module__.startswith(OURS):
        yield from getattr(value, "__dict__", {}).values()
        names = (name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()))
        yield from (getattr(value, name, None) for name in names)


def give_back_memory() -> None:
    """Has Python, the C library and torch give back what a model has left behind."""
    gc.unfreeze()  # cycles among what was there at the start would never be found
    freeze_heap()
    if malloc_trim is not None:
        malloc_trim(0)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
