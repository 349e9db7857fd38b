"""A load that hangs, as on a disk of a dead network, delays neither other loads nor the end."""

import threading
import time
from typing import Any

import pytest

from service.errors import UnavailableError
from service.models import changes
from tests.api.conftest import Serve
from tests.api.loading import KEY, assert_refused, begin, load, states
from tests.workers import LIMIT_SECONDS, until


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    released = threading.Event()
    find = changes.find

    def hang(name: str, source: str, settings: Any) -> Any:
        if name == "stuck":
            released.wait(LIMIT_SECONDS)
        return find(name, source, settings)

    monkeypatch.setattr(changes, "find", hang)
    return released


def test_other_models_are_loaded_during_a_load_that_hangs(
    serve: Serve, english: str, portuguese: str, hanging: threading.Event
) -> None:
    server = serve(models=(english,), admin_key=KEY)
    stuck = begin(server, "POST", "stuck", json={"source": portuguese})
    until(lambda: server.core.changes.states)
    assert load(server, "pt-en", portuguese).status_code == 200
    assert not stuck.done()
    hanging.set()
    assert stuck.result(LIMIT_SECONDS).status_code == 400  # the folder has no model of that name


def test_load_that_hangs_is_given_up(
    serve: Serve,
    english: str,
    portuguese: str,
    hanging: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "LOAD_SECONDS", 0.2)
    server = serve(models=(english,), admin_key=KEY)
    refused = load(server, "stuck", portuguese)
    assert_refused(refused, UnavailableError, "stuck was not loaded within", "check the disk")
    assert "stuck" not in states(server)
    monkeypatch.setattr(changes, "LOAD_SECONDS", 60.0)
    assert load(server, "pt-en", portuguese).status_code == 200
    hanging.set()


def test_load_that_hangs_does_not_delay_the_end(
    serve: Serve, english: str, portuguese: str, hanging: threading.Event
) -> None:
    server = serve(models=(english,), admin_key=KEY, request_timeout_seconds=0.1)
    assert load(server, "stuck", portuguese).status_code == 202
    began = time.monotonic()
    server.run(server.core.stop())
    server.run(server.loop.shutdown_default_executor())
    assert time.monotonic() - began < LIMIT_SECONDS / 2
    hanging.set()
