"""Child processes: the commands that start them, and their figures from /proc."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import PIPE

import pytest
from prometheus_client import CollectorRegistry

from service.ipc.processes import ChildProcess, module_command
from service.metrics.processes import ProcessMetrics

NAMES = (
    "regard_process_cpu_seconds_total",
    "regard_process_resident_memory_bytes",
    "regard_process_open_fds",
)
CHILD = "print(*range(10**5), flush=True); input()"


@pytest.fixture
def child() -> Iterator[int]:
    """A process that has used some CPU time and waits."""
    command = [sys.executable, "-c", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def read(registry: CollectorRegistry, name: str, process: str) -> float | None:
    return registry.get_sample_value(name, {"process": process})


def test_main_process_and_children_have_their_own_series(child: int) -> None:
    registry = CollectorRegistry()
    processes = ProcessMetrics(registry)
    processes.watch("worker-0", child)
    for name in NAMES:
        for process in ("main", "worker-0"):
            assert (read(registry, name, process) or 0) > 0, (name, process)
    memory = read(registry, NAMES[1], "main") or 0
    assert memory > (read(registry, NAMES[1], "worker-0") or 0) > 1 << 20
    files = read(registry, NAMES[2], "worker-0") or 0
    assert 3 <= files <= len(os.listdir(f"/proc/{child}/fd")) + 1


def test_child_that_has_ended_has_no_series(child: int) -> None:
    registry = CollectorRegistry()
    processes = ProcessMetrics(registry)
    processes.watch("worker-0", 0)  # no process has this id
    processes.watch("worker-1", child)
    processes.forget("worker-1")
    processes.forget("worker-2")
    assert read(registry, NAMES[0], "main") is not None
    for process in ("worker-0", "worker-1"):
        assert [read(registry, name, process) for name in NAMES] == [None, None, None]


def test_child_that_is_ending_has_no_series(child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The descriptors of a process without memory belong to root."""
    listdir = os.listdir

    def refuse(path: str | Path) -> list[str]:
        if f"/{child}/" in str(path):
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    registry = CollectorRegistry()
    ProcessMetrics(registry).watch("worker-0", child)
    monkeypatch.setattr(os, "listdir", refuse)
    assert read(registry, NAMES[0], "main") is not None
    assert read(registry, NAMES[0], "worker-0") is None


GIB = 1 << 30
MEMINFO = "MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\nHugePages_Total: 0\n"
STAT = "anon 1\ninactive_file 200\nactive_file 100\ntotal_inactive_file 20\ntotal_active_file 10\n"


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("membership", "folder", "names", "limit", "expected"),
    [
        ("0::/", "", ("current", "max"), str(2 * GIB), (700, 2 * GIB)),
        ("0::/system.slice/regard.service", "system.slice/regard.service", ("current", "max"),
         str(2 * GIB), (700, 2 * GIB)),
        ("5:cpu:/docker/7\n4:memory:/docker/7\n0::/", "memory",
         ("usage_in_bytes", "limit_in_bytes"), str(2 * GIB), (970, 2 * GIB)),
        ("4:memory:/regard\n0::/", "memory/regard", ("usage_in_bytes", "limit_in_bytes"),
         str(2 * GIB), (970, 2 * GIB)),
        ("0::/", "", ("current", "max"), "max", (2 * GIB, 8 * GIB)),
        ("4:memory:/", "memory", ("usage_in_bytes", "limit_in_bytes"), "9223372036854771712",
         (2 * GIB, 8 * GIB)),
    ],
    ids=["container", "unit", "container, version 1", "group, version 1", "no limit",
         "no limit, version 1"],
)  # fmt: skip
def test_memory_is_that_of_the_container_or_of_the_machine(
    tmp_path: Path,
    membership: str,
    folder: str,
    names: tuple[str, str],
    limit: str,
    expected: tuple[int, int],
) -> None:
    """Pages of files are not in use, because the kernel drops them before it ends a process."""
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    write(proc, {"meminfo": MEMINFO, "self/cgroup": membership})
    used, most = names
    files = {f"memory.{used}": "1000", f"memory.{most}": limit, "memory.stat": STAT}
    write(cgroups / folder, files)
    registry = CollectorRegistry()
    ProcessMetrics(registry, proc, cgroups)
    found = [registry.get_sample_value(f"regard_memory_{name}bytes") for name in ("", "limit_")]
    assert found == [*expected]


def test_memory_of_this_machine_is_known() -> None:
    registry = CollectorRegistry()
    ProcessMetrics(registry)
    used, limit = (registry.get_sample_value(f"regard_memory_{n}bytes") for n in ("", "limit_"))
    assert 1 << 20 < (used or 0) < (limit or 0)


def test_system_without_these_files_has_no_figures_of_memory(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    ProcessMetrics(registry, proc=tmp_path)
    assert registry.get_sample_value("regard_memory_bytes") is None


SCRIPT = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from service.ipc.processes import module_command
sys.exit(subprocess.run([*module_command("service"), "--help"]).returncode)
"""
ROOT = Path(__file__).resolve().parents[2]


def test_folder_of_the_user_does_not_hide_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project may have a folder `service`; the command `regard` is started beside it."""
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "__init__.py").touch()
    (tmp_path / "service" / "__main__.py").write_text("raise SystemExit('the wrong service')")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    command = [sys.executable, "-P", "-c", SCRIPT, str(ROOT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "embedding server" in done.stdout


def test_checkout_that_is_not_installed_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["/somewhere/else"])
    assert "-P" in module_command("service")
    for here in ("", str(tmp_path)):
        monkeypatch.setattr(sys, "path", [here, "/somewhere/else"])
        assert module_command("service") == [sys.executable, "-m", "service"]


def test_process_ends_if_the_server_does_not_wait() -> None:
    """It has closed its channel, but does not exit, as in a driver that hangs."""

    async def start(theirs: socket.socket) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=PIPE)

    async def run() -> int:
        child = await ChildProcess.start(start)
        ending = asyncio.create_task(child.end(60))
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        return await asyncio.wait_for(child.process.wait(), 60)

    assert asyncio.run(run()) != 0
