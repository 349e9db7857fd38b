"""Faults of files, workers and times when models are loaded while the server runs."""

import threading
import time
from pathlib import Path
from shutil import copytree

import pytest

from model.errors import CheckpointFormatError
from service.errors import (
    ConflictError,
    InternalError,
    InvalidRequestError,
    ServiceError,
    UnavailableError,
)
from service.models import changes
from service.models.changes import Placements
from service.settings import Settings
from service.workers.messages import AnyFiles, ModelSet
from tests.api.conftest import Serve, ServeApart
from tests.api.loading import (
    BUILT_IN,
    KEY,
    assert_refused,
    begin,
    load,
    loaded_models,
    starter,
    states,
    to_english,
    unload,
    until_asked,
)
from tests.api.servers import AnyServer
from tests.api.test_loading import any_server, server
from tests.workers import LIMIT_SECONDS, Script, until

__all__ = ["any_server", "server"]  # fixtures

Held = dict[str, threading.Event]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    """Maps names of models to events. The load of such a model waits for its event."""
    events: Held = {}
    find = changes.find

    def wait(name: str, source: str, settings: Settings) -> tuple[AnyFiles, Placements]:
        if name in events:
            events[name].wait(LIMIT_SECONDS)
        return find(name, source, settings)

    monkeypatch.setattr(changes, "find", wait)
    return events


def test_failure_is_told_and_the_server_goes_on(
    server: AnyServer, script: Script, portuguese: str
) -> None:
    script.load_error = CheckpointFormatError("model.bin is cut short")
    response = load(server, "pt-en", portuguese)
    assert_refused(response, InvalidRequestError, "pt-en", "model.bin is cut short")
    assert states(server) == {"en-pt": "ready", "pt-en": "failed"}
    found = server.get("/v1/models/pt-en", headers={"Authorization": f"Bearer {KEY}"})
    assert "model.bin is cut short" in found.json()["error"]
    assert server.get("/v1/models/pt-en").json()["error"] is None
    assert server.translate("Hello.").status_code == 200
    assert server.get("/health/ready").status_code == 200
    script.load_error = None
    assert load(server, "pt-en", portuguese).json()["state"] == "ready"
    assert to_english(server).status_code == 200


def test_failure_in_the_second_worker_takes_it_out_of_the_first(
    server: AnyServer, script: Script, portuguese: str
) -> None:
    script.load_errors = [None, CheckpointFormatError("it is gone")]
    assert_refused(load(server, "pt-en", portuguese), InvalidRequestError, "it is gone")
    assert loaded_models(server) == [{"en-pt"}, {"en-pt"}]
    with pytest.raises(KeyError):
        server.sample("regard_model_memory_bytes", model="pt-en", worker="worker-0")
    assert server.translate("Hello.").status_code == 200
    assert unload(server, "pt-en").json()["deleted"]  # it is forgotten that it failed
    assert states(server) == {"en-pt": "ready"}


@pytest.mark.parametrize(
    ("error", "kind", "word"),
    [
        (MemoryError(), ConflictError, "unload another model"),
        (RuntimeError("secret"), InternalError, "RuntimeError"),
    ],
)
def test_fault_while_loading_is_told(
    server: AnyServer,
    script: Script,
    portuguese: str,
    error: Exception,
    kind: type[ServiceError],
    word: str,
) -> None:
    script.load_errors = [error]
    response = load(server, "pt-en", portuguese)
    assert_refused(response, kind, word)
    assert "secret" not in response.text
    assert server.translate("Hello.").status_code == 200
    assert server.sample("regard_engine_restarts_total") == 0


def test_files_that_cannot_be_served_are_refused_before_a_worker_sees_them(
    server: AnyServer, script: Script, portuguese: str, tmp_path: Path
) -> None:
    damaged = copytree(portuguese, tmp_path / "damaged")
    for file in damaged.glob("vocab.*"):
        file.write_bytes(file.read_bytes()[:1000])
    script.load_error = CheckpointFormatError("a worker has been asked")
    assert_refused(load(server, "pt-en", str(damaged)), InvalidRequestError, "vocab")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert_refused(load(server, "pt-en", str(empty)), InvalidRequestError, "empty")
    assert_refused(load(server, "xx-yy", BUILT_IN), InvalidRequestError, "en-pt, pt-en")
    pulled = load(server, "en-de", "firefox:en-de")
    assert_refused(pulled, InvalidRequestError, "regard models pull firefox:en-de")
    long = load(server, "pt-en", "/" + "x" * 5000)
    assert_refused(long, InvalidRequestError, "/xxx", "File name too long")
    assert states(server) == {"en-pt": "ready"}


