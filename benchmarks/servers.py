"""Starts servers for measurement: Regard, and each peer in two modes.

A peer is an engine other than Regard. `benchmarks.peers.server` serves a peer over HTTP in one of
two modes, `naive` or `batched`, and explains both.
"""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from benchmarks import tree
from benchmarks.engines import (
    Contestant,
    bergamot_python,
    build_standin,
    ctranslate2_python,
    log_tail,
)
from benchmarks.environments import ROOT, WORK, MissingError
from benchmarks.files import find_pair, write_bergamot_config
from benchmarks.options import Options
from benchmarks.report import OURS

READY_LIMIT_SECONDS = 180.0
STOP_LIMIT_SECONDS = 40.0
POLL_SECONDS = 0.02


class Server:
    """A running server on a free port of the loopback, with its models loaded."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.log = WORK / "logs" / f"{contestant.name}-server.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [word.format(port=self.port) for word in contestant.command],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, **contestant.environment},
            )
        try:
            self._wait_until_ready(began + READY_LIMIT_SECONDS)
        except MissingError:
            self.stop()
            raise
        self.ready_seconds = time.perf_counter() - began

    @property
    def name(self) -> str:
        return self.contestant.name

    @property
    def pid(self) -> int:
        return self.process.pid

    def memory(self) -> tree.Memory:
        return tree.memory(self.pid)

    def stop(self) -> None:
        """Sends SIGTERM; kills a server that does not end within STOP_LIMIT_SECONDS."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _wait_until_ready(self, deadline: float) -> None:
        while not self._is_ready():
            if self.process.poll() is not None:
                raise MissingError(f"{self.name} ended: {log_tail(self.log)}")
            if time.perf_counter() > deadline:
                raise MissingError(f"{self.name} was not ready in {READY_LIMIT_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", self.contestant.ready_path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):  # The server does not listen yet.
            return False
        finally:
            connection.close()


def regard(options: Options, environment: Mapping[str, str] | None = None) -> Contestant:
    """Describes `regard serve` with default settings, except for those of the options."""
    command = [sys.executable, "-m", "service", "serve", "--port", "{port}"]
    settings = {"REGARD_MODELS": options.models}
    if options.dtype != "auto":
        settings["REGARD_DTYPE"] = options.dtype
    return Contestant(OURS, command, environment={**settings, **(environment or {})})


def _bergamot(mode: str) -> Callable[[Options], Contestant]:
    def prepare(options: Options) -> Contestant:
        python = bergamot_python(options)
        config = write_bergamot_config(find_pair(options.models, options.pair), WORK / "work")
        words = [*_server(python, mode, options), "--engine", "bergamot", str(config)]
        return Contestant(f"bergamot-{mode}", words)

    return prepare


def _ctranslate2(mode: str) -> Callable[[Options], Contestant]:
    def prepare(options: Options) -> Contestant:
        python = ctranslate2_python()
        folder = build_standin(options)
        words = [*_server(python, mode, options), "--engine", "ctranslate2", str(folder), "vmap"]
        return Contestant(f"ctranslate2-vmap-{mode}", words, has_text=False)

    return prepare


def _server(python: str, mode: str, options: Options) -> list[str]:
    module = [python, "-m", "benchmarks.peers.server", "--port", "{port}"]
    return [*module, "--mode", mode, "--workers", str(options.workers)]


PEERS: dict[str, Callable[[Options], Contestant]] = {
    "bergamot-naive": _bergamot("naive"),
    "bergamot-batched": _bergamot("batched"),
    "ctranslate2-vmap-naive": _ctranslate2("naive"),
    "ctranslate2-vmap-batched": _ctranslate2("batched"),
}
