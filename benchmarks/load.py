"""Runs the load generator, and reads the server's CPU time as its window opens and closes."""

import json
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import tree
from benchmarks.environments import ROOT, WORK, MissingError

PROGRAM = WORK / "loadgen"


@dataclass(frozen=True)
class Shape:
    """How a server is loaded; either for some seconds or with so many requests.

    Attributes:
        clients: Connections; of an open loop, more than will ever wait.
        rate: Requests/s of an open loop at random times; 0 is a closed loop.
        offset: The first body.
    """

    clients: int
    seconds: float = 0.0
    warmup: float = 0.0
    requests: int = 0
    rate: float = 0.0
    offset: int = 0

    def arguments(self) -> list[str]:
        """The generator's, those that are not at their default."""
        flags = {
            "--clients": self.clients,
            "--seconds": self.seconds,
            "--warmup": self.warmup,
            "--requests": self.requests,
            "--rate": self.rate,
            "--offset": self.offset,
        }
        words = [word for name, value in flags.items() if value for word in (name, str(value))]
        return [*words, "--poisson"] if self.rate else words


@dataclass(frozen=True)
class Load:
    """What a run gave.

    Attributes:
        requests: Good replies in the window.
        seconds: Length of the window.
        rate: Of these, a second.
        errors: By status, or by `connect`, `closed`, `timeout`, `unsent`.
        server_cpu_seconds: Of the server's tree in the window.
        own_cpu_seconds: Of the generator in the window.
        replies: Bodies by the number of their request, where they were asked for.
    """

    requests: int
    seconds: float
    rate: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    errors: dict[str, int]
    server_cpu_seconds: float
    own_cpu_seconds: float
    replies: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """For a sample; what is of a request is left out where there was none."""
        every = {
            "requests_per_second": self.rate,
            "errors": float(sum(self.errors.values())),
            "client_cpu_share": self.own_cpu_seconds / self.seconds,
        }
        if not self.requests:
            return every
        return every | {
            "p50_ms": self.p50_ms,
            "p95_ms": self.p95_ms,
            "p99_ms": self.p99_ms,
            "cpu_seconds_per_1000": 1000 * self.server_cpu_seconds / self.requests,
        }


def compile_program() -> None:
    """Compiles the generator where it is older than its source.

    Raises:
        MissingError: There is no C compiler, or it fails.
    """
    source = ROOT / "benchmarks" / "loadgen.c"
    if PROGRAM.exists() and PROGRAM.stat().st_mtime > source.stat().st_mtime:
        return
    PROGRAM.parent.mkdir(exist_ok=True)
    command = ["cc", "-O2", "-o", str(PROGRAM), str(source), "-lm"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise MissingError("the load generator needs a C compiler named cc") from error
    except subprocess.CalledProcessError as error:
        raise MissingError(f"{' '.join(command)}: {error.stderr}") from error


def translate_bodies(sentences: Iterable[str], pair: str) -> list[str]:
    """Requests to /translate, one sentence each."""
    source, _, target = pair.partition("-")
    return [
        json.dumps({"q": text, "source": source, "target": target}, ensure_ascii=False)
        for text in sentences
    ]


def run(
    port: int,
    bodies: list[str],
    shape: Shape,
    pid: int,
    keep_replies: bool = False,
    path: str = "/translate",
) -> Load:
    """Loads one server.

    Args:
        port: On the loopback.
        bodies: JSON, one request each, used round robin.
        shape: Of the load.
        pid: The root of the server's process tree.
        keep_replies: Whether bodies of replies are wanted.
        path: Where requests go.

    Raises:
        MissingError: The generator gave up; the message says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        bodies_path, replies_path = Path(folder, "bodies"), Path(folder, "replies")
        bodies_path.write_text("\n".join(bodies) + "\n", "utf-8")
        command = [str(PROGRAM), "--port", str(port), "--path", path]
        command += ["--bodies", str(bodies_path), *shape.arguments()]
        if keep_replies:
            command += ["--replies", str(replies_path)]
        figures, cpu = _watch(command, pid)
        replies = replies_path.read_text("utf-8").split("\n")[:-1] if keep_replies else []
    return Load(
        requests=figures["requests"],
        seconds=figures["seconds"],
        rate=figures["rate"],
        p50_ms=figures["p50_ms"],
        p95_ms=figures["p95_ms"],
        p99_ms=figures["p99_ms"],
        errors=figures["errors"],
        server_cpu_seconds=cpu,
        own_cpu_seconds=figures["own_cpu_seconds"],
        replies=replies,
    )


def _watch(command: list[str], pid: int) -> tuple[dict[str, Any], float]:
    """The generator's figures, and what the tree of `pid` used between `start` and `end`."""
    marks: dict[str, float] = {}
    figures: dict[str, Any] = {}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        for line in process.stdout:
            if line.startswith("{"):
                figures = json.loads(line)
            else:
                marks[line.strip()] = tree.cpu_seconds(pid)
        complaint = process.stderr.read().strip()
    if process.returncode:
        raise MissingError(complaint or f"the load generator ended with {process.returncode}")
    return figures, marks["end"] - marks["start"]


def translations(load: Load) -> list[str]:
    """The text of each reply; empty where there is none."""
    return [json.loads(reply)["translatedText"] if reply else "" for reply in load.replies]
