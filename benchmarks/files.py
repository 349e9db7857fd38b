"""Finds the model of a language pair, and writes files that the peers need to load it.

The peers are the other engines of the benchmarks. Bergamot gets a settings file with the paths of
the model's files. CTranslate2 gets a stand-in: a model of the same shape. This module writes its
parts, and `benchmarks.peers.ctranslate2_build` builds it from them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.peers.protocol import read_lines
from model.architectures.shortlist import Shortlist
from model.checkpoints.formats.marian_bin import MarianFile, is_table
from model.checkpoints.load import ModelFiles, find_models, load_vocabularies

BERGAMOT_SETTINGS = {
    "beam-size": 1,
    "mini-batch-words": 1024,
    "max-length-break": 128,
    "workspace": 128,
    "max-length-factor": 2.5,
    "skip-cost": True,
    "quiet": True,
    "quiet-translation": True,
    "gemm-precision": "int8shiftAlphaAll",
    "alignment": "soft",
}


def find_pair(models: str, pair: str) -> ModelFiles:
    """Finds the model of a language pair such as `en-pt`."""
    found = {files.name: files for files in find_models(models)}
    if pair not in found:
        raise SystemExit(f"{models} has no model {pair}; it has {', '.join(sorted(found))}")
    return found[pair]


def write_bergamot_config(files: ModelFiles, folder: Path) -> Path:
    """Writes the settings file of the native Bergamot engine, and returns its path."""
    shortlist = [str(files.shortlist), False] if files.shortlist else []
    settings = {
        "models": [str(files.weights)],
        "vocabs": [str(files.source_vocab), str(files.target_vocab)],
        **({"shortlist": shortlist} if shortlist else {}),
        **BERGAMOT_SETTINGS,
        "max-length-factor": files.max_length_factor,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"bergamot-{files.name}.yml"
    path.write_text(yaml.safe_dump(settings), "utf-8")
    return path


def write_standin_parts(
    files: ModelFiles, source: Path, reference: Path, folder: Path
) -> tuple[Path, Path]:
    """Writes the files from which `benchmarks.peers.ctranslate2_build` builds the stand-in."""
    file = MarianFile(files.weights)
    options = file.options()
    arrays: dict[str, Any] = {
        name: array if is_table(name) or min(array.shape) == 1 else array.T
        for name, array in file.arrays().items()
        if array.ndim == 2  # Marian's parameters are matrices.
    }
    if files.shortlist:
        vocabularies = load_vocabularies(files)
        shortlist = Shortlist.read(
            files.shortlist,
            vocabularies.source.vocab_size,
            vocabularies.target.vocab_size,
            files.has_shared_vocab,
        )
        arrays["shortlist_offsets"] = shortlist.offsets
        arrays["shortlist_ids"] = shortlist.candidates
        arrays["shortlist_frequent"] = np.array(len(shortlist.frequent))
    facts = {
        "encoder_layers": options["enc-depth"],
        "decoder_layers": options["dec-depth"],
        "num_heads": options["transformer-heads"],
        "source_vocab": str(files.source_vocab),
        "target_vocab": str(files.target_vocab),
        "tokens_ratio": tokens_ratio(files, source, reference),
    }
    folder.mkdir(parents=True, exist_ok=True)
    weights, settings = folder / "weights.npz", folder / "settings.json"
    np.savez(weights, **arrays)
    settings.write_text(json.dumps(facts), "utf-8")
    return weights, settings


def tokens_ratio(files: ModelFiles, source: Path, reference: Path) -> float:
    """Returns the ratio of target tokens to source tokens. Each sentence's EOS is counted."""
    vocabularies = load_vocabularies(files)
    sources, targets = read_lines(str(source)), read_lines(str(reference))
    read = sum(len(vocabularies.source.encode(line)) + 1 for line in sources)
    written = sum(len(vocabularies.target.encode(line)) + 1 for line in targets)
    return written / read