@pytest.mark.parametrize(
    ("error", "kind", "word"),
    [
        (CheckpointFormatError("vocab.spm is another"), InvalidRequestError, "is another"),
        (OSError("secret"), InternalError, "OSError"),
    ],
)
def test_model_that_cannot_be_announced_is_taken_back(
    server: AnyServer, portuguese: str, error: Exception, kind: type[ServiceError], word: str
) -> None:
    """It stayed in the state `loading`, or in the workers, where no request could use it."""
    changes = server.core.changes
    announce = changes.announce

    async def fail_once(_files: ModelSet) -> None:
        changes.announce = announce
        raise error

    changes.announce = fail_once
    response = load(server, "pt-en", portuguese)
    assert_refused(response, kind, word)
    assert "secret" not in response.text
    assert states(server) == {"en-pt": "ready", "pt-en": "failed"}
    assert loaded_models(server) == [{"en-pt"}, {"en-pt"}]
    assert load(server, "pt-en", portuguese).json()["state"] == "ready"
    assert to_english(server).status_code == 200


def test_worker_that_dies_comes_back_with_the_models_of_then(
    server: AnyServer, script: Script, portuguese: str
) -> None:
    load(server, "pt-en", portuguese)
    unload(server, "en-pt")
    for worker in [*starter(server).started]:
        worker.kill()
    until(lambda: server.sample("regard_engine_restarts_total") == 2)
    server.until_ready()
    assert to_english(server).json() == {"translatedText": "Olá."}
    assert server.sample("regard_decode_slots", model="pt-en", state="free") == 16
    assert loaded_models(server, first=2) == [{"pt-en"}, {"pt-en"}]


def test_worker_that_dies_while_it_loads(
    server: AnyServer, script: Script, portuguese: str
) -> None:
    script.may_load.clear()
    begun = begin(server, "POST", "pt-en", json={"source": portuguese})
    until_asked(server)
    (link,) = (link for link in server.core.supervisor.links if link.answers)
    starter(server).started[int(link.name[-1])].kill()
    response = begun.result(LIMIT_SECONDS)
    script.may_load.set()
    assert response.status_code == 503
    assert "a worker died" in response.json()["error"]["message"]
    server.until_ready()
    assert server.translate("Hello.").status_code == 200
    assert load(server, "pt-en", portuguese).status_code == 200
    assert to_english(server).status_code == 200


def test_worker_that_starts_while_a_model_comes_gets_it_too(
    server: AnyServer, script: Script, portuguese: str
) -> None:
    """It was told of the models of before, and loads the new one when it is ready."""
    script.may_load.clear()
    starter(server).started[0].kill()
    until(lambda: len(starter(server).started) == 3)
    begun = begin(server, "POST", "pt-en", json={"source": portuguese})
    until_asked(server)
    script.may_load.set()
    assert begun.result(LIMIT_SECONDS).status_code == 200
    server.until_ready()
    until(lambda: server.sample("regard_decode_slots", model="pt-en", state="free") == 16)


def test_added_model_that_cannot_be_loaded_any_more_is_unloaded(
    any_server: AnyServer, script: Script, portuguese: str
) -> None:
    """The server started without it, and so goes on without it."""
    load(any_server, "pt-en", portuguese)
    script.failing = {"pt-en": CheckpointFormatError("it is gone")}
    starter(any_server).started[0].kill()
    until(lambda: "pt-en" not in states(any_server))
    any_server.until_ready()
    assert any_server.core.supervisor.failure is None
    assert any_server.translate("Hello.").status_code == 200
    assert to_english(any_server).status_code == 400


