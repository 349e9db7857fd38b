"""Section "generate": our engine and `generate` of transformers on random weights of one shape.

The work is done by `benchmarks.gpu` in a process of its own, as transformers comes from `.bench/`.
"""

import importlib.util
import os
import subprocess
import sys

from benchmarks import environments, gpu, report
from benchmarks.environments import ROOT, WORK, MissingError
from benchmarks.options import Options
from benchmarks.report import Result


def measure(options: Options) -> Result:
    """OPUS-MT's shape at 64 and 256 rows, and NLLB's where there is a GPU.

    Raises:
        MissingError: It failed.
    """
    folder = WORK / "results"
    arguments = ["--rounds", options.rounds, "--threads", options.workers, "--results", folder]
    command = [sys.executable, "-m", "benchmarks.gpu", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=_environment(), check=False, capture_output=True)
    if done.returncode:
        raise MissingError(done.stderr.decode(errors="replace").strip().splitlines()[-1])
    return report.load(folder / "generate.json")


def _environment() -> dict[str, str]:
    """With transformers from `.bench/`, unless the project's environment has it."""
    if importlib.util.find_spec("transformers"):
        return dict(os.environ)
    try:
        return {**os.environ, "PYTHONPATH": environments.library("transformers")}
    except MissingError as error:  # it is then left out there, with a word
        print(error, file=sys.stderr)
        return dict(os.environ)


def table(result: Result, _options: Options) -> str:
    """One row a case and contestant."""
    return gpu.table(result)
