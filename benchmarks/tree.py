"""What a process and all its descendants use: CPU seconds and memory, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Stat:
    """What is read of /proc/PID/stat; `ticks` includes children that have ended."""

    parent: int
    ticks: int


@dataclass(frozen=True)
class Memory:
    """MiB of a tree.

    Attributes:
        rss: Resident; what processes share is counted once for each.
        pss: Proportional; what n processes share is counted as one nth for each.
    """

    rss: float
    pss: float


def parse_stat(text: str) -> Stat:
    """Reads /proc/PID/stat. The name in it may hold spaces and brackets: see proc_pid_stat(5)."""
    fields = text.rpartition(")")[2].split()
    return Stat(int(fields[1]), sum(map(int, fields[11:15])))


def parse_rollup(text: str) -> tuple[int, int]:
    """KiB of RSS and PSS in /proc/PID/smaps_rollup."""
    sizes = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            sizes[name] = int(rest.split()[0])
    return sizes["Rss"], sizes["Pss"]


def members(root: int) -> dict[int, Stat]:
    """The process and its descendants, as they are now."""
    everyone = {}
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            text = _read(folder / "stat")
            if text:
                everyone[int(folder.name)] = parse_stat(text)
    tree = {root: everyone[root]} if root in everyone else {}
    grew = bool(tree)
    while grew:
        grown = {p: s for p, s in everyone.items() if s.parent in tree and p not in tree}
        tree.update(grown)
        grew = bool(grown)
    return tree


def cpu_seconds(root: int) -> float:
    """CPU time of the tree since it started, children that have ended included."""
    return sum(stat.ticks for stat in members(root).values()) / TICKS


def memory(root: int) -> Memory:
    """Memory of the tree, as it is now."""
    texts = [_read(PROC / str(pid) / "smaps_rollup") for pid in members(root)]
    sizes = [parse_rollup(text) for text in texts if text]
    return Memory(sum(rss for rss, _ in sizes) / 1024, sum(pss for _, pss in sizes) / 1024)


def _read(path: Path) -> str:
    """Empty for a process that has just ended, or is another user's."""
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
