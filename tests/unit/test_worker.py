"""The worker at the end of a socket, with engines that echo (tests/workers.py says why)."""

import logging
import math
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import patch

import pytest
import torch

from model.backends.native.library import LIBRARIES
from model.checkpoints.build import CPU_ROWS, new_engine
from model.checkpoints.load import ModelFiles
from model.engine.engine import Engine
from model.errors import CheckpointNotFoundError
from model.sequence import DecodingOptions, EngineLimits, Sequence
from service.ipc.channel import Channel
from service.workers import worker as worker_module
from service.workers.device_memory import give_back_memory, memory_bytes
from service.workers.loading import load_from_files, warm_up
from service.workers.messages import (
    Abort,
    Done,
    Failed,
    FromWorker,
    LoadFailed,
    Ready,
    Report,
    Stop,
    ToWorker,
    Work,
    WorkerConfig,
)
from service.workers.worker import HOLD_ROWS, HOLD_STEPS, Worker
from tests.tiny import quantized, tiny_config, tiny_model, torch_runner
from tests.workers import ECHO_CONFIG, EchoEngine, Script, ThreadWorker, until


def files(source: str, target: str) -> ModelFiles:
    """Names without files: the engines are made without them."""
    nowhere = Path("/nowhere")
    return ModelFiles(source, target, nowhere, nowhere, nowhere, None, 3.0)


def config(*pairs: str, max_rows: int = 8) -> WorkerConfig:
    limits = EngineLimits(max_rows=max_rows, max_source_tokens=128)
    models = tuple(files(*pair.split("-")) for pair in pairs or ("en-pt",))
    return WorkerConfig(models, "cpu", "float32", "auto", limits, threads=1, attention_share=0.1)


class Talk:
    """The server's end: sends, and gathers what comes back."""

    def __init__(self, channel: Channel, worker: ThreadWorker) -> None:
        self.channel = channel
        self.worker = worker
        self.reports: list[Report] = []

    def send(self, *messages: ToWorker) -> None:
        for message in messages:
            self.channel.send([message])

    def receive(self) -> FromWorker:
        message: FromWorker = self.channel.receive()
        return message

    def hear(self, num_results: int) -> None:
        """Reads reports until so many sequences are settled."""
        while len(self.done) + len(self.failed) < num_results:
            report = self.receive()
            assert isinstance(report, Report)
            self.reports.append(report)

    @property
    def done(self) -> dict[int, Done]:
        return {done.id: done for report in self.reports for done in report.done}

    @property
    def failed(self) -> dict[int, Failed]:
        return {failed.id: failed for report in self.reports for failed in report.failed}

    def total(self, name: str) -> int:
        return sum(getattr(report, name).get("en-pt", 0) for report in self.reports)


Start = Callable[..., Talk]


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def start(script: Script) -> Iterator[Start]:
    with ExitStack() as opened:

        def begin(*pairs: str, max_rows: int = 8) -> Talk:
            ours, theirs = map(opened.enter_context, socket.socketpair())
            worker = ThreadWorker(theirs, script.load)
            theirs.close()
            talk = Talk(Channel(ours), worker)
            opened.callback(worker.thread.join)
            opened.callback(ours.shutdown, socket.SHUT_RDWR)
            talk.send(config(*pairs, max_rows=max_rows))
            return talk

        yield begin


def sequences(*ids: int, tokens: list[int] | None = None, beam: int = 1) -> list[Sequence]:
    options = DecodingOptions(beam_size=beam)
    return [Sequence(i, [*(tokens or [100 + i]), 0], options) for i in ids]


def test_worker_tells_what_it_has_loaded(start: Start) -> None:
    ready = start("en-pt", "pt-en", max_rows=5).receive()
    assert isinstance(ready, Ready)
    assert [model.name for model in ready.models] == ["en-pt", "pt-en"]
    for model in ready.models:
        assert (model.device, model.dtype, model.max_rows) == ("cpu", "float32", 5)
        assert model.load_seconds >= 0
        assert model.config == ECHO_CONFIG


