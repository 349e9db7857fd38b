"""What clients and operators ask beside translations: health, languages, models, documentation."""

import pytest

from service.errors import OverloadedError, UnavailableError
from service.models.catalog import Catalog
from tests.api.conftest import Serve
from tests.api.servers import Server, assert_error
from tests.workers import LIMIT_SECONDS, Script

HEALTH = ("/health", "/health/ready")


def test_live_server_is_not_ready_until_its_models_are(serve: Serve, script: Script) -> None:
    script.may_load.clear()
    server = serve(is_ready=False)
    assert server.get("/health/live").json() == {"status": "ok"}
    assert server.get("/").status_code == 200
    for path in HEALTH:
        assert_error(server.get(path), UnavailableError, "the models are loading")
    assert server.sample("regard_ready") == 0
    script.may_load.set()
    server.until_ready()
    for path in (*HEALTH, "/health/live"):
        response = server.get(path)
        assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_server_that_stops_is_not_ready(serve: Serve) -> None:
    server = serve()
    server.run(server.core.supervisor.stop())
    for path in HEALTH:
        assert_error(server.get(path), UnavailableError, "the server is stopping")
    assert server.get("/health/live").status_code == 200
    assert server.sample("regard_ready") == 0


def test_request_to_a_closed_scheduler_is_refused(serve: Serve, script: Script) -> None:
    server = serve(max_rows=1, max_beam_size=1)
    script.may_finish.clear()
    begun = [server.begin_translate(text) for text in ("One.", "Two.")]
    server.until_admitted(2)
    server.loop.call_soon_threadsafe(server.core.scheduler.close)
    for reply in begun:
        assert_error(reply.result(LIMIT_SECONDS), UnavailableError, "the server is stopping")
    assert_error(server.translate("Three."), UnavailableError, "the server is stopping")


def test_health_never_uses_a_model(server: Server, script: Script) -> None:
    for path in (*HEALTH, "/health/live"):
        assert server.get(path).status_code == 200
    assert not script.admitted


@pytest.mark.parametrize(
    ("accepted", "names"),
    [
        ("pt-BR,pt;q=0.9,en;q=0.5", ["Inglês", "Português"]),
        ("fr", ["Anglais", "Portugais"]),
        ("zz", ["English", "Portuguese"]),
        ("*;;;=", ["English", "Portuguese"]),
        ("", ["English", "Portuguese"]),
    ],
)
def test_languages_are_named_as_the_reader_would(
    server: Server, accepted: str, names: list[str]
) -> None:
    found = server.get("/languages", headers={"accept-language": accepted}).json()
    assert [language["name"] for language in found] == names


def test_language_that_is_only_a_target_is_not_listed(server: Server) -> None:
    services = server.services
    both = services.catalog
    services.replace_catalog(Catalog([both.models["en-pt"]]))
    try:
        found = server.get("/languages").json()
    finally:
        services.replace_catalog(both)
    assert [(language["code"], language["targets"]) for language in found] == [("en", ["en", "pt"])]


def test_frontend_settings_are_what_clients_of_libretranslate_expect(server: Server) -> None:
    response = server.get("/frontend/settings", headers={"accept-language": "pt"})
    assert response.json() == {
        "charLimit": -1,
        "frontendTimeout": 500,
        "apiKeys": False,
        "keyRequired": False,
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "language": {
            "source": {"code": "auto", "name": "Auto Detect"},
            "target": {"code": "pt", "name": "Português"},
        },
    }


def test_models_are_listed_before_and_after_they_are_loaded(serve: Serve, script: Script) -> None:
    script.may_load.clear()
    server = serve(is_ready=False)
    loading = server.get("/v1/models").json()
    assert [model["device"] for model in loading["data"]] == [None, None]
    assert [model["state"] for model in loading["data"]] == ["loading", "loading"]
    assert [model["attention"] for model in loading["data"]] == [None, None]
    assert [model["alignment"] for model in loading["data"]] == [None, None]
    script.may_load.set()
    listed = server.until_ready().get("/v1/models").json()
    assert listed["object"] == "list"
    files = server.services.catalog.models["en-pt"].files
    assert listed["data"][0] == {
        "id": "en-pt",
        "alias_of": None,
        "state": "ready",
        "object": "model",
        "created": server.services.started,
        "owned_by": "regard",
        "task": "translate",
        "source": "en",
        "target": "pt",
        "sources": ["en"],
        "targets": ["pt"],
        "revision": files.revision,
        "device": "cpu",
        "devices": ["cpu"],
        "dtype": "float32",
        "attention": {"encoder": {"layers": 6, "heads": 8}, "cross": {"layers": 2, "heads": 8}},
        "alignment": {"layer": 0, "head": "mean", "shift": 1},
    }
    assert [model["id"] for model in listed["data"]] == ["en-pt", "pt-en"]


@pytest.mark.parametrize("text", ["🎉", "12345", " ", "Ω"])
def test_nothing_detected_is_english_without_confidence(server: Server, text: str) -> None:
    found = server.post("/detect", json={"q": text}).json()
    assert found == [{"confidence": 0.0, "language": "en"}]


@pytest.mark.parametrize(
    "path",
    ["/", "/health", "/health/live", "/languages", "/metrics", "/v1/models", "/v1/models/en-pt"],
)
def test_head_has_the_headers_of_get_alone(server: Server, path: str) -> None:
    response = server.begin("HEAD", path).result(LIMIT_SECONDS)
    assert (response.status_code, response.content) == (200, b"")
    assert int(response.headers["content-length"]) > 0
    assert response.headers["content-type"] == server.get(path).headers["content-type"]


@pytest.mark.parametrize("name", ["no-model", "some/model", "some%2Fmodel"])
def test_unknown_model_is_named_as_openai_does(server: Server, name: str) -> None:
    """An id with a slash is the id of a model too, and not an unknown address."""
    response = server.get(f"/v1/models/{name}")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (404, "model_not_found")
    assert name.replace("%2F", "/") in error["message"]


@pytest.mark.parametrize(
    ("path", "allowed"), [("/translate", "POST, OPTIONS"), ("/", "GET, POST, HEAD, OPTIONS")]
)
def test_options_without_a_preflight_names_the_methods(
    server: Server, path: str, allowed: str
) -> None:
    response = server.begin("OPTIONS", path).result(LIMIT_SECONDS)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize(
    ("path", "fields"), [("/detect", {}), ("/translate", {"source": "auto", "target": "pt"})]
)
def test_long_list_is_refused_while_too_many_wait_for_their_languages(
    serve: Serve, path: str, fields: dict[str, str]
) -> None:
    server = serve(max_pending_detections=3)
    pool = server.services.translator.detection
    pool.num_waiting = 3
    body = {"q": ["Where is the station?"] * 200, **fields}
    assert_error(server.post(path, json=body), OverloadedError, "the limit is 3")
    pool.num_waiting = 2
    assert server.post(path, json=body).status_code == 200
