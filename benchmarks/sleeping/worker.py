"""A device worker whose translation models sleep; `sleeping.server` starts it."""

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.sleeping.pace import VARIABLE, Pace
from benchmarks.sleeping.runner import SleepingRunner
from model.checkpoints.build import CPU_ROWS
from model.checkpoints.load import ModelFiles, load_vocabularies
from model.config import ModelConfig
from model.engine.engine import Engine
from service import logs
from service.ipc.channel import Channel
from service.items import ATTENTION, EMBED, TRANSLATE
from service.workers.loading import LoadedModel, Loaders
from service.workers.messages import WorkerConfig
from service.workers.worker import Worker


def loaders(pace: Pace) -> Loaders:
    """Returns the loader of a worker that serves translation models only."""

    def load(files: ModelFiles, config: WorkerConfig) -> LoadedModel:
        return load_sleeping(files, config, pace)

    return {ModelFiles: load}


def load_sleeping(files: ModelFiles, config: WorkerConfig, pace: Pace) -> LoadedModel:
    """Returns a model that sleeps; reads the vocabularies, but not the weights."""
    vocabularies = load_vocabularies(files)
    sizes = ModelConfig(
        d_model=256,
        num_heads=8,
        ffn_dim=1536,
        encoder_layers=6,
        decoder_layers=2,
        source_vocab_size=vocabularies.source.vocab_size,
        target_vocab_size=vocabularies.target.vocab_size,
        eos_id=vocabularies.target.eos_id,
        unk_id=vocabularies.target.unk_id,
        shared_embeddings=False,
    )
    limits = replace(config.limits, max_rows=config.limits.max_rows or CPU_ROWS)
    runner = SleepingRunner(sizes, pace)
    engine = Engine(runner, limits)
    executables = {TRANSLATE: engine, EMBED: refuse, ATTENTION: refuse}
    return LoadedModel(executables, runner.model.device, "float32", 0, limits.max_rows, sizes)


def refuse(_items: Sequence[Any]) -> Any:
    raise ValueError("the sleeping model only translates")


def main() -> int:
    logs.configure("info", "text")
    for number in (signal.SIGINT, signal.SIGTERM):  # the server decides when the worker ends
        signal.signal(number, signal.SIG_IGN)
    pace = Pace(**json.loads(os.environ[VARIABLE]))
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        worker = Worker(Channel(connection), loaders(pace), logs.configure)
        worker.run()
    return worker.exit_status


if __name__ == "__main__":
    sys.exit(main())
