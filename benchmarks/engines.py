"""Runs translation engines in subprocesses, without HTTP.

Each subprocess reads and answers the messages of `benchmarks.peers.protocol`. Its command names the
source file, which has one sentence per line.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import environments, tree
from benchmarks.environments import ROOT, WORK, MissingError
from benchmarks.files import find_pair, write_bergamot_config, write_standin_parts
from benchmarks.options import Options
from benchmarks.report import OURS

LOG_LINES = 5
STOP_LIMIT_SECONDS = 10.0


@dataclass(frozen=True)
class Contestant:
    """The command and environment of an engine or server under measurement."""

    name: str  # name of the contestant in tables
    command: list[str]  # command of its subprocess; `{port}` stands for the port of a server
    has_text: bool = True  # whether its output is a real translation, which BLEU can score
    # environment variables that are added to those of this process
    environment: dict[str, str] = field(default_factory=dict)
    # route that answers 200 as soon as a server's models are loaded
    ready_path: str = "/health/ready"


Prepare = Callable[[Options], Contestant]


@dataclass(frozen=True)
class Run:
    """Wall and CPU seconds in which an engine translates the source file once."""

    seconds: float
    cpu_seconds: float


class Engine:
    """A running engine that has loaded its model."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        self.log = WORK / "logs" / f"{contestant.name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                contestant.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, **contestant.environment},
            )
        self._read()

    def run(self) -> Run:
        before = tree.cpu_seconds(self.process.pid)
        seconds = self._ask({"run": 1})["seconds"]
        return Run(seconds, tree.cpu_seconds(self.process.pid) - before)

    def figures(self, num_sentences: int) -> dict[str, float]:
        """Translates the source file once, and returns the figures of this turn."""
        run = self.run()
        return {
            "sentences_per_second": num_sentences / run.seconds,
            "milliseconds": 1000 * run.seconds / num_sentences,
            "cpu_seconds_per_1000": 1000 * run.cpu_seconds / num_sentences,
            "pss_mib": self.memory().pss,
        }

    def outputs(self) -> list[str]:
        outputs: list[str] = self._ask({"outputs": True})["outputs"]
        return outputs

    def memory(self) -> tree.Memory:
        return tree.memory(self.process.pid)

    def stop(self) -> None:
        """Closes the engine's stdin; kills the engine if it runs for STOP_LIMIT_SECONDS more."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(STOP_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            raise MissingError(f"{self.contestant.name} ended: {log_tail(self.log)}")
        reply: dict[str, Any] = json.loads(line)
        return reply


def log_tail(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").splitlines()
    return " / ".join(line.strip() for line in lines[-LOG_LINES:] if line.strip())


def ours(options: Options) -> Contestant:
    """Describes Regard's engine with `--workers` processes, by default one per core."""
    arguments = {
        "--source": str(options.source),
        "--pair": options.pair,
        "--models": options.models,
        "--workers": str(options.workers),
        "--dtype": options.dtype,
    }
    words = [word for pair in arguments.items() for word in pair]
    command = [sys.executable, "-m", "benchmarks.ours", *words]
    return Contestant(OURS, command, environment={"OMP_NUM_THREADS": "1"})


def bergamot(options: Options) -> Contestant:
    """Describes native Bergamot with `--workers` threads and the whole file in one call."""
    python = bergamot_python(options)
    config = write_bergamot_config(find_pair(options.models, options.pair), WORK / "work")
    module = [python, "-m", "benchmarks.peers.bergamot"]
    return Contestant("bergamot", [*module, str(config), str(options.source), str(options.workers)])


def ctranslate2(options: Options) -> Contestant:
    """Describes CTranslate2 with the stand-in model, whose output may have any token.

    CTranslate2 cannot load the weights of the real model (see `benchmarks.peers.ctranslate2`).
    """
    return _ctranslate2(options, "ctranslate2", "full")


def ctranslate2_vmap(options: Options) -> Contestant:
    """Describes CTranslate2 with the stand-in model and a vocabulary map.

    A vocabulary map is CTranslate2's form of a lexical shortlist.
    """
    return _ctranslate2(options, "ctranslate2-vmap", "vmap")


def _ctranslate2(options: Options, name: str, vocabulary: str) -> Contestant:
    folder = build_standin(options)
    words = [str(folder), str(options.source), str(options.workers), vocabulary]
    command = [ctranslate2_python(), "-m", "benchmarks.peers.ctranslate2", *words]
    return Contestant(name, command, has_text=False)


def bergamot_python(options: Options) -> str:
    return environments.peer_python("bergamot", options.python310, "3.10")


def ctranslate2_python() -> str:
    return environments.peer_python("ctranslate2")


@functools.cache
def build_standin(options: Options) -> Path:
    """Builds CTranslate2's stand-in model and returns its folder.

    `benchmarks.peers.ctranslate2` explains the stand-in. Each run of the benchmark builds it once,
    because it depends on the language pair, the source file and the reference translations.
    """
    python = ctranslate2_python()
    folder = WORK / "standin"
    files = find_pair(options.models, options.pair)
    parts = write_standin_parts(files, options.source, options.reference, folder)
    words = [*map(str, parts), str(folder / "model")]
    command = [python, "-m", "benchmarks.peers.ctranslate2_build", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1]
        raise MissingError(f"the CTranslate2 stand-in cannot be built: {reason}")
    return folder / "model"


PEERS: dict[str, Prepare] = {
    "bergamot": bergamot,
    "ctranslate2": ctranslate2,
    "ctranslate2-vmap": ctranslate2_vmap,
}
