"""Runs the load generator, and measures the server's CPU time in the measured window.

In a closed loop, each client sends its next request when its last reply has arrived. In an open
loop, requests are sent at a given rate, whether or not earlier replies have arrived.
"""

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
    """The load on a server. Either `seconds` or `requests` is above 0."""

    # number of connections. An open loop needs a connection for each of the requests that wait for
    # replies at the same time.
    clients: int
    seconds: float = 0.0  # length of the measured window
    warmup: float = 0.0  # seconds of load before the window
    requests: int = 0  # number of requests to send, all of them measured; 0 if `seconds` is given
    rate: float = 0.0  # requests/s of an open loop, sent at random times; 0 for a closed loop
    offset: int = 0  # index of the body that the first request sends

    def arguments(self) -> list[str]:
        """Returns the load generator's arguments. Arguments with default values are left out."""
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
    """The figures of one run of the load generator."""

    requests: int  # number of replies with status 200 in the window
    seconds: float  # length of the window
    rate: float  # replies with status 200 per second
    p50_ms: float  # median latency in milliseconds
    p95_ms: float  # 95th percentile of the latency in milliseconds
    p99_ms: float  # 99th percentile of the latency in milliseconds
    # maps each kind of error to the number of such errors. A kind is a status, `connect`, `closed`,
    # `timeout` or `unsent`.
    errors: dict[str, int]
    server_cpu_seconds: float  # CPU time of the server's process tree in the window
    own_cpu_seconds: float  # CPU time of the load generator in the window
    # bodies of the replies in the order of the requests; empty without `keep_replies`
    replies: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Returns the figures that a benchmark reports, by name.

        If no reply has status 200, the latencies and the server's CPU time are left out.
        """
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
    """Compiles the load generator if it is missing or older than its source."""
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
    """Returns the bodies of requests to /translate, one sentence each."""
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
    """Sends a load to one server and returns the figures."""
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
    """Runs the generator; returns its figures and the server's CPU seconds in the window."""
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
        message = process.stderr.read().strip()
    if process.returncode:
        raise MissingError(message or f"the load generator ended with {process.returncode}")
    return figures, marks["end"] - marks["start"]


def translations(load: Load) -> list[str]:
    return [json.loads(reply)["translatedText"] if reply else "" for reply in load.replies]
