"""Sections "offline" and "generate".

Section "offline" translates a file of sentences with each engine, without HTTP. By default, each
engine uses all cores. Section "generate" compares Regard's engine with transformers' `generate` on
random weights. `benchmarks.gpu` does this in a process of its own, because transformers is
installed in `.bench/` and not in the environment of the project.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping

from benchmarks import environments, report
from benchmarks.engines import PEERS, Engine, Prepare, ours
from benchmarks.environments import ROOT, WORK, MissingError
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines
from benchmarks.report import OURS, Result

CASE = "offline"
RATE = "sentences_per_second"


def measure(options: Options) -> Result:
    """Measures all engines in turn, round by round. Each engine first runs once as a warm-up."""
    result = Result("offline")
    engines = result.started(Engine, {OURS: ours, **chosen(PEERS, options)}, options)
    lines = read_lines(str(options.source))
    result.facts["sentences"] = len(lines)
    try:
        for engine in engines:
            engine.run()
        for turn in range(1, options.rounds + 1):
            for engine in engines:
                result.add(engine.contestant.name, CASE, turn, engine.figures(len(lines)))
        references = read_lines(str(options.reference))
        for engine in engines:
            if engine.contestant.has_text:
                name = engine.contestant.name
                result.scores[name] = report.bleu(engine.outputs(), references)
    finally:
        for engine in engines:
            engine.stop()
    return result


def chosen(peers: Mapping[str, Prepare], options: Options) -> dict[str, Prepare]:
    """Returns the peers whose names start with a word of `--peers`; `all` chooses every peer."""
    return {
        name: prepare
        for name, prepare in peers.items()
        if any(word == "all" or name.startswith(word) for word in options.peers)
    }


def score(result: Result, name: str, _case: str, _figure: str) -> str:
    return f"{result.scores[name]:.2f}" if name in result.scores else "–"


def table(result: Result, options: Options) -> str:
    against = options.against or "bergamot"
    columns: report.Columns = {
        "CPU s per 1,000": "cpu_seconds_per_1000",
        "PSS MiB": "pss_mib",
        "BLEU": (score, ""),
    }
    rows = report.comparison(result, RATE, lambda _: against, columns)
    headings = ["engine", "sentences/s", f"× {against}", *columns]
    return report.markdown(headings, [row[1:] for row in rows])


def measure_generate(options: Options) -> Result:
    """Measures models of OPUS-MT's sizes, and on a GPU also models of NLLB-600M's sizes."""
    folder = WORK / "results"
    arguments = ["--rounds", options.rounds, "--threads", options.workers, "--results", folder]
    command = [sys.executable, "-m", "benchmarks.gpu", *map(str, arguments)]
    environment = dict(os.environ)
    if importlib.util.find_spec("transformers") is None:
        try:
            environment["PYTHONPATH"] = environments.library("transformers")
        except MissingError as error:  # benchmarks.gpu then leaves transformers out, with a note.
            print(error, file=sys.stderr)
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True)
    if done.returncode:
        raise MissingError(done.stderr.decode(errors="replace").strip().splitlines()[-1])
    return report.load(folder / "generate.json")
