"""The description of the API: every route, body and error, readable by other people's tools."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.api import tei
from service.server import create_app
from tests.api.servers import make_settings
from tests.workers import Script, Threads

LINTER = "@redocly/cli@2.77.0"
"""It follows references, as generators of clients do; Python's validators do not."""


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    app = create_app(make_settings(), Threads(Script().load))
    schema: dict[str, Any] = app.openapi()
    return schema


def resolve(openapi: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    found: Any = openapi
    for step in schema["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    assert isinstance(found, dict)
    return found


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for member in value.values() if isinstance(value, dict) else value:
        if isinstance(member, dict | list):
            yield from nodes(member)


def test_every_operation_is_described_and_has_its_own_id(openapi: dict[str, Any]) -> None:
    """tests/test_docs.py compares the routes with docs/api.md."""
    operations = [each for methods in openapi["paths"].values() for each in methods.values()]
    assert all(operation["description"] for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert openapi["info"]["title"] == "Regard"


def test_clients_can_be_generated(openapi: dict[str, Any]) -> None:
    assert openapi["servers"] == [{"url": "/"}]
    assert openapi["security"] == [{}, {"bearer": []}, {"header": []}]
    assert openapi["components"]["securitySchemes"].keys() == {"bearer", "header"}
    assert not openapi["paths"]["/v2/languages"]["post"]["requestBody"]["required"]
    assert openapi["paths"]["/v2/translate"]["post"]["requestBody"]["required"]
    assert "auth_key" not in openapi["components"]["schemas"]["DictionaryFields"]["properties"]


@pytest.mark.parametrize("path", ["/translate", "/detect"])
def test_openapi_describes_bodies_and_errors(openapi: dict[str, Any], path: str) -> None:
    operation = openapi["paths"][path]["post"]
    for kind in ("application/json", "application/x-www-form-urlencoded"):
        schema = resolve(openapi, operation["requestBody"]["content"][kind]["schema"])
        assert "q" in schema["properties"]
        assert "q" in schema["required"]
        assert all(field["description"] for field in schema["properties"].values())
    for status in ("400", "403", "413", "429", "500", "503", "504"):
        content = operation["responses"][status]["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
    assert openapi["components"]["schemas"]["ErrorBody"]["example"]["error_type"]


@pytest.mark.parametrize("path", ["/attention", "/attention/steps", "/attention/knockout"])
def test_openapi_describes_attention(openapi: dict[str, Any], path: str) -> None:
    operation = openapi["paths"][path]["post"]
    schema = resolve(openapi, operation["requestBody"]["content"]["application/json"]["schema"])
    assert "text" in schema["required"]
    assert all(field["description"] for field in schema["properties"].values())
    replies = operation["responses"]["200"]["content"]
    assert replies["application/json"]["schema"]
    assert ("application/x-npz" in replies) == (path == "/attention")
    for status in ("400", "403", "404", "413", "429", "500", "503", "504"):
        content = operation["responses"][status]["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}


def test_openapi_names_no_error_that_is_never_sent(openapi: dict[str, Any]) -> None:
    """FastAPI adds its own 422 wherever it checks a parameter; only TEI's routes send one."""
    found = {path: op for path, methods in openapi["paths"].items() for op in methods.values()}
    named = {path for path, op in found.items() if "422" in op["responses"]}
    assert named == {path for method, path in tei.DIALECT.routes if method == "POST"}
    for path in named:
        assert "401" in found[path]["responses"]
        content = found[path]["responses"]["422"]["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/TeiErrorBody"}


def test_every_reference_leads_somewhere(openapi: dict[str, Any]) -> None:
    """Generators of clients gave up at those of `/similarity`."""
    references = [node for node in nodes(openapi) if isinstance(node.get("$ref"), str)]
    assert references
    for reference in references:
        resolve(openapi, reference)
    assert not [node for node in nodes(openapi) if "$defs" in node]


def test_bounds_have_the_names_of_json_schema(openapi: dict[str, Any]) -> None:
    """`ge` and `le` mean nothing there."""
    assert not [node for node in nodes(openapi) if {"ge", "le", "gt", "lt"} & node.keys()]
    fields = openapi["components"]["schemas"]["AttentionRequest"]["properties"]
    assert fields["decimals"]["anyOf"][0] == {"type": "integer", "minimum": 0, "maximum": 9}
    assert fields["top_k"]["anyOf"][0] == {"type": "integer", "minimum": 1}


def test_optional_parameter_may_be_null(openapi: dict[str, Any]) -> None:
    requests = [name for name in openapi["components"]["schemas"] if name.endswith("Request")]
    assert len(requests) >= 10
    for name in requests:
        schema = openapi["components"]["schemas"][name]
        required = schema.get("required", ())
        for parameter, field in schema["properties"].items():
            is_any = not {"type", "anyOf", "$ref"} & field.keys()
            is_null = {"type": "null"} in field.get("anyOf", ())
            assert is_any or is_null == (parameter not in required), (name, parameter)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("TranslateRequest", "q"),
        ("DetectRequest", "q"),
        ("DeepLRequest", "text"),
        ("AttentionRequest", "text"),
        ("AttentionRequest", "kinds"),
        ("AttentionRequest", "layers"),
        ("AttentionRequest", "heads"),
        ("EmbedRequest", "inputs"),
        ("EmbeddingsRequest", "input"),
        ("SimilarityInputs", "sentences"),
    ],
)
def test_list_that_must_not_be_empty_says_so(
    openapi: dict[str, Any], name: str, parameter: str
) -> None:
    field = openapi["components"]["schemas"][name]["properties"][parameter]
    lists = [each for each in field.get("anyOf", [field]) if each.get("type") == "array"]
    assert lists
    assert all(each["minItems"] == 1 for each in lists)


def run_npx(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"REDOCLY_TELEMETRY": "off", "CI": "true"}
    command = ["npx", "--yes", LINTER, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )


@pytest.mark.slow
def test_linter_finds_no_fault(openapi: dict[str, Any], tmp_path: Path) -> None:
    if shutil.which("npx") is None:
        pytest.skip("npm is not installed: openapi.json is not linted")
    if run_npx(tmp_path, "--version").returncode:
        pytest.skip(f"{LINTER} cannot be installed: openapi.json is not linted")
    (tmp_path / "openapi.json").write_text(json.dumps(openapi))
    linted = run_npx(tmp_path, "lint", "--extends=spec", "openapi.json")
    assert linted.returncode == 0, linted.stdout + linted.stderr
