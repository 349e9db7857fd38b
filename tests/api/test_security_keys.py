"""A file of keys: hashes, scopes, limits a minute, and changes while the server runs."""

import hashlib
import hmac
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.api.keys import KeyRing, num_characters
from service.cli import app
from service.errors import ForbiddenError, RateLimitedError, RequestTooLargeError
from service.scheduling.admission import Rates
from service.settings import Settings
from service.settings.keys import RateLimits, read_keys
from tests.api.conftest import Serve, ServeAny
from tests.api.servers import AnyServer, assert_error, translation
from tests.workers import until

HASH = hashlib.sha256(b"hashed-key").hexdigest()
HELLO = translation("Hello.")


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def status(server: AnyServer, key: str) -> int:
    return server.post("/translate", json=HELLO, headers=bearer(key)).status_code


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def replace(file: Path, text: str) -> None:
    """Writes the file as editors and secret stores do: a new file takes the old one's place."""
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)


def test_key_of_the_file_may_be_a_hash(serve: Serve, file: Path) -> None:
    file.write_text(f"# the shop\nsha256:{HASH.upper()} name=shop\nplain-key\n")
    server = serve(api_keys=f"file:{file}")
    assert [status(server, key) for key in ("hashed-key", "plain-key")] == [200, 200]
    assert [status(server, key) for key in (HASH, f"sha256:{HASH}")] == [403, 403]


def test_setting_may_have_hashes(serve: Serve) -> None:
    server = serve(api_keys=f"sha256:{HASH},plain-key")
    assert [status(server, key) for key in ("hashed-key", "plain-key", HASH)] == [200, 200, 403]


def test_changed_file_is_read_again_by_every_http_process(serve_any: ServeAny, file: Path) -> None:
    file.write_text("first-key\nsecond-key\n")
    server = serve_any(api_keys=f"file:{file}")
    assert [status(server, key) for key in ("first-key", "third-key")] == [200, 403]
    replace(file, "second-key\nthird-key\n")
    # Each connection may reach another process, so several answers in a row have to agree.
    until(lambda: {status(server, "first-key") for _ in range(8)} == {403})
    until(lambda: {status(server, "third-key") for _ in range(8)} == {200})


@pytest.mark.parametrize(
    "text",
    [
        "one two=3\n",
        "sha256:abc\n",
        "k name=a/b\n",
        "k scopes=all\n",
        "k1,k2 name=shop\n",
        "k1, k2 name=shop\n",
    ],
)
def test_file_that_cannot_be_used_changes_nothing(
    file: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text("first-key\n")
    ring = KeyRing(Settings.model_validate({"api_keys": f"file:{file}"}))
    replace(file, text)
    ring.refresh()
    ring.refresh()
    assert ring.find("first-key")
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(messages) == 1
    assert "line 1" in messages[0]
    assert not {"sha256:abc", "a/b", "all", "two=3", "k1,k2"} & {*messages[0].split()}


def test_file_that_cannot_be_read_is_logged_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text("first-key\n")
    settings = Settings.model_validate({"api_keys": f"file:{file}"})
    file.unlink()
    file.mkdir()
    ring = KeyRing(settings)
    for _ in range(2):
        ring.refresh()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    file.rmdir()
    for _ in range(2):
        ring.refresh()
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2
    file.write_text("first-key\n")
    ring.refresh()
    assert ring.find("first-key")


def test_empty_or_lost_file_never_opens_the_server(file: Path) -> None:
    file.write_text("first-key\n")
    settings = Settings.model_validate({"api_keys": f"file:{file}", "admin_key": "admin-key"})
    ring = KeyRing(settings)
    replace(file, "")
    ring.refresh()
    assert ring.is_required
    assert ring.find("first-key") is None
    assert ring.find("admin-key")
    file.unlink()
    ring.refresh()
    assert ring.is_required
    assert KeyRing(settings).find("first-key") is None


def test_keys_may_only_use_their_scopes(serve: Serve, file: Path, both: tuple[str, ...]) -> None:
    file.write_text("t scopes=translate\ne scopes=embed name=shop\na scopes=attention\nall\n")
    server = serve(api_keys=f"file:{file}", models=both)
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "t": ("/translate", HELLO),
        "e": ("/embed", {"inputs": "the cat"}),
        "a": ("/attention", HELLO),
    }
    for scope, (path, body) in requests.items():
        for key in ("t", "e", "a", "all"):
            response = server.post(path, json=body, headers=bearer(key))
            assert (response.status_code == 403) is (key not in (scope, "all")), (path, key)
    response = server.post("/translate", json=HELLO, headers=bearer("e"))
    assert_error(response, ForbiddenError, "The API key shop does not have the scope translate")
    deepl = server.post(
        "/v2/translate", json={"text": ["a"], "target_lang": "PT"}, headers=bearer("e")
    )
    assert deepl.status_code == 403
    openai = server.post("/v1/embeddings", json={"input": "a"}, headers=bearer("t"))
    assert openai.status_code == 403
    assert openai.json()["error"]["code"] == "forbidden"


def test_key_with_the_scope_admin_may_change_models(serve: Serve, file: Path) -> None:
    file.write_text("first-key\nadmin-key scopes=admin\n")
    server = serve(api_keys=f"file:{file}")
    for key, code in (("first-key", 401), ("", 401), ("admin-key", 400)):
        path = "/v1/models/x"
        assert server.post(path, json={}, headers=bearer(key)).status_code == code
    assert status(server, "admin-key") == 403


