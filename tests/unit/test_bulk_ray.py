"""Jobs of `regard bulk` with Ray, whose processes are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service.bulk.folder import OutputFolder
from service.bulk.job import Job
from service.bulk.journal import read_totals

NUM_ROWS = 3000
LIMIT_SECONDS = 200.0


def until(condition: Callable[[], bool]) -> None:
    """Waits until another process makes a condition true."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"the condition is not true after {LIMIT_SECONDS:.0f} s"
        time.sleep(0.02)


def start(source: Path, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.bulk", str(source), str(output)]
    # The address of a cluster that is gone, as a crashed Ray leaves it, does not disturb the job.
    return subprocess.Popen(command, env={**os.environ, "RAY_ADDRESS": "127.0.0.1:9"})


def num_done(folder: OutputFolder) -> int:
    """Returns the number of committed rows of a job that may not have begun."""
    job: Job | None = folder.recorded()
    return 0 if job is None else folder.num_rows_done(job)


def actors(folder: OutputFolder) -> list[int]:
    """Returns the ids of the processes of all actors, of which some have ended."""
    return [int(path.name.split("-")[-2]) for path in folder.journal.glob("actor-*")]


def state(pid: int) -> str:
    """Returns the state of a process as one letter; Z for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def kill_at_work(pid: int, folder: OutputFolder) -> None:
    """Kills a process at a moment when rows have been begun and not committed."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: state(pid) == "T")
        if read_totals(folder.journal).rows_computed > num_done(folder):
            os.kill(pid, signal.SIGKILL)
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)


@pytest.mark.timeout(900)  # Ray starts three times; beside other tests each start takes a minute
def test_killed_job_has_each_row_exactly_once(tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("".join(f"line {number}\n" for number in range(NUM_ROWS)), encoding="utf-8")
    folder = OutputFolder(output)
    with start(source, output) as command:
        until(lambda: num_done(folder) >= 600)
        os.kill(command.pid, signal.SIGKILL)
    (first,) = actors(folder)
    until(lambda: state(first) == "Z")  # an actor ends with its command
    done = num_done(folder)
    assert 600 <= done < NUM_ROWS
    with start(source, output) as command:
        until(lambda: num_done(folder) >= done + 600)
        (second,) = {*actors(folder)} - {first}
        kill_at_work(second, folder)
        assert command.wait() == 0
    data = b"".join(path.read_bytes() for path in sorted(output.glob("part-*")))
    rows = [json.loads(line) for line in data.splitlines()]
    assert [row["id"] for row in rows] == [*range(NUM_ROWS)]
    assert [row["translation"] for row in rows] == [f"LINE {n}" for n in range(NUM_ROWS)]
    manifest = json.loads((output / "_manifest.json").read_bytes())
    assert (manifest["num_runs"], manifest["num_actors"]) == (2, 3)
    assert 0 < manifest["recomputed_share"] < 0.5
    assert not folder.work.exists()
