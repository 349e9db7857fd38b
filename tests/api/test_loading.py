"""Models that are loaded and unloaded while the server runs."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from service.errors import (
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    UnauthorizedError,
)
from service.server import create_app
from tests.api.conftest import Serve, ServeAny, ServeLive
from tests.api.loading import (
    KEY,
    assert_refused,
    begin,
    load,
    loaded_models,
    states,
    to_english,
    unload,
    until_asked,
)
from tests.api.servers import AnyServer, Server, make_settings, served
from tests.hf_files import SENTENCE, write_pieces
from tests.workers import LIMIT_SECONDS, Script, until


@pytest.fixture
def server(serve: Serve, english: str) -> AnyServer:
    return serve(models=(english,), admin_key=KEY, workers=2)


@pytest.fixture
def any_server(serve_any: ServeAny, english: str) -> AnyServer:
    """A server with one HTTP process, and one with several."""
    return serve_any(models=(english,), admin_key=KEY, workers=2)


def test_model_is_loaded_and_translates_and_is_unloaded(
    any_server: AnyServer, portuguese: str
) -> None:
    assert to_english(any_server).status_code == 400
    for _ in range(2):  # again, after it was unloaded
        response = load(any_server, "pt-en", portuguese)
        assert response.status_code == 200, response.text
        body = response.json()
        assert (body["id"], body["state"], body["source"]) == ("pt-en", "ready", "pt")
        assert states(any_server) == {"en-pt": "ready", "pt-en": "ready"}
        for _ in range(4):  # whichever HTTP worker answers
            assert to_english(any_server).json() == {"translatedText": "Olá."}
        assert any_server.translate("Hello.").json() == {"translatedText": "Hello."}
        languages = {each["code"]: each["targets"] for each in any_server.get("/languages").json()}
        assert languages == {"en": ["en", "pt"], "pt": ["en", "pt"]}
        assert any_server.sample("regard_decode_slots", model="pt-en", state="free") == 16
        assert any_server.sample("regard_model_memory_bytes", model="pt-en", worker="worker-1") == 0
        response = unload(any_server, "pt-en")
        assert response.json() == {"id": "pt-en", "object": "model", "deleted": True}
        assert states(any_server) == {"en-pt": "ready"}
        for _ in range(4):
            assert to_english(any_server).json()["error_type"] == "unsupported_language"
        with pytest.raises(KeyError):
            any_server.sample("regard_decode_slots", model="pt-en", state="free")
    assert any_server.translate("Hello.").json() == {"translatedText": "Hello."}
    assert any_server.num_requests("ok", model="pt-en") == 8


@pytest.fixture(params=[1, 2])
def embedding_server(request: pytest.FixtureRequest, english: str) -> Iterator[AnyServer]:
    with served(models=(english,), admin_key=KEY, http_workers=request.param) as found:
        yield found


def test_embedding_model_is_loaded_and_unloaded(
    embedding_server: AnyServer, embedding_folder: str
) -> None:
    server = embedding_server
    question = {"model": "tiny", "text": "a cat", "task": "embed"}

    def statuses() -> list[int]:
        requests = ("/embed", {"inputs": "a cat"}), ("/attention", question)
        return [server.post(path, json=body).status_code for path, body in requests]

    assert statuses() == [424, 404]
    assert load(server, "tiny", embedding_folder).json()["dimensions"] == 32
    for _ in range(4):
        assert statuses() == [200, 200]
    assert unload(server, "tiny").json()["deleted"]
    assert statuses() == [424, 404]
    with pytest.raises(KeyError):
        server.sample("regard_queue_depth", task="attention", model="tiny", lane="interactive")
    assert server.translate("Hello.").status_code == 200


@pytest.fixture
def legs(tmp_path: Path) -> str:
    for name in ("de-en", "en-fr"):
        folder = tmp_path / "legs" / name
        folder.mkdir(parents=True)
        write_pieces(folder, [name])
        (folder / "config.json").write_text('{"model_type": "marian"}', encoding="utf-8")
        (folder / "model.safetensors").write_bytes(name.encode())
    return str(tmp_path / "legs")


def test_two_models_meet_in_english_when_both_are_loaded(server: AnyServer, legs: str) -> None:
    for _ in range(2):  # again, after one was unloaded
        for name in ("de-en", "en-fr"):
            response = server.translate(SENTENCE, source="de", target="fr")
            assert response.json()["error_type"] == "unsupported_language"
            assert load(server, name, f"{legs}/{name}").status_code == 200
        for _ in range(4):
            body = server.translate(SENTENCE, source="de", target="fr").json()
            assert body == {"translatedText": SENTENCE, "models": ["de-en", "en-fr"]}
        for name in ("de-en", "en-fr"):
            assert unload(server, name).json()["deleted"]


def test_others_are_answered_while_a_model_loads(
    server: AnyServer, script: Script, portuguese: str
) -> None:
    script.may_load.clear()
    begun = begin(server, "POST", "pt-en", json={"source": portuguese})
    until(lambda: states(server).get("pt-en") == "loading")
    assert server.get("/v1/models/pt-en").json()["state"] == "loading"
    for _ in range(20):
        assert server.translate("Hello.").json() == {"translatedText": "Hello."}
    assert to_english(server).status_code == 400
    assert_refused(load(server, "pt-en", portuguese), ConflictError, "loading just now")
    assert_refused(unload(server, "pt-en"), ConflictError, "loading just now")
    assert not begun.done()
    script.may_load.set()
    assert begun.result(LIMIT_SECONDS).json()["state"] == "ready"
    assert to_english(server).status_code == 200


def test_worker_loads_beside_its_translations(
    serve: Serve, script: Script, english: str, portuguese: str
) -> None:
    """The sentences that it holds go on, step by step, and it is not taken to hang."""
    server = serve(models=(english,), admin_key=KEY, worker_timeout_seconds=1)
    script.may_finish.clear()
    held = server.begin_translate("Hello.")
    until(lambda: len(script.admitted) == 1)
    script.may_load.clear()
    begun = begin(server, "POST", "pt-en", json={"source": portuguese})
    until_asked(server)
    script.may_finish.set()
    assert held.result(LIMIT_SECONDS).json() == {"translatedText": "Hello."}
    time.sleep(1.5)
    script.may_load.set()
    assert begun.result(LIMIT_SECONDS).status_code == 200
    assert server.sample("regard_engine_restarts_total") == 0


def test_two_models_are_loaded_one_after_the_other(
    server: AnyServer, script: Script, portuguese: str, embedding_folder: str
) -> None:
    script.may_load.clear()
    both = [
        begin(server, "POST", "pt-en", json={"source": portuguese}),
        begin(server, "POST", "tiny", json={"source": embedding_folder}),
    ]
    until(lambda: states(server).keys() == {"en-pt", "pt-en", "tiny"})
    script.may_load.set()
    assert [each.result(LIMIT_SECONDS).status_code for each in both] == [200, 200]
    assert set(states(server).values()) == {"ready"}


def test_requests_in_flight_end_before_their_model_goes(
    any_server: AnyServer, script: Script, portuguese: str
) -> None:
    load(any_server, "pt-en", portuguese)
    script.may_finish.clear()
    held = any_server.begin_translate(["Olá.", "Adeus."], source="pt", target="en")
    until(lambda: len(script.admitted) == 2)
    begun = begin(any_server, "DELETE", "pt-en")
    until(lambda: states(any_server).get("pt-en") == "unloading")
    until(lambda: to_english(any_server).status_code == 400)
    assert_refused(load(any_server, "pt-en", portuguese), ConflictError, "unloading just now")
    assert not begun.done()
    script.may_finish.set()
    assert held.result(LIMIT_SECONDS).json() == {"translatedText": ["Olá.", "Adeus."]}
    assert begun.result(LIMIT_SECONDS).json()["deleted"]
    assert not any("pt-en" in names for names in loaded_models(any_server))


def test_what_does_not_go_together_is_refused(server: AnyServer, english: str) -> None:
    again = load(server, "en-pt", english)
    assert_refused(again, ConflictError, "DELETE /v1/models/en-pt")
    assert_refused(unload(server, "pt-en"), NotFoundError, "en-pt")
    assert_refused(server.get("/v1/models/pt-en"), NotFoundError, "en-pt")
    nothing = begin(server, "POST", "pt-en", json={}).result(LIMIT_SECONDS)
    assert_refused(nothing, InvalidRequestError, "source")


def test_last_model_may_go_and_another_come(server: AnyServer, portuguese: str) -> None:
    assert unload(server, "en-pt").status_code == 200
    assert server.get("/v1/models").json()["data"] == []
    assert server.get("/languages").json() == []
    assert server.get("/frontend/settings").status_code == 200
    assert server.get("/health/ready").status_code == 200
    assert server.translate("Hello.").json()["error_type"] == "unsupported_language"
    assert server.post("/embed", json={"inputs": "a cat"}).status_code == 424
    assert server.post("/detect", json={"q": "Hello."}).status_code == 200
    assert load(server, "pt-en", portuguese).status_code == 200
    assert to_english(server).status_code == 200
    detected = server.post("/detect", json={"q": "Onde fica a estação de comboios?"}).json()
    assert detected[0]["language"] == "pt"


def test_only_the_admin_key_opens_it(server: AnyServer, portuguese: str) -> None:
    requests: list[tuple[str, dict[str, Any]]] = [
        ("POST", {"json": {"source": portuguese}}),
        ("DELETE", {}),
    ]
    for scheme in ("", "Bearer", "Bearer wrong", f"Bearer {KEY}x", "Bearer clé", f"Basic {KEY}"):
        headers = {"Authorization": scheme.encode()} if scheme else {}
        for method, request in requests:
            begun = server.begin(method, "/v1/models/pt-en", headers=headers, **request)
            response = begun.result(LIMIT_SECONDS)
            assert_refused(response, UnauthorizedError, "Bearer")
            assert response.headers["www-authenticate"] == "Bearer"
            assert "wrong" not in response.text
            assert KEY not in response.text
    assert states(server) == {"en-pt": "ready"}


def test_without_a_key_models_are_not_changed(serve: Serve, english: str, portuguese: str) -> None:
    server = serve(models=(english,))
    for key in ("", "any"):
        assert_refused(load(server, "pt-en", portuguese, key), ForbiddenError, "REGARD_ADMIN_KEY")
        assert_refused(unload(server, "en-pt", key), ForbiddenError, "REGARD_ADMIN_KEY")
    assert server.translate("Hello.").status_code == 200


def test_client_of_openai_lists_and_deletes(
    serve_live: ServeLive, english: str, portuguese: str
) -> None:
    server = serve_live(models=(english, portuguese), admin_key=KEY)
    url = f"http://127.0.0.1:{server.port}/v1"
    with httpx2.Client(trust_env=False, timeout=LIMIT_SECONDS) as http:
        client = openai.OpenAI(api_key=KEY, base_url=url, http_client=http, max_retries=0)
        assert client.models.retrieve("pt-en").id == "pt-en"
        assert client.models.delete("pt-en").deleted
        assert [each.id for each in client.models.list()] == ["en-pt"]
        with pytest.raises(openai.NotFoundError, match="there is no model"):
            client.models.delete("pt-en")


@pytest.mark.checkpoint
def test_real_models_load_beside_translations_and_give_their_memory_back(
    english: str, portuguese: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a real worker: every sentence comes as it does alone, before, while and after."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # the machine may have other work
    settings = make_settings(
        models=(english,), admin_key=KEY, device="cpu", dtype="float32", max_rows=8,
        max_batch_tokens=128,
    )  # fmt: skip
    with Server(create_app(settings)) as server:
        server.until_ready()
        texts = [f"Here is sentence number {number} of a letter." for number in range(12)]
        alone = server.translate(texts).json()
        begun = begin(server, "POST", "pt-en", json={"source": portuguese})
        while not begun.done():
            assert server.translate(texts).json() == alone
        assert begun.result(LIMIT_SECONDS).json()["dtype"] == "float32"
        assert to_english(server, "O gato.").json() == {"translatedText": "The cat."}
        held = [
            server.sample("regard_model_memory_bytes", model=name, worker="worker-0")
            for name in ("en-pt", "pt-en")
        ]
        assert held[0] == pytest.approx(held[1], rel=0.1)
        assert held[1] > Path(portuguese, "model.pten.intgemm.alphas.bin").stat().st_size
        assert unload(server, "pt-en").status_code == 200
        assert server.translate(texts).json() == alone
        assert server.sample("regard_engine_restarts_total") == 0
