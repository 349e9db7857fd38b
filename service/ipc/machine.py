"""Finds the platform, cores and GPUs without torch; sets up the heap and slices of a process."""

import ctypes
import gc
import os
import platform
import struct
import sys
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

MAX_HTTP_WORKERS = 8
"""Largest number of HTTP processes that the server chooses if REGARD_HTTP_WORKERS is 0."""

YOUNG_OBJECTS = 100_000
"""Number of new objects after which the garbage collector runs. A thousand requests in progress
consist of as many, and scans after every 700, Python's default, took 4 % of all time."""

PROC = Path("/proc/self/stat")
CUDA_DRIVER = "libcuda.so.1"

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE_BYTES = 1024 * 1024
KEPT_BYTES = 4 * LARGE_BYTES
"""Largest free memory at the end of a heap that glibc keeps for later blocks."""

WORKER_SLICE_SECONDS = 0.1
"""Slice of a device worker on a CPU: the longest that the kernel allows; its default is 1 to 3 ms.
The HTTP process then runs soon after a worker has sent results, and sends new sentences to it."""

# Number of the system call sched_setattr, for each `platform.machine()`.
SYSTEM_CALLS = {"x86_64": 314, "aarch64": 274}
# The structure sched_attr: size, policy, flags, niceness, priority, slice in ns, and four more.
ATTRIBUTES = struct.Struct("=IIQiIQQQII")
KEEP_POLICY = 0x08  # the flag SCHED_FLAG_KEEP_POLICY


def require_linux() -> None:
    if sys.platform != "linux":
        raise SystemExit(
            f"regard: Regard runs on Linux only; this platform is {sys.platform}. "
            "Use the container image or a Linux machine."
        )
    if not PROC.exists():
        raise SystemExit(f"regard: {PROC} does not exist. Regard needs /proc: mount it.")


def freeze_heap() -> None:
    """Collects garbage once, and excludes all remaining objects from later collections.

    Without this call, full collections would scan all objects, and delay requests by some 30 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)


def map_large_blocks() -> None:
    """Lets the C library return each freed block of at least LARGE_BYTES to the system.

    After glibc has freed a block of 25 MB, it would keep up to 50 MB of free memory in each thread.

    Source: mallopt(3).
    """
    with suppress(AttributeError):  # another C library keeps less
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def set_time_slice(seconds: float) -> bool:
    """Sets the slice of the calling thread, and of threads and processes that it starts later.

    If several threads may run, the kernel chooses the thread whose slice would end first. Slices do
    not change the shares of time that threads get.

    Returns whether the kernel accepted the slice. A kernel before 6.12 accepts it, but does not use
    it. A sandbox may refuse the call.

    Source: sched_setattr(2), and kernel/sched/fair.c of Linux.
    """
    number = SYSTEM_CALLS.get(platform.machine())
    if number is None:
        return False
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    nanoseconds = round(seconds * 1e9)
    attributes = ATTRIBUTES.pack(
        ATTRIBUTES.size, 0, KEEP_POLICY, niceness, 0, nanoseconds, 0, 0, 0, 0
    )
    failed: int = ctypes.CDLL(None).syscall(number, 0, attributes, 0)
    return failed == 0


def available_cores() -> int:
    """Returns the number of whole cores that the affinity and the cgroup quota allow, at least 1.

    A container with two of 64 cores would otherwise get 64 workers.
    """
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup v2, or no limit ("max")
        return max(1, cores)


@cache
def num_gpus() -> int:
    """Returns the number of GPUs that CUDA lists; 0 without CUDA's driver or a torch with CUDA.

    Torch is not imported, because the import takes seconds.
    """
    if not has_cuda_build():
        return 0
    try:
        driver = ctypes.CDLL(CUDA_DRIVER)
    except OSError:  # there is no driver
        return 0
    number = ctypes.c_int()
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(number))
    return 0 if failed else number.value


def has_cuda_build() -> bool:
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return False
    return Path(torch.origin).with_name("lib").joinpath("libtorch_cuda.so").exists()


def uses_gpu(device: str) -> bool:
    return device.startswith("cuda") or (device == "auto" and num_gpus() > 0)


def worker_devices(wanted: int, device: str, cores: int) -> list[str]:
    """Returns the device of each device worker, by the settings REGARD_WORKERS and REGARD_DEVICE.

    If `wanted` is 0, there is one worker for each GPU, or for each of the `cores` if models compute
    on the CPU. With cuda, or auto and a GPU, all GPUs are used.
    """
    if not uses_gpu(device):
        return [device] * (wanted or cores)
    gpus = [f"cuda:{number}" for number in range(num_gpus())]
    devices = gpus if gpus and device in {"auto", "cuda"} else [device]
    return [each for each in devices for _ in range(wanted or 1)]


def http_workers(wanted: int, device: str) -> int:
    """Returns the number of processes that answer HTTP, by the setting REGARD_HTTP_WORKERS.

    If `wanted` is 0, it is one process on a CPU. On a GPU, it is one for every two cores, at most
    MAX_HTTP_WORKERS.
    """
    if wanted:
        return wanted
    return min(MAX_HTTP_WORKERS, max(1, available_cores() // 2)) if uses_gpu(device) else 1
