"""Models that are loaded when a request needs them."""

import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from model.errors import CheckpointError
from tests.api.conftest import Serve, ServeAny
from tests.api.loading import KEY, states, unload
from tests.api.servers import AnyServer, served, without_collections
from tests.hf_files import SENTENCE, write_multilingual, write_pieces
from tests.parity.test_splade import write
from tests.tiny_text import write_model
from tests.workers import LIMIT_SECONDS, Script, until

# None of these is detected, because the data of a detected language takes 0.4 s to load.
LANGUAGES = ("si", "mt", "gd", "lb", "km")
PAIRS = [(code, "en") for code in LANGUAGES] + [("en", code) for code in LANGUAGES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models of all PAIRS, which echo."""
    root = tmp_path_factory.mktemp("pairs")
    for source, target in PAIRS:
        folder = root / f"{source}-{target}"
        folder.mkdir()
        write_pieces(folder, [folder.name])
        (folder / "config.json").write_text('{"model_type": "marian"}', encoding="utf-8")
        (folder / "model.safetensors").write_bytes(folder.name.encode())
    return root


def ready(server: AnyServer) -> list[str]:
    return sorted(name for name, state in states(server).items() if state == "ready")


def ask(server: AnyServer, source: str, target: str = "en") -> httpx.Response:
    return server.translate(SENTENCE, source=source, target=target)


def test_model_is_loaded_for_its_first_request(serve_any: ServeAny, folder: Path) -> None:
    server = serve_any(models=(str(folder),), max_loaded_models=2, workers=2)
    assert {*states(server).values()} == {"available"}
    languages = {each["code"]: each["targets"] for each in server.get("/languages").json()}
    assert languages["si"] == sorted([*LANGUAGES, "en"])
    for source in ("si", "mt", "si", "gd"):
        assert ask(server, source).json() == {"translatedText": SENTENCE}
    assert ready(server) == ["gd-en", "si-en"]  # mt-en was used least recently
    assert server.sample("regard_model_loads_total", outcome="loaded") == 3
    assert server.sample("regard_model_evictions_total") == 1
    assert server.sample("regard_model_misses_total") == 3


def test_both_models_of_a_pivot_are_loaded(serve: Serve, folder: Path) -> None:
    server = serve(models=(str(folder),), max_loaded_models=2)
    assert ask(server, "gd").status_code == 200
    body = ask(server, "si", "mt").json()
    assert body == {"translatedText": SENTENCE, "models": ["si-en", "en-mt"]}
    assert ready(server) == ["en-mt", "si-en"]


def test_pivot_needs_room_for_two(serve: Serve, folder: Path) -> None:
    server = serve(models=(str(folder),), max_loaded_models=1)
    response = ask(server, "si", "mt")
    assert response.status_code == 503
    assert "REGARD_MAX_LOADED_MODELS is 1; raise it" in response.json()["error"]
    assert ask(server, "si").status_code == 200


def test_bytes_are_limited(serve: Serve, folder: Path) -> None:
    server = serve(models=(str(folder),), max_loaded_bytes=1)
    for source in ("si", "mt"):
        assert ask(server, source).status_code == 200
        assert ready(server) == [f"{source}-en"]


def test_request_need_not_wait(serve: Serve, script: Script, folder: Path) -> None:
    server = serve(models=(str(folder),), max_loaded_models=1, wait_for_models=False)
    script.may_load.clear()
    response = ask(server, "si")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "2")
    assert "models are being loaded: si-en; try again" in response.json()["error"]
    script.may_load.set()
    until(lambda: ready(server) == ["si-en"])
    assert ask(server, "si").status_code == 200


def test_late_model_costs_its_request_alone(serve: Serve, script: Script, folder: Path) -> None:
    server = serve(models=(str(folder),), max_loaded_models=2)
    assert ask(server, "mt").status_code == 200
    script.may_load.clear()
    headers = {"X-Request-Timeout-Ms": "1"}
    body = {"q": SENTENCE, "source": "si", "target": "en"}
    late = server.post("/translate", json=body, headers=headers)
    assert late.status_code == 504
    assert ask(server, "mt").status_code == 200
    script.may_load.set()
    assert ask(server, "si").status_code == 200


def test_model_that_cannot_be_loaded(serve: Serve, script: Script, folder: Path) -> None:
    server = serve(models=(str(folder),), max_loaded_models=2)
    script.failing["si-en"] = CheckpointError("its weights are damaged")
    for _ in range(3):
        response = ask(server, "si")
        assert response.status_code == 400
        assert "its weights are damaged" in response.json()["error"]
    assert server.sample("regard_model_loads_total", outcome="failed") == 1  # not tried at once
    assert ask(server, "mt").status_code == 200


def test_admin_may_unload_it(serve: Serve, folder: Path) -> None:
    server = serve(models=(str(folder),), max_loaded_models=2, admin_key=KEY)
    for _ in range(2):
        assert ask(server, "si").status_code == 200
        assert unload(server, "si-en").json()["deleted"]
        assert states(server)["si-en"] == "available"


@pytest.mark.parametrize(
    "fields", [{"source": "si", "target": "en"}, {"model": "si-en", "target": "en"}]
)
def test_attention_loads_its_model(
    serve: Serve, folder: Path, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(models=(str(folder),), max_loaded_models=1)
    asked: list[Sequence[str]] = []
    require = server.core.changes.require

    async def note(names: Sequence[str]) -> None:
        asked.append(names)
        await require(names)

    monkeypatch.setattr(server.core.changes, "require", note)
    server.post("/attention", json={"text": SENTENCE, **fields})
    assert asked == [("si-en",)]
    assert ready(server) == ["si-en"]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/embed", {"inputs": SENTENCE}),
        ("/embed_all", {"inputs": SENTENCE}),
        ("/v1/embeddings", {"input": SENTENCE}),
        ("/attention", {"text": SENTENCE, "task": "embed"}),
    ],
)
def test_embedding_loads_its_model(
    serve: Serve, folder: Path, path: str, fields: dict[str, Any]
) -> None:
    """The encoder of a translation model embeds; a worker that echoes has none."""
    server = serve(models=(str(folder),), max_loaded_models=1)
    response = server.post(path, json={"model": "si-en", **fields})
    assert response.status_code != 404, response.text
    assert ready(server) == ["si-en"]


def test_alignment_loads_its_model(serve: Serve, folder: Path) -> None:
    server = serve(models=(str(folder),), max_loaded_models=1)
    query = {"from": "si", "to": "en", "includeAlignment": "true"}
    path = "/translator/text/v3.0/translate"
    server.post(path, params=query, json=[{"Text": SENTENCE}])  # its echo has no attention
    assert ready(server) == ["si-en"]


def test_detected_language_loads_its_model(serve: Serve) -> None:
    server = serve(max_loaded_models=1)
    found = server.translate("Ele não disse nada hoje.", source="auto", target="en").json()
    assert found["detectedLanguage"]["language"] == "pt"
    assert ready(server) == ["pt-en"]


SCORED = {"query": "where did the cat sit", "texts": ["the cat sat on a mat ."]}


@pytest.mark.parametrize("http_workers", [1, 2])
def test_embedding_models_and_cross_encoders(
    script: Script, folder: Path, small_models: dict[str, str], http_workers: int
) -> None:
    models = (*small_models.values(), str(folder))
    with served(
        script.load, http_workers=http_workers, models=models, max_loaded_models=2
    ) as server:
        assert {*states(server).values()} == {"available"}
        embedder = server.get("/v1/models/embedder").json()
        assert (embedder["dimensions"], embedder["revision"]) == (16, None)
        assert server.get("/info").json()["model_id"] == "embedder"
        assert server.get("/api/tags").json()["models"][0]["name"] == "embedder:latest"
        assert server.get("/meta").json() == {"model": "embedder", "revision": None}
        assert server.get("/health").status_code == 200
        (vector,) = server.post("/embed", json={"inputs": "a cat"}).json()
        assert len(vector) == 16
        scores = server.post("/rerank", json=SCORED).json()
        assert ready(server) == ["embedder", "ranker"]
        assert server.post("/rerank", json={**SCORED, "model": "other"}).json() != scores
        assert ready(server) == ["other", "ranker"]
        assert server.post("/rerank", json=SCORED).json() == scores
        assert ask(server, "si").status_code == 200
        assert ready(server) == ["ranker", "si-en"]
        assert server.post("/v1/embeddings", json={"input": "a cat"}).status_code == 200
        assert server.post("/attention", json={"text": "a cat", "task": "embed"}).status_code == 200
        assert ready(server) == ["embedder", "si-en"]
        embedder = server.get("/v1/models/embedder").json()
        assert (embedder["state"], len(embedder["revision"])) == ("ready", 12)


def test_default_of_embed_sparse_is_loaded(tmp_path: Path) -> None:
    write(tmp_path / "splade")
    write_model(tmp_path / "dense")
    with served(http_workers=1, models=(str(tmp_path),), max_loaded_models=1) as server:
        assert len(server.post("/embed_sparse", json={"inputs": "a cat"}).json()) == 1
        assert ready(server) == ["splade"]
        assert server.post("/embed", json={"inputs": "a cat"}).status_code == 200
        assert ready(server) == ["dense"]


def test_embedding_models_count_in_bytes(script: Script, small_models: dict[str, str]) -> None:
    models = tuple(small_models.values())
    with served(script.load, http_workers=1, models=models, max_loaded_bytes=1) as server:
        assert server.post("/embed", json={"inputs": "a cat"}).status_code == 200
        assert ready(server) == ["embedder"]
        assert server.post("/rerank", json=SCORED).status_code == 200
        assert ready(server) == ["ranker"]


def test_multilingual_model_is_loaded(serve: Serve, folder: Path, tmp_path: Path) -> None:
    write_multilingual(tmp_path / "m2m", "m2m", ["__en__", "__ab__", "__os__"])
    server = serve(models=(str(folder), str(tmp_path / "m2m")), max_loaded_models=2)
    assert states(server)["m2m"] == "available"
    assert ask(server, "ab").json() == {"translatedText": SENTENCE}
    assert ready(server) == ["m2m"]
    assert ask(server, "ab", "si").status_code == 200
    assert ready(server) == ["en-si", "m2m"]
    fields = {"model": "m2m", "source": "ab", "target": "en"}
    assert ask(server, "mt").status_code == ask(server, "gd").status_code == 200
    assert ready(server) == ["gd-en", "mt-en"]
    server.post("/attention", json={"text": SENTENCE, **fields})  # its echo has no attention
    assert ready(server) == ["gd-en", "m2m"]


def test_failed_embedding_model_has_its_reason(
    serve: Serve, script: Script, embedding_folder: str
) -> None:
    server = serve(models=(embedding_folder,), max_loaded_models=1, admin_key=KEY)
    script.failing["tiny"] = CheckpointError("its weights are damaged")
    response = server.post("/embed", json={"inputs": "a cat"})
    assert "its weights are damaged" in response.json()["error"]
    headers = {"Authorization": f"Bearer {KEY}"}
    found = server.get("/v1/models/tiny", headers=headers).json()
    assert found["state"] == "failed"
    assert "its weights are damaged" in found["error"]


def test_vocabularies_of_an_unloaded_model_are_freed(serve: Serve, folder: Path) -> None:
    """They stayed until the collector ran by itself, after some 60 models of 9 MB."""
    server = serve(models=(str(folder),), max_loaded_models=1)
    with without_collections():
        assert ask(server, "si").status_code == 200
        catalog = server.services.catalog
        (model,) = catalog.models.values()
        old = weakref.ref(catalog), weakref.ref(model.vocabularies.source)
        del catalog, model
        assert ask(server, "mt").status_code == 200
        assert ask(server, "gd").status_code == 200
        until(lambda: [each() for each in old] == [None, None])


def test_failed_request_keeps_no_vocabularies(serve: Serve, folder: Path, script: Script) -> None:
    server = serve(models=(str(folder),), max_loaded_models=1)
    assert ask(server, "si").status_code == 200
    (model,) = server.services.catalog.models.values()
    old = weakref.ref(model.vocabularies.source)
    del model
    with without_collections():
        script.may_finish.clear()
        body = {"q": "The dog sleeps here.", "source": "si", "target": "en"}
        late = server.post("/translate", json=body, headers={"X-Request-Timeout-Ms": "100"})
        assert late.status_code == 504
        script.may_finish.set()
        assert ask(server, "mt").status_code == 200
        until(lambda: old() is None)


@pytest.mark.slow
def test_random_traffic_over_many_pairs(serve: Serve, folder: Path) -> None:
    """Every request is answered, and no more models than allowed are ever loaded."""
    server = serve(models=(str(folder),), max_loaded_models=4)
    largest = 0
    chosen = Random(0)
    traffic = [chosen.choice([*PAIRS, ("si", "mt"), ("lb", "km")]) for _ in range(30)]
    open_: list[Future[httpx.Response]] = []
    for source, target in traffic:
        open_.append(server.begin_translate(SENTENCE, source=source, target=target))
        if len(open_) == 6:
            body = open_.pop(0).result(LIMIT_SECONDS).json()
            assert body["translatedText"] == SENTENCE, body
        largest = max(largest, len(server.core.supervisor.resident_models()))
    for each in open_:
        assert each.result(LIMIT_SECONDS).status_code == 200
    assert largest <= 4
    loads = server.sample("regard_model_loads_total", outcome="loaded")
    assert loads == server.sample("regard_model_evictions_total") + 4
    assert 10 <= loads <= 30
