"""Configures all tests, so that none depends on the current speed of the machine.

Numpy computes with one thread. With more, the threads of several test processes wait for each
other in busy loops. Child processes inherit the variable.
"""

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

BROWSER = "tests/browser/"

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if (
    shutil.which("nvidia-smi") is None and not Path("/dev/nvidiactl").exists()
):  # Triton reads the variable when it is first imported
    os.environ["TRITON_INTERPRET"] = "1"


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


settings.register_profile("regard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("regard")


@pytest.fixture(autouse=True)
def _log_is_restored() -> Iterator[None]:
    """Restores the log after each test. A handler of the test may write to a closed stream."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