def test_model_of_a_manifest_has_its_own_device_and_dtype(script: Script) -> None:
    loaded: list[tuple[str, str]] = []

    def load(files: ModelFiles, config: WorkerConfig) -> Engine:
        loaded.append((config.device, config.dtype))
        return script.load(files, wanted)

    wanted = config("en-pt", "pt-en")
    ours, theirs = socket.socketpair()
    with ours:
        worker = ThreadWorker(theirs, load)
        theirs.close()
        elsewhere = replace(wanted.models[1], weights=Path("/b/model.bin"))
        channel = Channel(ours)
        placements = {"/b": ("cuda", "")}
        models = (wanted.models[0], elsewhere)
        channel.send([replace(wanted, models=models, placements=placements)])
        assert isinstance(channel.receive(), Ready)
        channel.send([Stop()])
        worker.thread.join()
    assert loaded == [("cpu", "float32"), ("cuda", "float32")]


def test_worker_whose_model_cannot_be_loaded_says_so_and_ends(start: Start, script: Script) -> None:
    script.load_error = CheckpointNotFoundError("it is not there")
    talk = start()
    assert talk.receive() == LoadFailed("en-pt: it is not there", "en-pt")
    talk.worker.thread.join()


def test_memory_of_a_load_that_failed_is_given_back(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When nothing holds it any more: the frames of the error still did."""
    read: list[weakref.ref[torch.Tensor]] = []
    was_free: list[bool] = []

    def load(files: ModelFiles, config: WorkerConfig) -> Engine:
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
    monkeypatch.setattr(worker_module.logger, "disabled", True)  # pytest keeps what is logged
    talk = start("en-pt")
    talk.receive()
    talk.send(config().load(files("pt", "en")))
    failed = talk.receive()
    assert isinstance(failed, LoadFailed)
    assert failed.is_out_of_memory
    until(lambda: was_free)
    assert was_free == [True]


def test_sequences_are_translated_by_their_models(start: Start) -> None:
    talk = start("en-pt", "pt-en")
    talk.receive()
    talk.send(Work({"en-pt": sequences(1, 2), "pt-en": sequences(3)}))
    talk.hear(3)
    assert {i: done.hypotheses[0].tokens for i, done in talk.done.items()} == {
        1: [101, 0],
        2: [102, 0],
        3: [103, 0],
    }
    phases = [batch.phase for report in talk.reports for batch in report.batches["en-pt"]]
    assert phases.count("encode") == 1
    assert phases.count("decode") >= 2
    assert talk.reports[0].memory_bytes["resident"] > 0


def test_newcomers_join_a_batch_that_runs(start: Start, script: Script) -> None:
    talk = start()
    talk.receive()
    script.may_finish.clear()
    talk.send(Work({"en-pt": sequences(1)}))
    until(lambda: len(script.admitted) == 1)
    talk.send(Work({"en-pt": sequences(2, 3)}))
    until(lambda: len(script.admitted) == 3)
    script.may_finish.set()
    talk.hear(3)


def test_figures_of_a_long_batch_do_not_wait_for_its_results(start: Start, script: Script) -> None:
    talk = start()
    talk.receive()
    script.may_finish.clear()
    talk.send(Work({"en-pt": sequences(1)}))
    for _ in range(2):
        report = talk.receive()
        assert isinstance(report, Report)
        assert not report.done
        assert report.batches["en-pt"]
    script.may_finish.set()
    talk.hear(1)


def test_aborted_sequence_is_never_heard_of(start: Start, script: Script) -> None:
    talk = start(max_rows=2)
    talk.receive()
    script.may_finish.clear()
    talk.send(Work({"en-pt": sequences(1, 2)}))
    until(lambda: len(script.admitted) == 2)
    talk.send(Abort([1, 77]), Work({"en-pt": sequences(3)}))
    until(lambda: len(script.admitted) == 3)
    assert script.aborted == [1]
    script.may_finish.set()
    talk.hear(2)
    assert talk.done.keys() == {2, 3}


def test_newcomers_of_several_messages_are_encoded_together(start: Start) -> None:
    """All but one that was given up in the meantime."""
    talk = start()
    talk.receive()
    works = [Work({"en-pt": sequences(1, 2)}), Work({"en-pt": sequences(3)})]
    talk.channel.send([*works, Abort([2])])
    talk.hear(2)
    assert talk.done.keys() == {1, 3}
    encoded = [
        (batch.rows, count)
        for report in talk.reports
        for batch, count in report.batches["en-pt"].items()
        if batch.phase == "encode"
    ]
    assert encoded == [(2, 1)]


def test_stop_ends_the_worker_in_the_middle_of_its_work(start: Start, script: Script) -> None:
    talk = start()
    talk.receive()
    script.may_finish.clear()
    talk.send(Work({"en-pt": sequences(1)}), Stop())
    talk.worker.thread.join()
    assert len(script.admitted) == 1


@pytest.mark.parametrize("is_busy", [False, True])
def test_end_of_the_server_is_the_end_of_the_worker(
    start: Start, script: Script, is_busy: bool
) -> None:
    talk = start()
    talk.receive()
    if is_busy:
        script.may_finish.clear()
        talk.send(Work({"en-pt": sequences(1)}))
        until(lambda: script.admitted)
    talk.channel.connection.shutdown(socket.SHUT_RDWR)
    talk.worker.thread.join()


def test_culprits_are_found_and_the_others_translated(
    start: Start, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    talk = start(max_rows=16)
    talk.receive()
    script.poison = {103, 110}
    with caplog.at_level(logging.WARNING):
        talk.send(Work({"en-pt": sequences(*range(16))}))
        talk.hear(16)
    assert talk.failed.keys() == {3, 10}
    assert all(failed.error == "RuntimeError" for failed in talk.failed.values())
    assert not any(failed.is_out_of_memory for failed in talk.failed.values())
    assert talk.done.keys() == {*range(16)} - {3, 10}
    assert talk.total("splits") == 7  # 16, two of 8, two of 4, two of 2
    assert talk.total("out_of_memory") == 0
    assert "sequence 3 cannot be computed" in caplog.text
    talk.send(Work({"en-pt": sequences(20)}))
    talk.hear(17)
    assert 20 in talk.done


def test_worker_goes_on_to_report_while_it_looks_for_a_culprit(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long batch that was started anew said nothing until it had ended, as if it hung."""
    monkeypatch.setattr(worker_module, "REPORT_SECONDS", -1.0)
    script.num_steps = 50
    script.poison.add(66)
    talk = start()
    talk.receive()
    talk.send(Work({"en-pt": [*sequences(1, tokens=[66]), *sequences(2, 3)]}))
    talk.hear(3)
    assert talk.failed.keys() == {1}
    assert len(talk.reports) > 50


def test_what_runs_already_is_started_anew_when_a_newcomer_fails(
    start: Start, script: Script
) -> None:
    talk = start()
    talk.receive()
    script.may_finish.clear()
    script.poison = {109}
    talk.send(Work({"en-pt": sequences(1, 2)}))
    until(lambda: len(script.admitted) == 2)
    talk.send(Work({"en-pt": sequences(9)}))
    until(lambda: len(script.admitted) > 3)
    script.may_finish.set()
    talk.hear(3)
    assert talk.done.keys() == {1, 2}
    assert talk.failed.keys() == {9}


def test_sequence_that_is_not_even_admitted_fails_alone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    admit = EchoEngine.admit

    def refuse(engine: EchoEngine, newcomers: list[Sequence]) -> None:
        if any(sequence.id == 2 for sequence in newcomers):
            raise RuntimeError("it cannot be encoded")
        admit(engine, newcomers)

    monkeypatch.setattr(EchoEngine, "admit", refuse)
    talk = start()
    talk.receive()
    talk.send(Work({"en-pt": sequences(1, 2, 3)}))
    talk.hear(3)
    assert (set(talk.done), set(talk.failed)) == ({1, 3}, {2})


def test_batch_that_needs_too_much_memory_is_halved(start: Start, script: Script) -> None:
    talk = start()
    talk.receive()
    script.no_memory = {55}
    talk.send(Work({"en-pt": sequences(1, 2, 3, tokens=[55])}))
    talk.hear(3)
    assert talk.done.keys() == {1, 2, 3}
    assert talk.total("out_of_memory") == 2
    assert talk.total("splits") == 2


def test_sequence_that_needs_too_much_memory_alone_is_told_so(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_engine: EchoEngine) -> None:
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setattr(EchoEngine, "_fail_if_scripted", fail)
    talk = start()
    talk.receive()
    talk.send(Work({"en-pt": sequences(1)}))
    talk.hear(1)
    assert talk.failed[1].is_out_of_memory
    assert talk.total("out_of_memory") == 1
    assert talk.total("splits") == 0


def test_fault_after_all_were_aborted_harms_nobody(script: Script) -> None:
    """The engine may fail with nothing in it; nobody is told, as nobody asked."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = Worker(Channel(theirs), script.load)
        worker.engines["en-pt"] = script.load(files("en", "pt"), config())
        worker._isolate("en-pt", RuntimeError("late"))
        assert not worker.failed
        assert worker.is_idle


def test_idle_worker_sleeps(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits in `receive`, and steps nothing meanwhile."""
    steps: list[int] = []
    step = Worker._step

    def counted(worker: Worker) -> None:
        steps.append(1)
        step(worker)

    monkeypatch.setattr(Worker, "_step", counted)
    talk = start()
    talk.receive()
    talk.send(Abort([1]))
    talk.send(Work({"en-pt": sequences(1)}))
    talk.hear(1)
    before = len(steps)
    talk.send(Abort([2]), Stop())
    talk.worker.thread.join()
    assert len(steps) - before <= 2


def test_memory_is_that_of_this_process() -> None:
    memory = memory_bytes()
    assert 10_000_000 < memory["resident"] < 100_000_000_000
    assert ("peak" in memory) == torch.cuda.is_available()


class Sent:
    """In place of a channel: what a worker would have sent."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def send(self, report: Report) -> None:
        self.reports.append(report)


@pytest.mark.parametrize(
    ("rows", "tokens", "steps"),
    [(HOLD_ROWS - 1, 1, 1), (HOLD_ROWS, 1, HOLD_STEPS + 1), (HOLD_ROWS, HOLD_STEPS + 1, 1)],
)
def test_results_wait_a_few_steps_for_others_beside_a_full_batch(
    rows: int, tokens: int, steps: int
) -> None:
    """No thread and no engine: only the rows in use and the tokens of a step decide."""
    sent = Sent()
    worker = Worker(cast("Channel", sent))
    worker.engines["en-pt"] = cast(
        "Engine",
        SimpleNamespace(num_rows=rows, tokens_per_step=tokens, stats=[], drain_stats=list),
    )
    worker.last_report = math.inf  # figures are not due
    for number in range(steps):
        assert not sent.reports
        worker.done.append(Done(number, []))
        worker._report()
    (report,) = sent.reports
    assert [done.id for done in report.done] == list(range(steps))
    assert not worker.done
    worker._report()
    assert len(sent.reports) == 1


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
    wanted = WorkerConfig(
        (built_in,), "cpu", "float32", shortlist, limits, threads=1, attention_share=0.1
    )
    engine = load_from_files(built_in, wanted)
    assert engine.limits.max_rows == CPU_ROWS
    assert (torch_runner(engine).shortlist is not None) == is_used
    assert engine.num_rows == 0


def test_program_serves_the_socket_that_it_inherits(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    ignored: list[int] = []
    monkeypatch.setattr(sys, "argv", ["worker", str(theirs.detach())])
    monkeypatch.setattr(signal, "signal", lambda sig, _: ignored.append(sig))
    levels: list[str] = []
    monkeypatch.setattr(worker_module, "set_log_level", levels.append)
    monkeypatch.setattr(
        worker_module, "Worker", lambda channel, **options: Worker(channel, script.load, **options)
    )
    thread = threading.Thread(target=worker_module.main)
    thread.start()
    with ours:
        talk = Channel(ours)
        talk.send([replace(config(), log_level="error")])
        assert isinstance(talk.receive(), Ready)
        talk.send([Stop()])
        thread.join()
    assert len(ignored) == 2
    assert levels == ["error"]


def test_log_level_of_the_settings_is_that_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers logged at INFO whatever REGARD_LOG_LEVEL said."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", root.level)
    worker_module.set_log_level("error")
    assert not logging.getLogger("regard.worker").isEnabledFor(logging.WARNING)
