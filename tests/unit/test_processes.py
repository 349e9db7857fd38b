"""The commands that start child processes."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from service.ipc.processes import ChildProcess, module_command

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
