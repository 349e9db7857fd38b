"""The table of routes."""

import inspect

from service.api.app import DIALECTS
from service.api.dialect import Routes
from service.api.openai import embeddings

ROUTES = {key: route for dialect in DIALECTS for key, route in dialect.routes.items()}


def test_no_route_is_taken_to_a_thread() -> None:
    """Plain functions were, as dependencies twice a request: that was a third of its cost."""
    for key, route in ROUTES.items():
        assert inspect.iscoroutinefunction(route.endpoint), key
        assert not route.dependant.dependencies, key


def test_middleware_calls_all_endpoints_of_tasks() -> None:
    """FastAPI takes as much time as all other work on a short text."""
    tasks = {
        key for key, route in Routes(DIALECTS).table.items() if route.task and key[0] == "POST"
    }
    direct = {key for key, route in Routes(DIALECTS).table.items() if route.endpoint is not None}
    assert tasks <= direct
    assert ("GET", "/v1/models/{id:path}") not in direct


def test_unknown_path_belongs_to_the_dialect_of_its_prefix() -> None:
    routes = Routes(DIALECTS)
    for path, is_openai in (("/v1/absent", True), ("/v1", True), ("/v12", False)):
        assert (routes.unknown(path).dialect is embeddings.DIALECT) is is_openai
