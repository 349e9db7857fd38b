"""Measures and releases the memory of a device worker."""

import ctypes
import gc
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from service.ipc.machine import freeze_heap

OURS = ("model.", "service.", "torch.nn.")
"""Prefixes of the modules whose objects `held_bytes` searches for tensors."""

malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Function of glibc that returns free memory to the system; None in another C library."""


OUT_OF_MEMORY = (torch.OutOfMemoryError, MemoryError)
"""Types of the errors which mean that a device or the machine ran out of memory."""

OUT_OF_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Texts with the same meaning in errors of the type RuntimeError.

CUDA and Triton raise the first text, torch's allocator of a CPU the second, and cuBLAS the third.
"""

DEVICE_ERRORS = ("CUDA error", "CUDA driver error", "Triton Error [CUDA]")
"""Texts in the errors of torch and Triton after a call of CUDA has failed.

Source: c10/cuda/CUDAException.cpp and c10/cuda/driver_api.h of PyTorch; backends/nvidia/driver.c
of Triton 3.7.
"""


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, OUT_OF_MEMORY) or (
        isinstance(error, RuntimeError) and has_any(OUT_OF_MEMORY_TEXTS, error)
    )


def is_fatal(error: Exception) -> bool:
    """Returns whether the error leaves the device unusable for this process."""
    is_of_device = isinstance(error, torch.AcceleratorError) or has_any(DEVICE_ERRORS, error)
    return is_of_device and not is_out_of_memory(error)


def has_any(texts: Sequence[str], error: Exception) -> bool:
    return any(text in str(error) for text in texts)


def free_memory(device: torch.device, error: Exception) -> None:
    """Releases the GPU memory of a failed step and of torch's cache, if memory ran out."""
    if is_out_of_memory(error) and device.type == "cuda":
        traceback.clear_frames(error.__traceback__)  # the frames hold tensors of the step
        torch.cuda.empty_cache()


def memory_bytes() -> dict[str, int]:
    """Returns this process's resident memory and, on a GPU, the memory that torch holds."""
    # A file object would take several times as long, and busy workers report often.
    statm = os.open("/proc/self/statm", os.O_RDONLY)
    pages = int(os.read(statm, 128).split()[1])
    os.close(statm)
    memory = {"resident": pages * os.sysconf("SC_PAGE_SIZE")}
    if torch.cuda.is_available():
        memory["allocated"] = torch.cuda.memory_allocated()
        memory["reserved"] = torch.cuda.memory_reserved()
        memory["peak"] = torch.cuda.max_memory_allocated()
    return memory


def held_bytes(*roots: object) -> int:
    """Returns the bytes of all tensors, arrays and native objects that can be reached from roots.

    Storage that two tensors share is counted once.
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
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value
    elif type(value).__module__.startswith(OURS):
        yield from getattr(value, "__dict__", {}).values()
        names = (name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()))
        yield from (getattr(value, name, None) for name in names)


def give_back_memory() -> None:
    """Releases the memory of a dropped model from Python, the C library and torch."""
    # Python never collects cycles of frozen objects. The heap is therefore thawed first. Then
    # `freeze_heap` collects the cycles, and freezes the heap again.
    gc.unfreeze()
    freeze_heap()
    if malloc_trim is not None:
        malloc_trim(0)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
