"""Measures the CPU seconds and memory of a process and all its descendants, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Stat:
    """Fields of /proc/PID/stat."""

    parent: int  # id of the parent process
    # CPU time in clock ticks. It includes the ended children for which the process waited.
    ticks: int


@dataclass(frozen=True)
class Memory:
    """Memory of a process tree, in MiB."""

    rss: float  # resident memory. A shared page counts in full for each process that shares it.
    pss: float  # proportional memory. A page that n processes share counts 1/n for each of them.


def parse_stat(text: str) -> Stat:
    """Reads the text of /proc/PID/stat.

    The process name in the text may have spaces and brackets.

    Source: proc_pid_stat(5)
    """
    fields = text.rpartition(")")[2].split()
    return Stat(int(fields[1]), sum(map(int, fields[11:15])))


def parse_rollup(text: str) -> tuple[int, int]:
    """Reads RSS and PSS in KiB from the text of /proc/PID/smaps_rollup."""
    sizes = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            sizes[name] = int(rest.split()[0])
    return sizes["Rss"], sizes["Pss"]


def members(root: int) -> dict[int, Stat]:
    """Returns the Stat of the process `root` and of each running descendant, by process id."""
    stats = {}
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            text = _read(folder / "stat")
            if text:
                stats[int(folder.name)] = parse_stat(text)
    tree = {root: stats[root]} if root in stats else {}
    grew = bool(tree)
    while grew:
        grown = {p: s for p, s in stats.items() if s.parent in tree and p not in tree}
        tree.update(grown)
        grew = bool(grown)
    return tree


def cpu_seconds(root: int) -> float:
    return sum(stat.ticks for stat in members(root).values()) / TICKS


def own_cpu_seconds(pid: int) -> float:
    """Returns the CPU time of one process without its children."""
    return members(pid)[pid].ticks / TICKS


def memory(root: int) -> Memory:
    texts = [_read(PROC / str(pid) / "smaps_rollup") for pid in members(root)]
    sizes = [parse_rollup(text) for text in texts if text]
    return Memory(sum(rss for rss, _ in sizes) / 1024, sum(pss for _, pss in sizes) / 1024)


def resident_mib(pid: int) -> float:
    pages = int((PROC / str(pid) / "statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def command(pid: int) -> str:
    """Returns the command line of a process; "" if the process has ended."""
    return _read(PROC / str(pid) / "cmdline").replace("\0", " ")


def _read(path: Path) -> str:
    """Reads a file; returns "" if the process has ended or belongs to another user."""
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
