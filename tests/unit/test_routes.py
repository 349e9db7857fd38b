"""The table of routes."""

import inspect

import pytest
from fastapi.routing import APIRoute

from service.api.app import DIALECTS
from service.api.dialect import Routes

ROUTES = {key: route for dialect in DIALECTS for key, route in dialect.routes.items()}


@pytest.mark.parametrize("route", ROUTES.values(), ids=map(str, ROUTES))
def test_route_is_not_taken_to_a_thread(route: APIRoute) -> None:
    """Plain functions were, as dependencies twice a request: that was a third of its cost."""
    assert inspect.iscoroutinefunction(route.endpoint)
    assert not route.dependant.dependencies


def test_middleware_calls_all_endpoints_of_tasks() -> None:
    """FastAPI takes as much time as all other work on a short text."""
    tasks = {
        key for key, route in Routes(DIALECTS).table.items() if route.task and key[0] == "POST"
    }
    direct = {key for key, route in Routes(DIALECTS).table.items() if route.endpoint is not None}
    assert tasks <= direct
    assert ("GET", "/v1/models/{id:path}") not in direct
