"""Starts engines and servers in processes of their own, and ends them.

An engine reads and answers the messages of `benchmarks.peers.protocol`. A server listens on a port
of the loopback.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from benchmarks import tree
from benchmarks.bench.client import RequestError, ask
from benchmarks.environments import ROOT, WORK, MissingError
from benchmarks.options import Options
from benchmarks.report import Result
from service.files.private_server import HOST, reserved_port

READY_SECONDS = 180.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.02
LOG_LINES = 5


@dataclass(frozen=True)
class Contestant:
    """The command and environment of an engine or server under measurement."""

    name: str  # name of the contestant in tables
    command: Sequence[str]  # command of its process; `{port}` stands for the port of a server
    # environment variables that are added to those of this process
    environment: Mapping[str, str] = field(default_factory=dict)
    # route that answers 200 as soon as a server's models are loaded
    ready_path: str = "/health/ready"


Prepare = Callable[[Options], Contestant]


class Contender:
    """A running process of a contestant."""

    def __init__(self, contestant: Contestant, root: Path = ROOT) -> None:
        self.contestant = contestant
        self.root = root
        self.log = WORK / "logs" / f"{contestant.name}.log"
        self.start()

    @property
    def name(self) -> str:
        return self.contestant.name

    @property
    def pid(self) -> int:
        return self.process.pid

    def command(self) -> Sequence[str]:
        return self.contestant.command

    def start(self, **streams: int) -> None:
        self.began = time.perf_counter()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **self.contestant.environment}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.root,
                env=environment,
                stdin=streams.get("stdin"),
                stdout=streams.get("stdout", log),
                stderr=log,
            )

    def memory(self) -> tree.Memory:
        return tree.memory(self.pid)

    def terminate(self) -> None:
        self.process.terminate()

    def wait(self) -> int:
        """Waits until the process has ended, or kills it; returns the exit status."""
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def stop(self) -> int:
        self.terminate()
        return self.wait()

    def fault(self, reason: str) -> MissingError:
        lines = self.log.read_text("utf-8", errors="replace").splitlines()[-LOG_LINES:]
        shown = " / ".join(line.strip() for line in lines if line.strip())
        return MissingError(f"{self.name}: {reason}: {shown}")


class Server(Contender):
    """A server that is being started; `until_ready` waits for it."""

    def __init__(self, contestant: Contestant, port: int = 0, root: Path = ROOT) -> None:
        self.port = port or free_ports(1)[0]
        super().__init__(contestant, root)

    def command(self) -> Sequence[str]:
        return [word.format(port=self.port) for word in self.contestant.command]

    def until_ready(self) -> Self:
        """Waits until the server answers 200; raises a MissingError if it does not."""
        while get(self.port, self.contestant.ready_path)[0] != 200:
            if self.process.poll() is not None:
                raise self.fault(f"the server ended with status {self.process.returncode}")
            if time.perf_counter() > self.began + READY_SECONDS:
                self.stop()
                raise self.fault(f"the server was not ready in {READY_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        self.ready_seconds = time.perf_counter() - self.began
        return self


def ready_server(contestant: Contestant) -> Server:
    return Server(contestant).until_ready()


class Engine(Contender):
    """A running engine that has loaded its model."""

    def start(self, **_: int) -> None:
        super().start(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._read()

    def run(self) -> float:
        seconds: float = self.ask({"run": 1})["seconds"]
        return seconds

    def figures(self, num_sentences: int) -> dict[str, float]:
        before = tree.cpu_seconds(self.pid)
        seconds = self.run()
        cpu_seconds = tree.cpu_seconds(self.pid) - before
        return {
            "sentences_per_second": num_sentences / seconds,
            "milliseconds": 1000 * seconds / num_sentences,
            "cpu_seconds_per_1000": 1000 * cpu_seconds / num_sentences,
            "pss_mib": self.memory().pss,
        }

    def outputs(self) -> list[str]:
        outputs: list[str] = self.ask({"outputs": True})["outputs"]
        return outputs

    def terminate(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def wait(self) -> int:
        assert self.process.stdout
        status = super().wait()
        self.process.stdout.close()
        return status

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        """Reads a line of the protocol; other lines are skipped."""
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith(b"{"):
                reply: dict[str, Any] = json.loads(line)
                return reply
        self.stop()
        raise self.fault("the engine ended")


C = TypeVar("C", bound=Contender)


@contextmanager
def running(
    start: Callable[[Contestant], C],
    prepares: Mapping[str, Prepare],
    options: Options,
    result: Result,
) -> Iterator[list[C]]:
    """Runs contestants until the context ends; adds a note for each one that cannot start."""
    with ending() as found:
        for name, prepare in prepares.items():
            try:
                found.append(start(prepare(options)))
            except MissingError as error:
                result.notes.append(f"{name} was left out: {error}")
        yield found


@contextmanager
def ending() -> Iterator[list[Any]]:
    """Yields a list of contenders; ends all of them together when the context ends."""
    found: list[Contender] = []
    try:
        yield found
    finally:
        for each in found:
            each.terminate()
        for each in found:
            each.wait()


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        return [held.enter_context(reserved_port()) for _ in range(count)]


def get(port: int, path: str) -> tuple[int, bytes]:
    """Returns status and body of a GET; status 0 if the server cannot be reached."""
    try:
        reply = ask(f"http://{HOST}:{port}", "GET", path)
    except RequestError:
        return 0, b""
    return reply.status, reply.body