def test_limit_of_requests_gets_429_in_each_shape(
    serve_any: ServeAny, file: Path, both: tuple[str, ...]
) -> None:
    """All HTTP processes count together, so no more than the limit passes."""
    file.write_text("small requests=2\nother\n")
    server = serve_any(api_keys=f"file:{file}", models=both)
    assert [status(server, "small") for _ in range(2)] == [200, 200]
    response = server.post("/translate", json=HELLO, headers=bearer("small"))
    assert_error(response, RateLimitedError, "Slowdown: 2 per 1 minute")
    deepl = {"text": ["a"], "target_lang": "PT"}
    for path, body, words in (
        ("/v2/translate", deepl, '"message":"Too many requests"'),
        ("/v1/embeddings", {"input": "a"}, '"code":"rate_limit_exceeded"'),
        ("/embed", {"inputs": "a"}, '"error_type":"Overloaded"'),
    ):
        response = server.post(path, json=body, headers=bearer("small"))
        assert response.status_code == 429
        assert 1 <= int(response.headers["retry-after"]) <= 30
        assert words in response.text
    assert status(server, "other") == 200
    assert server.num_requests("rate_limited", model="none")


def test_limit_of_characters_counts_the_texts(serve: Serve, file: Path) -> None:
    file.write_text("small characters=100\n")
    server = serve(api_keys=f"file:{file}")
    send = {"headers": bearer("small")}
    assert server.post("/translate", json=translation("a" * 70), **send).status_code == 200
    response = server.post("/translate", json=translation(["a" * 20, "b" * 20]), **send)
    assert_error(response, RateLimitedError, "100 characters a minute")
    response = server.post("/translate", json=translation("a" * 101), **send)
    assert_error(response, RequestTooLargeError, "its key may send 100 a minute")


def test_limit_of_characters_counts_no_key_but_texts_with_the_name_of_a_key(
    serve: Serve, file: Path
) -> None:
    key = "s" * 90
    file.write_text(f"{key} characters=100\n")
    server = serve(api_keys=f"file:{file}")
    given = {**translation("a"), "api_key": key}
    assert server.post("/translate", json=given).status_code == 200
    assert server.post("/detect", params={"q": "a", "token": key}).status_code == 200
    documents = {"query": "a", "documents": [{"key": "b" * 101}], "rank_fields": ["key"]}
    response = server.post("/v1/rerank", json=documents, headers=bearer(key))
    assert response.status_code == 413
    assert "its key may send 100 a minute" in response.json()["message"]


def test_limit_refills_evenly_and_refusals_do_not_count() -> None:
    now = 0.0
    rates = Rates(lambda: now)
    limits = RateLimits(requests=6, characters=1000)
    for _ in range(6):
        rates.take("a", limits, 10)
    for _ in range(3):
        with pytest.raises(RateLimitedError) as refused:
            rates.take("a", limits, 10)
        assert refused.value.retry_after_seconds == 10
    rates.take("b", limits, 10)
    now = 10.0
    rates.take("a", limits, 10)
    with pytest.raises(RateLimitedError):
        rates.take("a", limits, 10)
    now = 1000.0
    rates.take("a", limits, 600)
    with pytest.raises(RateLimitedError, match="characters"):
        rates.take("a", limits, 600)
    rates.take("a", limits, 400)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("good\nk name=a name=b", "line 2: the options"),
        ("k colour=red", "the options"),
        ("k requests=many", "requests must be a whole number"),
        ("k scopes=", "the scopes are"),
        ("k name=a\nk name=b", "line 2: the same key"),
        ("sha256:xyz name=a", "64 hexadecimal digits"),
        ("schlüssel name=a", "only ASCII"),
    ],
)
def test_line_that_cannot_be_used_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        read_keys(text)
    assert "schlüssel" not in str(refused.value)


def test_command_makes_a_key_and_the_line_of_the_file(file: Path) -> None:
    arguments = ["--name", "shop", "--scopes", "embed", "--requests", "60"]
    made = CliRunner().invoke(app, ["keys", "create", *arguments])
    assert made.exit_code == 0
    key = made.stderr.split()[-1]
    assert len(key) > 40
    assert key not in made.stdout
    file.write_text(made.stdout)
    (found,) = read_keys(made.stdout)
    assert found == KeyRing(Settings.model_validate({"api_keys": f"file:{file}"})).find(key)
    assert (found.name, found.scopes, found.limits.requests) == ("shop", frozenset({"embed"}), 60)
    assert CliRunner().invoke(app, ["keys", "check", str(file)]).exit_code == 0
    plain = CliRunner().invoke(app, ["keys", "create"]).stdout
    assert read_keys(plain)[0].scopes == {"translate", "embed", "attention"}


def test_command_names_the_fault_of_a_file(file: Path) -> None:
    file.write_text("good\ngood-too colour=red\n")
    for arguments in (["check", str(file)], ["create", "--scopes", "all"], ["check", "/nowhere"]):
        result = CliRunner().invoke(app, ["keys", *arguments])
        assert result.exit_code == 1
        assert "good-too" not in result.output
    assert "line 2" in CliRunner().invoke(app, ["keys", "check", str(file)]).stderr


def test_keys_are_compared_by_their_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time shows nothing about the number of correct characters of a guess."""
    key = "k" * 4096
    ring = KeyRing(Settings.model_validate({"api_keys": key}))
    compared: list[str] = []
    monkeypatch.setattr(hmac, "compare_digest", lambda *texts: compared.extend(texts))
    ring.find(key[:-1])
    ring.find(key)
    assert [len(text) for text in compared] == [64] * 4
    assert key not in compared


def test_token_ids_count_as_characters() -> None:
    assert num_characters({"inputs": [[1, 2, 3], "four"]}) == 7


def test_key_without_scopes_is_not_made() -> None:
    made = CliRunner().invoke(app, ["keys", "create", "--scopes", ""])
    assert made.exit_code != 0
    assert "sha256" not in made.stdout
