"""The commands of Regard and of the peers: other engines, and servers around them."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.environments import WORK, MissingError, peer_python
from benchmarks.files import find_pair, write_bergamot_config
from benchmarks.options import Options
from benchmarks.processes import Contestant, Prepare
from benchmarks.random_weights import Shape
from benchmarks.report import OURS
from model.checkpoints.families.sentence_transformers import EmbeddingFiles, find_embedding_models
from model.errors import CheckpointError

MODES = ("naive", "batched")
"""The modes of `benchmarks.peers.server`."""

EMBEDDERS = {
    "sentence-transformers": ("bfloat16", "float32"),
    "openvino": ("bfloat16", "float32"),
    "onnxruntime": ("int8", "float32"),
}
"""The peers that embed, and their precisions, the fastest first."""

ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def chosen(peers: Mapping[str, Prepare], options: Options) -> dict[str, Prepare]:
    """Returns the peers whose names start with a word of `--peers`; `all` chooses every peer."""
    return {
        name: prepare
        for name, prepare in peers.items()
        if any(word == "all" or name.startswith(word) for word in options.peers)
    }


def peer_module(python: str, module: str, *words: object) -> list[str]:
    return [python, "-m", f"benchmarks.peers.{module}", *map(str, words)]


def our_engine(name: str, *words: object) -> Contestant:
    """Describes Regard without HTTP; `words` are arguments of `benchmarks.ours`."""
    command = [sys.executable, "-m", "benchmarks.ours", *map(str, words)]
    return Contestant(name, command, ONE_THREAD)


def our_server(options: Options, environment: Mapping[str, str] | None = None) -> Contestant:
    """Describes `regard serve` with default settings, except for those of the options."""
    command = [sys.executable, "-m", "service", "serve", "--port", "{port}"]
    settings = {"REGARD_MODELS": options.models}
    if options.dtype != "auto":
        settings["REGARD_DTYPE"] = options.dtype
    return Contestant(OURS, command, {**settings, **(environment or {})})


def our_translator(options: Options) -> Contestant:
    """Describes Regard's engine with `--workers` processes, by default one per core."""
    words = ["--source", options.source, "--pair", options.pair, "--models", options.models]
    return our_engine(OURS, *words, "--workers", options.workers, "--dtype", options.dtype)


def bergamot(options: Options) -> Contestant:
    """Describes native Bergamot with `--workers` threads and the whole file in one call."""
    python = peer_python("bergamot", options.python310, "3.10")
    config = write_bergamot_config(find_pair(options.models, options.pair))
    words = [config, options.source, options.workers]
    return Contestant("bergamot", peer_module(python, "bergamot", *words))


def fxtranslate(options: Options) -> Contestant:
    """Describes fxtranslate with `--workers` processes."""
    files = find_pair(options.models, options.pair)
    words = [options.source, options.workers, files.weights]
    words += [files.source_vocab, files.target_vocab, files.shortlist or ""]
    return Contestant("fxtranslate", peer_module(peer_python("fxtranslate"), "fxtranslate", *words))


def bergamot_server(mode: str, options: Options) -> Contestant:
    python = peer_python("bergamot", options.python310, "3.10")
    config = write_bergamot_config(find_pair(options.models, options.pair))
    words = ["--port", "{port}", "--mode", mode, "--workers", options.workers, config]
    return Contestant(f"bergamot-{mode}", peer_module(python, "server", *words))


def our_shape(shape: Shape, sentences: int, workers: int, rows: int, _: Options) -> Contestant:
    words = ["--shape", shape.name, "--workers", workers, "--rows", rows]
    return our_engine(OURS, *words, "--sentences", sentences)


def ctranslate2(shape: Shape, sentences: int, workers: int, size: int, _: Options) -> Contestant:
    """Describes CTranslate2 with random weights, in batches of `size` sentences."""
    folder = WORK / "shapes" / f"{shape.name}-words"
    words = [json.dumps(asdict(shape)), folder, workers, size, sentences]
    command = peer_module(peer_python("ctranslate2"), "ctranslate2_shape", *words)
    return Contestant(f"ctranslate2-{size}", command)


def find_embedding_model(options: Options) -> EmbeddingFiles:
    try:
        return find_embedding_models(options.embedding_model)[0]
    except CheckpointError as error:
        raise MissingError(str(error)) from error


def our_embedder(
    name: str, source: Path, dtype: str, is_single: bool, options: Options
) -> Contestant:
    """Describes Regard with `--workers` processes, or with one process if `is_single` is True."""
    words = ["--source", source, "--embed", options.embedding_model, "--dtype", dtype]
    words += ["--workers", 1 if is_single else options.workers]
    return our_engine(name, *words, *["--one"] * is_single)


def embedder(
    program: str, name: str, source: Path, dtype: str, size: int, options: Options
) -> Contestant:
    """Describes a peer that embeds, with `--workers` threads."""
    python = peer_python(program, with_project_packages=True)
    words = source, find_embedding_model(options).folder, dtype, size, options.workers
    command = peer_module(python, program.replace("-", "_"), *words)
    return Contestant(name, command, {"HF_HUB_OFFLINE": "1"})


def infinity(options: Options) -> Contestant:
    """Describes infinity-emb on the CPU in bfloat16, without BetterTransformer and telemetry."""
    python = peer_python("infinity", with_project_packages=True)
    command = [python, "-m", "infinity_emb.cli", "v2", "--port", "{port}", "--host", "127.0.0.1"]
    command += ["--model-id", str(find_embedding_model(options).folder), "--dtype", "bfloat16"]
    command += ["--device", "cpu", "--engine", "torch", "--no-bettertransformer"]
    environment = {"DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
    return Contestant("infinity-bfloat16", command, environment, ready_path="/health")


BERGAMOT_SERVERS: dict[str, Prepare] = {
    f"bergamot-{mode}": partial(bergamot_server, mode) for mode in MODES
}
