"""CPU time, memory and open descriptors of every process of the server.

The main process reads the figures of its children from /proc when /metrics is scraped. The label
`process` is `main` or the name under which a supervisor runs a child, such as `worker-0`.

Source: proc_pid_stat(5), proc_pid_statm(5), proc_pid_fd(5).
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

MAIN = "main"
USER_TICKS, SYSTEM_TICKS = 11, 12
"""Positions of `utime` and `stime` in /proc/PID/stat, counted after the name of the command."""

Families = tuple[CounterMetricFamily, GaugeMetricFamily, GaugeMetricFamily]


class ProcessMetrics:
    """Figures of the main process and of its running children.

    Args:
        registry: Registry that exposes the figures.
        proc: Folder at which the process file system is mounted.
    """

    def __init__(self, registry: CollectorRegistry, proc: Path = Path("/proc")) -> None:
        self.proc = proc
        self.pids = {MAIN: os.getpid()}
        registry.register(self)

    def watch(self, name: str, pid: int) -> None:
        """Adds a child process; its figures get the label `process` with the value `name`."""
        self.pids[name] = pid

    def forget(self, name: str) -> None:
        """Removes a child that has ended."""
        self.pids.pop(name, None)

    def cpu_seconds(self) -> float:
        """Returns the CPU seconds of the main process and of its running children."""
        used = 0.0
        for pid in [*self.pids.values()]:
            with suppress(FileNotFoundError, ProcessLookupError):  # the process has just ended
                used += cpu_seconds(self.proc / str(pid))
        return used

    def describe(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yields the families without samples; the registry reads their names at registration."""
        yield from _families()

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yields the families with one sample for each process that still exists."""
        families = _families()
        for name, pid in [*self.pids.items()]:
            try:
                self._read(families, name, self.proc / str(pid))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                # The process has ended, or it is ending and its descriptors belong to root.
                continue
        yield from families

    def _read(self, families: Families, name: str, folder: Path) -> None:
        seconds = cpu_seconds(folder)
        pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
        descriptors = len(os.listdir(folder / "fd"))
        cpu, memory, files = families
        cpu.add_metric([name], seconds)
        memory.add_metric([name], pages * os.sysconf("SC_PAGE_SIZE"))
        files.add_metric([name], descriptors)


def cpu_seconds(folder: Path) -> float:
    """Returns the user and system CPU seconds of a process from its folder in /proc."""
    stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    fields = stat.rpartition(")")[2].split()  # a command's name may hold spaces and brackets
    return (int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])) / os.sysconf("SC_CLK_TCK")


def _families() -> Families:
    labels = ("process",)
    return (
        CounterMetricFamily(
            "regard_process_cpu_seconds", "User and system CPU time of a process.", labels=labels
        ),
        GaugeMetricFamily(
            "regard_process_resident_memory_bytes", "Resident memory of a process.", labels=labels
        ),
        GaugeMetricFamily(
            "regard_process_open_fds", "Open file descriptors of a process.", labels=labels
        ),
    )
