"""The routes spend no time in FastAPI's dependencies or threads."""

import inspect

import pytest
from fastapi.routing import APIRoute

from service.api.app import DIALECTS

ROUTES = [
    route
    for dialect in DIALECTS
    for router in dialect.routers
    for route in router.routes
    if isinstance(route, APIRoute)
]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.methods} {route.path}")
def test_route_is_not_taken_to_a_thread(route: APIRoute) -> None:
    """Plain functions were, as dependencies twice a request: that was a third of its cost."""
    assert inspect.iscoroutinefunction(route.endpoint)
    assert not route.dependant.dependencies
