"""The table of routes, and the schemas that can be imported without a server's libraries."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from service import api
from service.api.app import DIALECTS
from service.api.dialect import Routes

SCHEMAS = sorted(
    f"service.api.{path.parent.name}.{path.stem}"
    for path in Path(api.__path__[0]).glob("*/*schemas.py")
)
REQUESTS = "service.tasks.attention.requests"
ROUTES = {key: route for dialect in DIALECTS for key, route in dialect.routes.items()}
HEAVY = ("numpy", "prometheus_client", "torch", "uvicorn")


@pytest.mark.parametrize("name", [*SCHEMAS, REQUESTS])
def test_schemas_load_neither_numpy_nor_prometheus(name: str) -> None:
    program = f"import sys, {name}; print(*[m for m in {HEAVY} if m in sys.modules])"
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == ""


def test_every_dialect_has_schemas() -> None:
    dialects = {name.split(".")[2] for name in SCHEMAS}
    assert dialects >= {"attention", "libretranslate", "openai", "tei"}


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
