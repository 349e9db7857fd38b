"""What the machine has, as far as can be told without torch."""

import gc
import os
from pathlib import Path

MAX_HTTP_WORKERS = 8
"""As many as `http_workers` 0 may become; more have to be asked for."""


YOUNG_OBJECTS = 20_000
"""A collection is due after so many new objects, not after 700: requests under way are some
thousands, and looking through them again and again took some 4 % of the time."""


def freeze_heap() -> None:
    """Has the garbage collector pass over what is there once a process has started, and stays.

    A full collection looked at all of it, and kept requests waiting for some 30 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)


def available_cores() -> int:
    """Whole cores that this process may use: its affinity, less where a cgroup allows fewer.

    `os.cpu_count()` tells of the machine; a container with a quota of two cores on it would
    start a worker for each core of the machine and be throttled to a crawl.
    """
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup v2, or no limit ("max")
        return max(1, cores)


def uses_gpu(device: str) -> bool:
    """Whether the workers will compute on a GPU.

    Args:
        device: auto, cpu, cuda or cuda:N.
    """
    return device.startswith("cuda") or (device == "auto" and Path("/dev/nvidia0").exists())


def device_workers(wanted: int, device: str) -> int:
    """How many device workers there are: as wanted, or for 0 one a core, or one on a GPU."""
    return wanted or (1 if uses_gpu(device) else available_cores())


def http_workers(wanted: int, device: str) -> int:
    """How many processes answer HTTP: as wanted, or for 0 one, or on a GPU half of the cores.

    On a CPU the device workers need the cores, and are slow enough for one process to feed them.
    """
    if wanted:
        return wanted
    return min(MAX_HTTP_WORKERS, max(1, available_cores() // 2)) if uses_gpu(device) else 1
