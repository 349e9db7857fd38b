"""Configures all tests, so that none depends on the current speed of the machine.

Numpy computes with one thread. With more, the threads of several test processes wait for each
other in busy loops. Child processes inherit the variable.
"""

import asyncio
import gc
import inspect
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from service.ipc.machine import freeze_heap

BROWSER = "tests/browser/"

SLOW = {
    "tests/api/test_drain.py": "ends whole programs, which serve until their last request",
    "tests/api/test_envoy.py": "needs Envoy",
    "tests/api/test_ray_serve.py": "starts clusters of Ray",
    "tests/browser/test_axe.py": "analyses each state of the page for two seconds",
    "tests/browser/test_pictures.py": "draws pictures of the page",
    "tests/clients": "needs other people's clients",
    "tests/unit/test_bulk_ray.py": "kills bulk jobs, and starts clusters of Ray",
    "tests/unit/test_chart.py": "needs helm",
    "tests/unit/test_chart_values.py": "needs helm",
    "tests/unit/test_instruction_sets.py": "runs emulated processors",
    "tests/unit/test_ray_serve.py": "imports Ray",
}
"""The files and folders of the marker `slow`; `make slow` installs their tools, and runs them."""

gc.disable()  # until all tests are collected: each collection would scan all that is loaded

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if (
    shutil.which("nvidia-smi") is None and not Path("/dev/nvidiactl").exists()
):  # Triton reads the variable when it is first imported
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out the slow files where their tests are not run, because some import Ray."""
    name = collection_path.relative_to(config.rootpath).as_posix()
    return True if name in SLOW and config.option.markexpr == "not slow" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of the page first: one process runs them all, and would be the last to end."""
    items.sort(key=lambda item: not item.nodeid.startswith(BROWSER))
    for item in items:
        if item.nodeid.startswith(BROWSER):
            item.add_marker("browser")
        if item.nodeid.startswith(tuple(SLOW)):
            item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an asynchronous test in an event loop that loses no error.

    It enters the asynchronous context managers among the arguments.
    """
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    unhandled: list[dict[str, Any]] = []

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        async with AsyncExitStack() as stack:
            arguments = {}
            for name in inspect.signature(test).parameters:
                value = pyfuncitem.funcargs[name]
                if isinstance(value, AbstractAsyncContextManager):
                    value = await stack.enter_async_context(value)
                arguments[name] = value
            await test(**arguments)

    asyncio.run(watched())
    assert not unhandled
    return True


def pytest_xdist_auto_num_workers() -> int:
    """Returns the number of test processes: one more than processors, because many tests wait."""
    return len(os.sched_getaffinity(0)) + 1


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """Runs the tests of a file in one process, and those of the page too, with one browser."""

    def _split_scope(self, nodeid: str) -> str:
        return BROWSER if nodeid.startswith(BROWSER) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Returns the scheduler of the test processes."""
    return Scheduling(config, log)


for profile, examples in {"regard": 15, "nightly": 300}.items():
    settings.register_profile(
        profile,
        derandomize=profile == "regard",  # a failure must not depend on the run; nightly searches
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "regard"))


def pytest_collection_finish() -> None:
    """Excludes all that is loaded from garbage collections, each of which would take 0.3 s."""
    freeze_heap()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _heap_stays_frozen() -> Iterator[None]:
    """Keeps device workers in threads from collecting and freezing the heap of all tests."""
    from service.workers import worker  # only test processes import torch

    with pytest.MonkeyPatch.context() as patch:
        for name in ("freeze_heap", "give_back_memory"):
            patch.setattr(worker, name, lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _float32_on_every_cpu() -> Iterator[None]:
    """Lets `auto` select float32 in PyTorch on a CPU with AMX too, where it selects bfloat16.

    The expected values of the tests are float32. Servers that are processes of their own keep the
    selection for their CPU.
    """
    from model import precision  # only test processes import torch

    fastest, float32 = precision.fastest_float, precision.Precision.FLOAT32
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            precision, "fastest_float", lambda it: fastest(it) if it.type == "cuda" else float32
        )
        yield


@pytest.fixture(autouse=True)
def _log_is_restored() -> Iterator[None]:
    """Restores the log after each test. A handler of the test may write to a closed stream."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
