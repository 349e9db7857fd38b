"""Section "generate": compares Regard's engine with transformers' `generate` on random weights.

`benchmarks.gpu` does the work in a process of its own, because transformers is installed in
`.bench/` and not in the environment of the project.
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
    """Measures models of OPUS-MT's sizes, which decode 64 or 256 sentences at once.

    On a GPU, it also measures models of NLLB-600M's sizes.
    """
    folder = WORK / "results"
    arguments = ["--rounds", options.rounds, "--threads", options.workers, "--results", folder]
    command = [sys.executable, "-m", "benchmarks.gpu", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=_environment(), check=False, capture_output=True)
    if done.returncode:
        raise MissingError(done.stderr.decode(errors="replace").strip().splitlines()[-1])
    return report.load(folder / "generate.json")


def _environment() -> dict[str, str]:
    """Returns the environment variables, with transformers from `.bench/` on PYTHONPATH.

    PYTHONPATH stays as it is if the project's environment already has transformers, or if
    transformers cannot be found in `.bench/`.
    """
    if importlib.util.find_spec("transformers"):
        return dict(os.environ)
    try:
        return {**os.environ, "PYTHONPATH": environments.library("transformers")}
    except MissingError as error:  # benchmarks.gpu then leaves transformers out, with a note.
        print(error, file=sys.stderr)
        return dict(os.environ)


def table(result: Result, _options: Options) -> str:
    return gpu.table(result)