def test_http_worker_that_starts_later_knows_the_models(
    serve_apart: ServeApart, english: str, portuguese: str
) -> None:
    server = serve_apart(models=(english,), admin_key=KEY)
    load(server, "pt-en", portuguese)
    for started in [*server.main.links.values()]:
        started.process.kill()
    until(lambda: len(server.pids) == 4)
    server.until_listening()
    for _ in range(4):
        assert to_english(server).status_code == 200


@pytest.mark.parametrize("source", ["portuguese", "empty"])
def test_why_a_load_failed_that_took_longer_than_a_request_is_told(
    server_with_short_requests: AnyServer,
    script: Script,
    portuguese: str,
    tmp_path: Path,
    held: Held,
    source: str,
) -> None:
    """Only requests with the admin key get the reason. Another attempt ends the state."""
    server = server_with_short_requests
    script.load_error = CheckpointFormatError("model.bin is cut short")
    release = held["pt-en"] = threading.Event()
    empty = tmp_path / "empty"
    empty.mkdir()
    folder = portuguese if source == "portuguese" else str(empty)
    response = load(server, "pt-en", folder)
    assert (response.status_code, response.json()["error"]) == (202, None)
    release.set()
    until(lambda: states(server).get("pt-en") == "failed")
    reason = "model.bin is cut short" if source == "portuguese" else str(empty)
    for path in ("/v1/models/pt-en", "/v1/models"):
        assert reason in server.get(path, headers={"Authorization": f"Bearer {KEY}"}).text
        assert reason not in server.get(path, headers={"Authorization": "Bearer other"}).text
        assert reason not in server.get(path).text
    script.load_error = None
    assert load(server, "pt-en", portuguese).status_code in (200, 202)
    until(lambda: states(server)["pt-en"] == "ready")
    found = server.get("/v1/models/pt-en", headers={"Authorization": f"Bearer {KEY}"})
    assert "error" not in found.json()


@pytest.fixture
def server_with_short_requests(serve_apart: ServeApart, english: str) -> AnyServer:
    return serve_apart(models=(english,), admin_key=KEY, request_timeout_seconds=0.5)


def test_server_stops_while_a_model_loads(
    serve: Serve, script: Script, english: str, portuguese: str
) -> None:
    server = serve(models=(english,), admin_key=KEY)
    script.may_load.clear()
    begin(server, "POST", "pt-en", json={"source": portuguese})
    until_asked(server)
    server.run(server.core.stop())
    assert not server.core.changes.tasks
    assert not any(worker.thread.is_alive() for worker in starter(server).started)


def test_other_models_are_loaded_during_a_load_that_hangs(
    serve: Serve, english: str, portuguese: str, held: Held
) -> None:
    released = held["stuck"] = threading.Event()
    server = serve(models=(english,), admin_key=KEY)
    stuck = begin(server, "POST", "stuck", json={"source": portuguese})
    until(lambda: server.core.changes.states)
    assert load(server, "pt-en", portuguese).status_code == 200
    assert not stuck.done()
    released.set()
    assert stuck.result(LIMIT_SECONDS).status_code == 400  # the folder has no model of that name


def test_load_that_hangs_is_given_up(
    serve: Serve,
    english: str,
    portuguese: str,
    held: Held,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = held["stuck"] = threading.Event()
    monkeypatch.setattr(changes, "LOAD_SECONDS", 0.2)
    server = serve(models=(english,), admin_key=KEY)
    refused = load(server, "stuck", portuguese)
    assert_refused(refused, UnavailableError, "stuck was not loaded within", "check the disk")
    assert "stuck" not in states(server)
    monkeypatch.setattr(changes, "LOAD_SECONDS", 60.0)
    assert load(server, "pt-en", portuguese).status_code == 200
    released.set()


def test_load_that_hangs_does_not_delay_the_end(
    serve: Serve, english: str, portuguese: str, held: Held
) -> None:
    released = held["stuck"] = threading.Event()
    server = serve(models=(english,), admin_key=KEY, request_timeout_seconds=0.1)
    assert load(server, "stuck", portuguese).status_code == 202
    began = time.monotonic()
    server.run(server.core.stop())
    server.run(server.loop.shutdown_default_executor())
    assert time.monotonic() - began < LIMIT_SECONDS / 2
    released.set()
