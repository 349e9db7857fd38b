"""Starts servers for measurement: Regard, and each peer in two modes.

A peer is an engine other than Regard. `benchmarks.peers.server` serves a peer over HTTP in one of
two modes, `naive` or `batched`, and explains both.
"""

import os
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
from benchmarks.processes import free_ports, stop, until_ready
from benchmarks.report import OURS


class Server:
    """A running server on a free port of the loopback, with its models loaded."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        (self.port,) = free_ports(1)
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
            until_ready(self.process, self.port, contestant.ready_path)
        except MissingError as error:
            self.stop()
            raise MissingError(f"{self.name}: {error}: {log_tail(self.log)}") from None
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
        stop(self.process)


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
