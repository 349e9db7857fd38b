"""Workers that die and devices that fail: sentences are tried once more, and others take over."""

import asyncio
import os
import signal
import socket

import pytest
import torch

from model.errors import CheckpointNotFoundError
from service.errors import UnavailableError
from service.ipc.processes import Process
from service.scheduling.supervisor import start_process
from service.server import create_app
from service.workers.device_memory import is_fatal, is_out_of_memory
from tests.api.conftest import Serve
from tests.api.loading import starter
from tests.api.servers import Server, assert_error, make_settings
from tests.workers import LIMIT_SECONDS, Script, Threads, ThreadWorker, until


def restarts(server: Server) -> float:
    return server.sample("regard_engine_restarts_total")


def test_sentence_of_a_worker_that_died_is_tried_once_more(serve: Serve, script: Script) -> None:
    server = serve()
    script.fatal.append(server.token("Hello"))
    assert server.translate(["Hello.", "Bye."]).json() == {"translatedText": ["Hello.", "Bye."]}
    assert restarts(server) == 1
    assert server.sample("regard_decode_slots", model="en-pt", state="used") == 0
    assert server.sample("regard_ready") == 1


def test_sentence_that_two_workers_died_over_is_given_up(serve: Serve, script: Script) -> None:
    server = serve()
    hello = server.token("Hello")
    script.fatal += [hello, hello]
    response = server.translate("Hello.")
    assert_error(response, UnavailableError, "two workers died")
    assert server.num_requests("unavailable") == 1
    server.until_ready()
    assert restarts(server) == 2
    assert server.translate("Hello.").status_code == 200
    server.until_released()


def test_other_worker_takes_over(serve: Serve, script: Script) -> None:
    """What waits and what the dead worker held is done by the one that is left."""
    server = serve(workers=2, max_rows=2, max_beam_size=2)
    workers = starter(server)
    script.may_finish.clear()
    texts = [f"Sentence {number}." for number in range(8)]
    begun = [server.begin_translate(text) for text in texts]
    until(lambda: len(script.admitted) == 4)
    script.may_load.clear()  # the dead one does not come back
    workers.started[0].kill()
    until(lambda: len(server.core.supervisor.ready) == 1)
    script.may_finish.set()
    assert [reply.result(LIMIT_SECONDS).json()["translatedText"] for reply in begun] == texts
    assert server.get("/health/ready").status_code == 200
    script.may_load.set()
    server.until_ready()
    assert server.sample("regard_decode_slots", model="en-pt", state="free") == 4


def test_what_waits_is_kept_while_the_only_worker_starts_again(
    serve: Serve, script: Script
) -> None:
    server = serve(max_rows=1, max_beam_size=1)
    script.may_finish.clear()
    begun = [server.begin_translate(f"Sentence {number}.") for number in range(3)]
    until(lambda: len(script.admitted) == 1)
    server.until_admitted(3)
    script.may_load.clear()
    script.fatal += script.admitted[0].source[:1]
    until(lambda: not server.core.supervisor.is_ready)
    assert_error(server.translate("Too early."), UnavailableError, "try again")
    assert_error(server.get("/health/ready"), UnavailableError)
    assert server.sample("regard_ready") == 0
    assert server.sample("regard_decode_slots", model="en-pt", state="free") == 0
    script.may_finish.set()
    script.may_load.set()
    assert {reply.result(LIMIT_SECONDS).status_code for reply in begun} == {200}


def test_model_that_cannot_be_loaded_ends_the_server(script: Script) -> None:
    script.load_error = CheckpointNotFoundError("the weights are not there")
    told: list[str] = []
    app = create_app(make_settings(workers=2), Threads(script.load), told.append)
    with Server(app) as server:
        until(lambda: told)
        response = server.get("/health/ready")
        assert_error(response, UnavailableError, "en-pt: the weights are not there")
        assert response.headers["retry-after"] == "60"
        assert server.get("/health/live").status_code == 200
        assert_error(server.translate("Hello."), UnavailableError)
        until(lambda: all(task.done() for task in server.core.supervisor.keeper.tasks))
        assert told == ["en-pt: the weights are not there"]
        assert restarts(server) == 0


def test_worker_that_cannot_be_started_is_tried_again(script: Script) -> None:
    threads = Threads(script.load)
    faults = [OSError(11, "no more processes")]

    async def start(connection: socket.socket, num_threads: int) -> Process:
        if faults:
            raise faults.pop()
        return await threads(connection, num_threads)

    with Server(create_app(make_settings(), start)) as server:
        server.until_ready()
        assert server.translate("Hello.").status_code == 200
        assert restarts(server) == 1


def test_worker_that_dies_while_it_loads_is_started_again(serve: Serve, script: Script) -> None:
    script.may_load.clear()
    server = serve(is_ready=False)
    workers = starter(server)
    until(lambda: workers.started)
    workers.started[0].kill()
    script.may_load.set()
    server.until_ready()
    assert len(workers.started) == 2


