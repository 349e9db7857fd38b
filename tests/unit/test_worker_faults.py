"""Batches that fail in a worker: their parts are computed again until the fault is found."""

import logging
import socket

import pytest
import torch

from service.ipc.channel import Channel
from service.items import TRANSLATE
from service.workers import worker as worker_module
from service.workers.executors import TranslationExecutor
from service.workers.messages import Abort, Compute, DeviceLost, Report, Unload, Unloaded
from service.workers.time_share import TimeShare
from service.workers.worker import Worker
from tests.unit.worker_bench import files
from tests.unit.worker_talk import Start, config, sentences
from tests.workers import EchoEngine, Script, until


def test_sentences_at_fault_are_found_and_the_others_translated(
    start: Start, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    talk = start(max_rows=16)
    script.poison = {103, 110}
    with caplog.at_level(logging.WARNING):
        talk.send(Compute(sentences(*range(16))))
        talk.hear(16)
    assert talk.failed.keys() == {3, 10}
    assert all(failed.error == "RuntimeError" for failed in talk.failed.values())
    assert not any(failed.is_out_of_memory for failed in talk.failed.values())
    assert talk.done.keys() == {*range(16)} - {3, 10}
    assert talk.total("splits") == 7  # 16, two of 8, two of 4, two of 2
    assert talk.total("out_of_memory") == 0
    assert "translate item 3 cannot be computed" in caplog.text
    talk.send(Compute(sentences(20)))
    talk.hear(17)
    assert 20 in talk.done


def test_worker_reports_while_it_decodes_parts_of_a_failed_batch(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends a worker that is silent."""
    monkeypatch.setattr(worker_module, "REPORT_SECONDS", -1.0)
    script.num_steps = 50
    script.poison.add(101)
    talk = start()
    talk.send(Compute(sentences(1, 2, 3)))
    talk.hear(3)
    assert talk.failed.keys() == {1}
    assert len(talk.reports) > 50


def admitted(script: Script) -> list[int]:
    return [sequence.id for sequence in script.admitted]


def test_other_models_and_aborts_go_on_beside_parts_of_a_failed_batch(
    start: Start, script: Script
) -> None:
    """A part that takes long keeps up neither other models nor aborts."""
    script.poison, script.stuck = {101}, {102}
    talk = start("en-pt", "pt-en")
    talk.send(Compute(sentences(1, 2, 3, 4)))
    talk.hear(1)
    until(lambda: admitted(script) == [1, 2, 3, 4, 1, 2, 1, 2])
    talk.send(Compute(sentences(9, 10, model="pt-en")))
    talk.hear(3)
    assert (set(talk.done), set(talk.failed)) == ({9, 10}, {1})
    talk.send(Compute(sentences(5)), Abort([2, 3]))
    talk.hear(5)
    assert talk.done.keys() == {4, 5, 9, 10}
    assert script.aborted == [2]
    # The other half follows without the aborted sentence; sentence 5 waits for its end.
    assert admitted(script)[8:] == [9, 10, 4, 5]


def test_model_can_be_unloaded_while_parts_of_its_batch_wait(start: Start, script: Script) -> None:
    script.poison, script.stuck = {101}, {102}
    talk = start("en-pt", "pt-en")
    talk.send(Compute(sentences(1, 2, 3, 4)))
    talk.hear(1)
    talk.send(Abort([2, 3, 4]), Unload("en-pt"))
    answer = talk.receive()
    while isinstance(answer, Report):
        assert not answer.done
        assert not answer.failed
        answer = talk.receive()
    assert answer == Unloaded("en-pt")
    talk.send(Compute(sentences(5, model="pt-en")))
    talk.hear(2)
    assert 5 in talk.done


@pytest.mark.parametrize("share", [None, 0.2])
def test_fatal_error_ends_the_turn_and_is_reported_once(
    script: Script, monkeypatch: pytest.MonkeyPatch, share: float | None
) -> None:
    def fail(_engine: EchoEngine) -> None:
        raise torch.AcceleratorError("device-side assert triggered")

    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = Worker(Channel(theirs), script.loaders)
        sliced = worker.shares[TRANSLATE] = TimeShare(share)
        sliced.credit = 1.0
        for name in ("en-pt", "pt-en"):
            engine = script.load(files("en", "pt"), config()).executables[TRANSLATE]
            executor = sliced.executors[name] = TranslationExecutor(engine, torch.device("cpu"))
            executor.add(sentences(1))
            monkeypatch.setattr(executor.timer, "abandon", lambda: 0.0)  # as on a GPU that failed
        monkeypatch.setattr(EchoEngine, "_fail_if_scripted", fail)
        sliced.run(True, worker._isolate)
        assert worker.exit_status == 1
        assert worker.is_stopping
        theirs.close()
        server = Channel(ours)
        assert isinstance(server.receive(), DeviceLost)
        with pytest.raises(EOFError):
            server.receive()
