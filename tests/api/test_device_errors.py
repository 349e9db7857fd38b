"""Fatal errors of the device, as of CUDA: simulated by an engine that raises them."""

import pytest
import torch

from service.errors import UnavailableError
from service.server import create_app
from service.workers.device_memory import is_fatal, is_out_of_memory
from tests.api.conftest import Serve
from tests.api.servers import Server, assert_error, make_settings
from tests.workers import LIMIT_SECONDS, Script, Threads, until

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
    starter = server.core.supervisor.start_worker
    assert isinstance(starter, Threads)
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
    starter.started[0].thread.join(LIMIT_SECONDS)
    assert starter.started[0].worker.exit_status == 1
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
