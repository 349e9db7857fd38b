"""Installs a distribution into a fresh environment and uses it there."""

import json
import sys
from pathlib import Path

from release.locks import BENCH, EMBEDDING_MODEL, LOCKS, ROOT, RUNTIME
from release.packages import run

TRANSLATION = "O gato sentou-se no tapete."
"""Translation of the sentence in the self-test of `regard doctor`."""

COUNT_LIBRARIES = "from model.backends.native.library import LIBRARIES; print(len(LIBRARIES))"


def install(distribution: Path, folder: Path) -> Path:
    """Installs a distribution with the locked packages; returns the environment's programs."""
    run(sys.executable, "-m", "venv", str(folder), cwd=folder.parent)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet"]
    for lock in (RUNTIME, BENCH):
        run(*pip, "--no-deps", "--require-hashes", "-r", str(LOCKS / lock), cwd=folder)
    constraint = ["--constraint", str(ROOT / "requirements.lock")]
    run(*pip, *constraint, str(distribution), cwd=folder)
    return folder / "bin"


def use(programs: Path, version: str) -> list[str]:
    variables = {"REGARD_WORKERS": "1", "HOME": str(programs.parent)}
    regard = str(programs / "regard")

    def answer(*words: str) -> str:
        return run(*words, cwd=programs.parent, **variables)

    faults = []
    if (found := answer(regard, "--version").strip()) != version:
        faults.append(f"regard --version printed {found!r}, not {version!r}")
    if EMBEDDING_MODEL not in answer(regard, "models", "info"):
        faults.append(f"regard models info did not name {EMBEDDING_MODEL}")
    report = json.loads(answer(regard, "doctor", "--json"))
    if (text := report["self-test"]["translation"]) != TRANSLATION:
        faults.append(f"the self-test translated {text!r}, not {TRANSLATION!r}")
    if answer(str(programs / "python"), "-c", COUNT_LIBRARIES).strip() == "0":
        faults.append("the native code was not loaded")
    return faults
