"""The worker at the end of a socket, with engines that echo their input (tests/workers.py)."""

import signal
import socket
import sys
import threading
from dataclasses import replace

import pytest
import torch

from service import logs
from service.ipc.channel import Channel
from service.ipc.machine import WORKER_SLICE_SECONDS
from service.workers import worker as worker_module
from service.workers.device_memory import memory_bytes
from service.workers.messages import Abort, Compute, Ready, Report
from service.workers.worker import Worker
from tests.unit.worker_talk import Start, config, sentences, tokens_of
from tests.workers import ECHO_CONFIG, Script, until


def test_worker_reports_the_models_that_it_has_loaded(start: Start) -> None:
    ready = start("en-pt", "pt-en", max_rows=5).first
    assert isinstance(ready, Ready)
    assert list(ready.models) == ["en-pt", "pt-en"]
    for name, model in ready.models.items():
        assert model.name == name
        assert (model.device, model.dtype, model.max_rows) == ("cpu", "float32", 5)
        assert model.load_seconds >= 0
        assert model.config == ECHO_CONFIG


def test_worker_on_a_cpu_gets_the_longest_slice(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices: list[float] = []
    monkeypatch.setattr("service.workers.worker.set_time_slice", slices.append)
    start()
    assert slices == [WORKER_SLICE_SECONDS]


def test_sequences_are_translated_by_their_models(start: Start) -> None:
    talk = start("en-pt", "pt-en")
    talk.send(Compute([*sentences(1, 2), *sentences(3, model="pt-en")]))
    talk.hear(3)
    assert {i: tokens_of(done) for i, done in talk.done.items()} == {
        1: [101, 0],
        2: [102, 0],
        3: [103, 0],
    }
    phases = [batch.phase for report in talk.reports for batch in report.batches["en-pt"]]
    assert phases.count("encode") == 1
    assert phases.count("decode") >= 2
    assert talk.reports[0].memory_bytes["resident"] > 0


def test_figures_of_a_long_batch_do_not_wait_for_its_results(start: Start, script: Script) -> None:
    talk = start()
    script.may_finish.clear()
    talk.send(Compute(sentences(1)))
    for _ in range(2):
        report = talk.receive()
        assert isinstance(report, Report)
        assert not report.done
        assert report.batches["en-pt"]
    script.may_finish.set()
    talk.hear(1)


def test_sentences_of_several_messages_are_encoded_together(start: Start) -> None:
    """An aborted sentence is left out."""
    talk = start()
    messages = [Compute(sentences(1, 2)), Compute(sentences(3))]
    talk.channel.send([*messages, Abort([2])])
    talk.hear(2)
    assert talk.done.keys() == {1, 3}
    encoded = [
        (batch.rows, count)
        for report in talk.reports
        for batch, count in report.batches["en-pt"].items()
        if batch.phase == "encode"
    ]
    assert encoded == [(2, 1)]


@pytest.mark.parametrize("is_busy", [False, True])
def test_worker_ends_when_the_server_is_gone(start: Start, script: Script, is_busy: bool) -> None:
    talk = start()
    if is_busy:
        script.may_finish.clear()
        talk.send(Compute(sentences(1)))
        until(lambda: script.admitted)
    talk.channel.connection.shutdown(socket.SHUT_RDWR)
    talk.worker.thread.join()


def test_idle_worker_sleeps(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits in `receive`, and computes nothing meanwhile."""
    calls: list[int] = []
    compute = Worker._compute

    def counted(worker: Worker) -> None:
        calls.append(1)
        compute(worker)

    monkeypatch.setattr(Worker, "_compute", counted)
    talk = start()
    talk.send(Abort([1]))
    talk.send(Compute(sentences(1)))
    talk.hear(1)
    before = len(calls)
    talk.send(Abort([2]))
    talk.channel.connection.shutdown(socket.SHUT_WR)
    talk.worker.thread.join()
    assert len(calls) - before <= 2


def test_memory_is_that_of_this_process() -> None:
    memory = memory_bytes()
    assert 10_000_000 < memory["resident"] < 100_000_000_000
    assert ("peak" in memory) == torch.cuda.is_available()


def test_program_serves_the_socket_that_it_inherits(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    ignored: list[int] = []
    monkeypatch.setattr(sys, "argv", ["worker", str(theirs.detach())])
    monkeypatch.setattr(signal, "signal", lambda sig, _: ignored.append(sig))
    logged: list[tuple[str, str]] = []
    monkeypatch.setattr(logs, "configure", lambda *args: logged.append(args))
    monkeypatch.setattr(
        worker_module,
        "Worker",
        lambda channel, **options: Worker(channel, script.loaders, **options),
    )
    thread = threading.Thread(target=worker_module.main)
    thread.start()
    with ours:
        talk = Channel(ours)
        talk.send([replace(config(), log_level="error", log_format="json")])
        assert isinstance(talk.receive(), Ready)
        ours.shutdown(socket.SHUT_WR)
        thread.join()
    assert len(ignored) == 2
    assert logged == [("info", "text"), ("error", "json")]
