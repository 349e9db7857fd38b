"""Memory of a device worker: how much it holds, and what to do when there is none left."""

import os
from pathlib import Path

import torch


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
