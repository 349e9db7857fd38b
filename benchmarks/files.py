"""Finds the model of a language pair, and writes files that other engines read."""

from pathlib import Path

import yaml

from benchmarks.environments import WORK
from model.checkpoints.load import ModelFiles, find_models

BERGAMOT_SETTINGS = {
    "beam-size": 1,
    "mini-batch-words": 1024,
    "max-length-break": 128,
    "workspace": 128,
    "skip-cost": True,
    "quiet": True,
    "quiet-translation": True,
    "gemm-precision": "int8shiftAlphaAll",
    "alignment": "soft",
}


def find_pair(models: str, pair: str) -> ModelFiles:
    found = {files.name: files for files in find_models(models)}
    if pair not in found:
        raise SystemExit(f"{models} has no model {pair}; it has {', '.join(sorted(found))}")
    return found[pair]


def write_bergamot_config(files: ModelFiles) -> Path:
    settings = {
        "models": [str(files.weights)],
        "vocabs": [str(files.source_vocab), str(files.target_vocab)],
        **({"shortlist": [str(files.shortlist), False]} if files.shortlist else {}),
        **BERGAMOT_SETTINGS,
        "max-length-factor": files.max_length_factor,
    }
    return write_work_file(f"bergamot-{files.name}.yml", yaml.safe_dump(settings))


def write_work_file(name: str, text: str) -> Path:
    path = WORK / "work" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path
