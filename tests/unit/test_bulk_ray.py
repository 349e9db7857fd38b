"""Jobs of `regard bulk` whose processes are killed, on one machine and with Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.bulk.folder import OutputFolder, read_totals
from service.bulk.job import Job

NUM_ROWS = 3000
LIMIT_SECONDS = 200.0


def until(condition: Callable[[], bool]) -> None:
    """Waits until another process makes a condition true."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"the condition is not true after {LIMIT_SECONDS:.0f} s"
        time.sleep(0.02)


def start(source: Path, output: Path, *address: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.bulk", str(source), str(output), *address]
    loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # Ray listens on no other interface
    return subprocess.Popen(command, env={**os.environ, **loopback}, **options)


def num_done(folder: OutputFolder) -> int:
    job: Job | None = folder.recorded()
    return 0 if job is None else folder.num_rows_done(job)


def actors(folder: OutputFolder) -> list[int]:
    """Returns the ids of the processes of all actors, of which some have ended."""
    return [int(path.name.split("-")[-2]) for path in folder.journal.glob("actor-*")]


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def kill_at_work(pid: int, folder: OutputFolder) -> None:
    """Kills a process at a moment when rows have been begun and not committed."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: state(pid) == "T")
        if read_totals(folder.journal)["rows_computed"] > num_done(folder):
            os.kill(pid, signal.SIGKILL)
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)


def check_rows(output: Path) -> None:
    data = b"".join(path.read_bytes() for path in sorted(output.glob("part-*")))
    rows = [json.loads(line) for line in data.splitlines()]
    assert [row["id"] for row in rows] == [*range(NUM_ROWS)]
    assert [row["translation"] for row in rows] == [f"LINE {n}" for n in range(NUM_ROWS)]
    assert not OutputFolder(output).work.exists()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"line {number}\n" for number in range(NUM_ROWS)), encoding="utf-8")
    return path


def test_killed_job_has_each_row_exactly_once(source: Path, tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "out")
    with start(source, folder.path) as command:
        until(lambda: num_done(folder) >= 600)
        kill_at_work(command.pid, folder)
    assert 600 <= num_done(folder) < NUM_ROWS
    with start(source, folder.path) as command:
        assert command.wait() == 0
    check_rows(folder.path)
    manifest = json.loads((folder.path / "_manifest.json").read_bytes())
    assert (manifest["num_runs"], manifest["num_actors"]) == (2, 2)
    assert 0 < manifest["recomputed_share"] < 0.5


def test_interrupted_job_says_how_to_continue(source: Path, tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "out")
    with start(source, folder.path, stderr=subprocess.PIPE) as command:
        until(lambda: num_done(folder) >= 100)
        os.kill(command.pid, signal.SIGINT)
        _, errors = command.communicate()
    assert command.returncode == 130
    assert b"run the same command to continue" in errors
    assert b"Traceback" not in errors


@pytest.mark.timeout(600)  # beside other tests Ray may take a minute to start
def test_cluster_replaces_an_actor_that_is_killed(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'regard[ray]'")
    folder = OutputFolder(tmp_path / "out")
    with start(source, folder.path, "local") as command:
        until(lambda: num_done(folder) >= 600)
        (actor,) = actors(folder)
        kill_at_work(actor, folder)
        assert command.wait() == 0
    check_rows(folder.path)
    manifest = json.loads((folder.path / "_manifest.json").read_bytes())
    assert (manifest["num_runs"], manifest["num_actors"]) == (1, 2)
    assert 0 < manifest["recomputed_share"] < 0.5
