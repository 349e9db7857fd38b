"""CPU time, memory and open descriptors of every process of the server, and its memory limit.

The main process reads the figures of its children from /proc when /metrics is scraped. The label
`process` is `main` or the name under which a supervisor runs a child, such as `worker-0`.

Source: proc_meminfo(5), cgroups(7).
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

MAIN = "main"
CPU_SECONDS = "regard_process_cpu_seconds"

FILE_PAGES = ("active_file", "inactive_file")
"""Entries of memory.stat with the pages of files, which the kernel drops when it needs memory."""


class ProcessMetrics:
    """Figures of the main process and of its running children."""

    def __init__(
        self,
        registry: CollectorRegistry,
        proc: Path = Path("/proc"),
        cgroups: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self.proc = proc
        self.cgroups = cgroups
        self.collectors: dict[str, ProcessCollector] = {}
        self.watch(MAIN, os.getpid())
        registry.register(self)

    def watch(self, name: str, pid: int) -> None:
        proc = str(self.proc)
        self.collectors[name] = ProcessCollector("regard", lambda: pid, proc, registry=None)

    def forget(self, name: str) -> None:
        self.collectors.pop(name, None)

    def cpu_seconds(self) -> float:
        return sum(figures(each).get(CPU_SECONDS, 0.0) for each in [*self.collectors.values()])

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        labels = ("process",)
        families = (
            CounterMetricFamily(
                CPU_SECONDS, "User and system CPU time of a process.", labels=labels
            ),
            GaugeMetricFamily(
                "regard_process_resident_memory_bytes",
                "Resident memory of a process.",
                labels=labels,
            ),
            GaugeMetricFamily(
                "regard_process_open_fds", "Open file descriptors of a process.", labels=labels
            ),
        )
        for name, collector in [*self.collectors.items()]:
            found = figures(collector)
            if all(each.name in found for each in families):  # the process has not ended
                for each in families:
                    each.add_metric([name], found[each.name])
        yield from families
        used = GaugeMetricFamily(
            "regard_memory_bytes",
            "Memory of the container that the kernel cannot take back. "
            "Without a limit of the container, that of the machine.",
        )
        limit = GaugeMetricFamily(
            "regard_memory_limit_bytes",
            "Memory limit of the container, or the memory of the machine.",
        )
        with suppress(OSError, ValueError, KeyError):
            used_bytes, limit_bytes = memory(self.proc, self.cgroups)
            used.add_metric([], used_bytes)
            limit.add_metric([], limit_bytes)
        yield from (used, limit)


def figures(collector: ProcessCollector) -> dict[str, float]:
    return {each.name: each.samples[0].value for each in collector.collect()}


def memory(proc: Path, cgroups: Path) -> tuple[int, int]:
    """Returns the bytes that are in use, and the bytes at which the kernel ends a process.

    They are those of the server's control group, or those of the machine if no group limits the
    memory. Memory that the kernel can take back is not in use.
    """
    values = _numbers(proc / "meminfo")
    total = values["MemTotal:"] * 1024
    for line in (proc / "self" / "cgroup").read_text("utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":  # a group of version 1
            root, names, prefix = cgroups / "memory", ("usage_in_bytes", "limit_in_bytes"), "total_"
        elif not controllers:
            root, names, prefix = cgroups, ("current", "max"), ""
        else:
            continue
        # A container without a namespace for groups finds its own group at the root.
        for folder in (root / path.lstrip("/"), root):
            with suppress(OSError, ValueError, KeyError):  # another version, or no limit: "max"
                used, limit = (int((folder / f"memory.{n}").read_text("ascii")) for n in names)
                pages = _numbers(folder / "memory.stat")
                if limit < total:
                    return used - sum(pages[prefix + name] for name in FILE_PAGES), limit
    return total - values["MemAvailable:"] * 1024, total


def _numbers(path: Path) -> dict[str, int]:
    """Returns the first number after each name in a file."""
    words = [line.split() for line in path.read_text("ascii").splitlines()]
    return {name: int(number) for name, number, *_ in words}