def test_threads_are_as_many_as_a_worker_may_use(script: Script) -> None:
    given: list[int] = []

    class Counted(Threads):
        async def __call__(self, connection: socket.socket, num_threads: int) -> ThreadWorker:
            given.append(num_threads)
            return await super().__call__(connection, num_threads)

    app = create_app(make_settings(workers=len(os.sched_getaffinity(0)) * 2), Counted(script.load))
    with Server(app) as server:
        server.until_ready()
    assert set(given) == {1}


def test_worker_that_hangs_is_replaced_and_its_sentences_are_tried_once_more(
    serve: Serve, script: Script
) -> None:
    server = serve(worker_timeout_seconds=2)
    script.hanging.append(server.token("Hello"))
    begun = server.begin_translate(["Hello.", "Bye."])
    until(lambda: not server.core.supervisor.ready)
    script.may_go_on.set()  # a thread cannot be killed
    assert begun.result(LIMIT_SECONDS).json() == {"translatedText": ["Hello.", "Bye."]}
    assert server.sample("regard_engine_restarts_total") == 1


@pytest.mark.slow
@pytest.mark.checkpoint
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGSTOP])
def test_process_that_ends_or_hangs_is_replaced_and_its_request_answered(
    stop: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # the machine may have other work
    pids: list[int] = []

    async def start(connection: socket.socket, num_threads: int) -> Process:
        process = await start_process(connection, num_threads)
        assert isinstance(process, asyncio.subprocess.Process)
        pids.append(process.pid)
        return process

    texts = [f"Here is sentence number {number} of a long letter." for number in range(60)]
    settings = make_settings(
        device="cpu", dtype="float32", max_rows=8, max_batch_tokens=128, worker_timeout_seconds=8
    )
    with Server(create_app(settings, start)) as server:
        server.until_ready()
        begun = server.begin_translate(texts)
        until(lambda: server.sample("regard_decode_slots", model="en-pt", state="used"))
        os.kill(pids[0], stop)
        response = begun.result(LIMIT_SECONDS)
        assert response.status_code == 200
        assert len(response.json()["translatedText"]) == len(texts)
        assert restarts(server) == 1
        assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


ILLEGAL = "CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize(
    ("error", "spoils", "lacks_memory"),
    [
        (RuntimeError(ILLEGAL), True, False),
        (RuntimeError("CUDA driver error: an illegal memory access was encountered"), True, False),
        (RuntimeError("Triton Error [CUDA]: an illegal instruction"), True, False),
        (RuntimeError("Triton Error [CUDA]: misaligned address"), True, False),
        (torch.AcceleratorError("device-side assert triggered"), True, False),
        (torch.OutOfMemoryError("CUDA out of memory"), False, True),
        (RuntimeError("CUDA error: out of memory"), False, True),
        (torch.AcceleratorError("CUDA error: out of memory"), False, True),
        (RuntimeError("Triton Error [CUDA]: out of memory"), False, True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublas"), False, True),
        (RuntimeError("a fault of one sentence"), False, False),
        (ValueError("out of memory"), False, False),
        (MemoryError(), False, True),
    ],
)
def test_error_that_spoils_the_device_is_told_from_others(
    error: Exception, spoils: bool, lacks_memory: bool
) -> None:
    assert (is_fatal(error), is_out_of_memory(error)) == (spoils, lacks_memory)


def test_lack_of_memory_on_the_cpu_is_known() -> None:
    with pytest.raises(RuntimeError) as found:
        torch.empty(1 << 50)
    assert is_out_of_memory(found.value)


def test_fatal_error_flips_ready_and_fails_what_waits(serve: Serve, script: Script) -> None:
    server = serve(max_rows=2, max_beam_size=2)
    workers = starter(server)
    script.may_finish.clear()
    begun = [server.begin_translate(f"Sentence {number}.") for number in range(4)]
    until(lambda: len(script.admitted) == 2)
    server.until_admitted(4)
    script.may_load.clear()
    script.device_errors += script.admitted[0].source[:1]
    for reply in begun:  # two of them waited in the queue
        assert_error(reply.result(LIMIT_SECONDS), UnavailableError, "the device failed")
    assert_error(server.get("/health/ready"), UnavailableError)
    assert server.sample("regard_ready") == 0
    workers.started[0].thread.join(LIMIT_SECONDS)
    assert workers.started[0].worker.exit_status == 1
    server.until_released()
    script.may_finish.set()
    script.may_load.set()
    server.until_ready()
    assert server.translate("Hello.").status_code == 200


def test_device_that_fails_again_and_again_ends_the_server(script: Script) -> None:
    reasons: list[str] = []
    with Server(create_app(make_settings(), Threads(script.load), reasons.append)) as server:
        hello = server.token("Hello")
        for count in range(1, 4):
            server.until_ready()
            script.device_errors.append(hello)
            assert_error(server.translate("Hello."), UnavailableError, "the device failed")
            until(lambda: not server.core.supervisor.ready)
            assert server.core.supervisor.num_device_failures == count
        until(lambda: reasons)
        assert reasons == [f"the device failed 3 times: {ILLEGAL}"]
        assert_error(server.get("/health/ready"), UnavailableError, "the device failed 3 times")
