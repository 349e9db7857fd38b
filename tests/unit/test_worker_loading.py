"""Models that a worker loads at its start."""

import socket
import weakref
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from model.backends.native.library import LIBRARIES
from model.checkpoints.build import CPU_ROWS, new_engine
from model.checkpoints.load import ModelFiles
from model.sequence import EngineLimits
from service.ipc.channel import Channel
from service.items import TRANSLATE
from service.workers import worker as worker_module
from service.workers.device_memory import give_back_memory
from service.workers.loading import LoadedModel, load_translation_model, warm_up
from service.workers.messages import LoadFailed, ModelSet, Ready, WorkerConfig
from tests.tiny import quantized, tiny_config, tiny_model, torch_runner
from tests.unit.worker_bench import files
from tests.unit.worker_talk import Start, config
from tests.workers import Script, ThreadWorker, until


def test_model_of_a_manifest_has_its_own_device_and_dtype(script: Script) -> None:
    loaded: list[tuple[str, str]] = []

    def load(files: ModelFiles, config: WorkerConfig) -> LoadedModel:
        loaded.append((config.device, config.dtype))
        return script.load(files, wanted)

    wanted = config("en-pt", "pt-en")
    here, there = wanted.models.files
    assert isinstance(there, ModelFiles)
    models = ModelSet((here, replace(there, weights=Path("/b/model.bin"))), {"/b": ("cuda", "")})
    ours, theirs = socket.socketpair()
    with ours:
        worker = ThreadWorker(theirs, {ModelFiles: load})
        theirs.close()
        channel = Channel(ours)
        channel.send([replace(wanted, models=models)])
        assert isinstance(channel.receive(), Ready)
        ours.shutdown(socket.SHUT_WR)
        worker.thread.join()
    assert loaded == [("cpu", "float32"), ("cuda", "float32")]


def test_memory_of_a_failed_load_is_given_back(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given back once the error is gone, whose frames refer to it."""
    read: list[weakref.ref[torch.Tensor]] = []
    was_free: list[bool] = []

    def load(files: ModelFiles, config: WorkerConfig) -> LoadedModel:
        if files.name == "en-pt":
            return Script.load(script, files, config)
        weights = torch.zeros(8)
        read.append(weakref.ref(weights))
        raise MemoryError

    def give_back() -> None:
        give_back_memory()
        was_free.append(read[0]() is None)

    monkeypatch.setattr(script, "load", load)
    monkeypatch.setattr(worker_module, "give_back_memory", give_back)
    monkeypatch.setattr(worker_module.logger, "disabled", True)  # pytest keeps logged errors
    talk = start("en-pt")
    talk.send(config().load(files("pt", "en")))
    failed = talk.receive()
    assert isinstance(failed, LoadFailed)
    assert failed.is_out_of_memory
    until(lambda: was_free)
    assert was_free == [True]


@pytest.mark.parametrize("max_rows", [1, 6])
def test_warm_up_leaves_an_empty_engine(max_rows: int) -> None:
    model = tiny_model(tiny_config(), seed=1)
    limits = EngineLimits(max_rows=max_rows, max_source_tokens=16, max_batch_tokens=64)
    engine = new_engine(model, limits)
    warm_up(engine)
    assert engine.free_rows == max_rows
    assert not engine.drain_stats()


@pytest.mark.skipif(not LIBRARIES, reason="nothing was compiled for this processor")
def test_native_code_is_warmed_up_by_one_row_alone() -> None:
    model = quantized(tiny_model(tiny_config(d_model=64, num_heads=4, ffn_dim=128), seed=1))
    limits = EngineLimits(max_rows=6, max_source_tokens=16, max_batch_tokens=64)
    engine = new_engine(model, limits)
    with patch.object(engine, "admit", wraps=engine.admit) as admit:
        warm_up(engine)
    ((sequences,), _) = admit.call_args
    assert admit.call_count == len(sequences) == 1
    assert engine.free_rows == 6


@pytest.mark.checkpoint
@pytest.mark.parametrize(("shortlist", "is_used"), [("auto", True), ("on", True), ("off", False)])
def test_cpu_decides_rows_and_shortlist(
    built_in: ModelFiles, shortlist: str, is_used: bool
) -> None:
    limits = EngineLimits(max_rows=0, max_source_tokens=32, max_batch_tokens=64)
    wanted = WorkerConfig(ModelSet(), {}, "cpu", "float32", shortlist, limits, threads=1)
    loaded = load_translation_model(built_in, wanted)
    engine = loaded.executables[TRANSLATE]
    assert loaded.max_rows == CPU_ROWS
    assert loaded.num_bytes > 10_000_000
    assert engine.limits.max_rows == CPU_ROWS
    assert (torch_runner(engine).shortlist is not None) == is_used
    assert engine.num_rows == 0
