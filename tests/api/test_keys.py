"""API keys: every route that computes needs one, wherever a client may put it."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.api.app import DIALECTS
from service.api.azure.routes import azure_shape
from service.api.cohere import cohere_shape
from service.api.deepl.errors import deepl_shape
from service.api.deeplx import deeplx_shape
from service.api.dialect import Routes
from service.api.errors import ErrorShape, own_shape
from service.api.google import google_shape
from service.api.mcp.routes import mcp_shape
from service.api.ollama import ollama_shape
from service.api.openai.errors import openai_shape
from service.api.tei import tei_shape
from service.errors import InvalidKeyError, MissingKeyError
from service.settings import Settings
from service.settings.keys import digest_of, read_keys
from tests.api.conftest import Serve, shared
from tests.api.servers import Server, assert_error, translation
from tests.workers import Script

KEYS = "first-key, second-key"
COMPUTING = sorted(path for dialect in DIALECTS for path in dialect.tasks)
OPEN = ("/languages", "/frontend/settings", "/health", "/metrics", "/v1/models", "/", "/docs")


@pytest.fixture(scope="module")
def keyed(shared_script: Script) -> Iterator[Server]:
    yield from shared(shared_script, api_keys=KEYS, admin_key="admin-key", files=True)


def status_of(server: Server, **request: Any) -> int:
    asked = {**translation("Hello."), **request.pop("params", {})}
    return server.post("/translate", params=asked, **request).status_code


REFUSALS: dict[ErrorShape, tuple[tuple[int, int], str]] = {
    openai_shape: ((401, 401), '"code":"invalid_api_key"'),
    deeplx_shape: ((401, 401), '"code":401'),
    deepl_shape: ((403, 403), '"message":"Authorization failure, check auth_key"'),
    google_shape: ((403, 400), " valid API key."),
    azure_shape: ((401, 401), '"code":401000,'),
    mcp_shape: ((401, 401), '"jsonrpc":"2.0"'),
    tei_shape: ((401, 401), '"error_type":'),
    cohere_shape: ((401, 401), " API key"),
    ollama_shape: ((401, 401), " API key"),
    own_shape: ((400, 403), '"error_type":'),
}
"""The status for a missing key, the status for a wrong key, and a text that both bodies contain."""


@pytest.mark.parametrize("path", COMPUTING)
def test_every_route_that_computes_needs_a_key(keyed: Server, path: str) -> None:
    """Its parameters are not looked at before the key."""
    statuses, words = REFUSALS[Routes(DIALECTS).table["POST", path].dialect.error_shape]
    for headers, kind, status in zip(
        ({}, {"authorization": "Bearer third-key"}),
        (MissingKeyError, InvalidKeyError),
        statuses,
        strict=True,
    ):
        response = keyed.post(path, json={}, headers=headers)
        assert response.status_code == status
        assert words in response.text
        assert ("www-authenticate" in response.headers) == (status == 401)
        if "error_type" in words:
            assert_error(response, kind)
    response = keyed.post(path, json={}, headers={"authorization": "Bearer second-key"})
    assert "key" not in response.text


def test_description_of_each_route_lists_the_refusals(keyed: Server) -> None:
    paths = keyed.get("/openapi.json").json()["paths"]
    described = {path: {*paths[path]["post"]["responses"]} for path in COMPUTING if path in paths}
    assert len(described) >= 15
    for path, statuses in described.items():
        for headers in ({}, {"authorization": "Bearer third-key"}, {"origin": "https://a.example"}):
            assert str(keyed.post(path, json={}, headers=headers).status_code) in statuses, path
        assert {"429", "503"} <= statuses, path


def test_texts_are_those_of_libretranslate(keyed: Server) -> None:
    texts = [
        keyed.translate("Hello.", **fields).json()["error"]
        for fields in ({}, {"api_key": ""}, {"api_key": None}, {"api_key": "x"}, {"api_key": 7})
    ]
    missing = "Please contact the server operator to get an API key"
    assert texts == [missing] * 3 + ["Invalid API key"] * 2


@pytest.mark.parametrize(
    "request_",
    [
        {"json": translation("Hello.", api_key="first-key")},
        {"data": translation("Hello.", api_key="second-key")},
        {"files": {name: (None, value) for name, value in translation("Hello.").items()}}
        | {"params": {"api_key": "first-key"}},
        {"params": translation("Hello.", api_key="first-key")},
        {"json": translation("Hello."), "headers": {"authorization": "Bearer first-key"}},
        {"json": translation("Hello."), "headers": {"authorization": "bearer  second-key "}},
        {"json": translation("Hello."), "headers": {"authorization": "DeepL-Auth-Key first-key"}},
        {"json": translation("Hello."), "headers": {"authorization": "Bearer admin-key"}},
        *(
            {"json": translation("Hello."), "headers": {name: "first-key"}}
            for name in ("x-api-key", "ocp-apim-subscription-key", "x-goog-api-key")
        ),
        *(
            {"params": translation("Hello.", **{name: "first-key"})}
            for name in ("key", "Subscription-Key")
        ),
        {
            "json": translation("Hello.", api_key="first-key"),
            "headers": {"authorization": "Bearer "},
        },
        {
            "data": translation("Hello.", api_key="first-key"),
            "headers": {"authorization": "Bearer"},
        },
    ],
)
def test_key_may_be_in_a_field_or_in_the_header(keyed: Server, request_: dict[str, Any]) -> None:
    assert keyed.post("/translate", **request_).status_code == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"headers": {"authorization": "Basic first-key"}}, 400),
        ({"headers": {"authorization": "Bearer"}}, 400),
        ({"headers": {"authorization": "first-key"}}, 400),
        ({"headers": {"authorization": "Bearer first-key, second-key"}}, 403),
        ({"headers": {"authorization": b"Bearer \xff"}}, 403),
        ({"headers": {"authorization": "Bearer x"}, "params": {"api_key": "first-key"}}, 403),
        ({"headers": {"authorization": "Basic x"}, "params": {"api_key": "first-key"}}, 200),
        ({"headers": {"authorization": "Bearer"}, "params": {"api_key": "first-key"}}, 200),
        ({"headers": {"authorization": "Bearer "}, "params": {"api_key": "first-key"}}, 200),
        ({"headers": {"authorization": "Bearer ", "x-api-key": "first"}}, 403),
        ({"params": {"api_key": ["first-key", "second-key"]}}, 403),
        ({"params": {"api_key": "FIRST-KEY"}}, 403),
    ],
)
def test_other_keys_are_refused(keyed: Server, request_: dict[str, Any], status: int) -> None:
    assert status_of(keyed, **request_) == status


@pytest.mark.parametrize("path", OPEN)
def test_other_routes_need_no_key(keyed: Server, path: str) -> None:
    assert keyed.get(path).status_code == 200


def test_server_without_keys_accepts_any(serve: Serve) -> None:
    server = serve()
    assert server.translate("Hello.", api_key="x").status_code == 200
    headers = {"authorization": "Bearer x"}
    response = server.post("/translate", json=translation("Hello."), headers=headers)
    assert response.status_code == 200
    settings = server.get("/frontend/settings").json()
    assert (settings["apiKeys"], settings["keyRequired"]) == (False, False)


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\r\n\n two \nthree,four\n")
    settings = Settings.model_validate({"api_keys": f"file:{file}"})
    assert [settings.needs_keys, settings.keys_file] == [True, file]
    assert [key.digest for key in read_keys(file.read_text())] == [
        digest_of(key) for key in ("one", "two", "three", "four")
    ]


def test_listed_keys_may_end_with_equals_signs_but_have_no_options() -> None:
    for keys in (["one", "two", "a2V5=="], ["one", "a2V5=="], ["a2V5MQ==", "a2V5Mg=="]):
        assert [key.digest for key in read_keys(", ".join(keys))] == [*map(digest_of, keys)]
    for line in ("one,two name=shop", "one, two name=shop"):
        with pytest.raises(ValueError, match="line 1: a key with options must not contain a comma"):
            read_keys(line)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("file:/nowhere/keys", "cannot be read"),
        (" , ", "the setting has no key"),
        ("schlüssel", "only ASCII"),
    ],
)
def test_keys_that_cannot_be_used_stop_the_start(value: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        Settings.model_validate({"api_keys": value})
    assert "schlüssel" not in str(refused.value)


def test_keys_are_not_shown() -> None:
    settings = Settings.model_validate({"api_keys": KEYS, "admin_key": "admin-key"})
    shown = repr(settings) + str(settings) + settings.model_dump_json()
    assert not [key for key in ("first-key", "admin-key") if key in shown]
    copied = pickle.loads(pickle.dumps(settings))
    assert copied.admin_key.get_secret_value() == "admin-key"
