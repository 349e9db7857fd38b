"""The insides of other packages that the server overrides or reads.

A new version of uvicorn, FastAPI or Starlette may rename them without notice.
"""

import importlib
import inspect
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from types import FunctionType
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from fastapi import FastAPI
from packaging.requirements import Requirement
from prometheus_client.registry import Collector
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response, StreamingResponse
from uvicorn.protocols.http import flow_control, httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from release.locks import ROOT

PACKAGES = ("fastapi", "starlette", "uvicorn")
BASES = (*PACKAGES, "httptools", "huggingface_hub", "prometheus_client")

CALL = ("scope", "receive", "send")
OVERRIDDEN: dict[type, dict[str, tuple[str, ...]]] = {
    HttpToolsProtocol: {
        "connection_made": ("transport",),
        "connection_lost": ("exc",),
        "eof_received": (),
        "data_received": ("data",),
        "on_message_begin": (),
        "on_header": ("name", "value"),
        "on_headers_complete": (),
        "on_body": ("body",),
        "on_message_complete": (),
        "on_response_complete": (),
        "pause_writing": (),
        "resume_writing": (),
        "_start_asgi_task": ("cycle", "app"),
    },
    uvicorn.Server: {
        "startup": ("sockets",),
        "on_tick": ("counter",),
        "shutdown": ("sockets",),
        "handle_exit": ("sig", "frame"),
    },
    FastAPI: {"build_middleware_stack": (), "openapi": (), "__call__": CALL},
    Starlette: {"build_middleware_stack": (), "__call__": CALL},
    CORSMiddleware: {"preflight_response": ("request_headers",)},
    Response: {"__call__": CALL},
    StreamingResponse: {"__call__": CALL},
    Collector: {"collect": ()},
}
"""The overridden methods, with the names of their parameters. Constructors are left out: the type
checker compares their calls."""

READ = {
    "protocol": "app_state cycle expect_100_continue flow headers loop parser pipeline scope "
    "server_state tasks transport url",
    "cycle": "body disconnected keep_alive message_event more_body response_complete "
    "response_started run_asgi scope",
    "flow": "pause_reading read_paused resume_reading write_paused",
    "state": "connections default_headers tasks total_requests",
    "server": "force_exit should_exit",
}
"""The attributes that the server reads or sets."""


NOT_COMPARED = {"__init__", "__subclasshook__"}  # the second is from abc


def overrides() -> Iterator[tuple[type, str]]:
    """Yields each method of another package that a class of the server overrides."""
    for name in ("service.server", "service.http_workers.http_worker"):
        importlib.import_module(name)
    modules = [module for name, module in [*sys.modules.items()] if name.startswith("service.")]
    classes = {
        each for module in modules for each in vars(module).values() if isinstance(each, type)
    }
    for each in classes:
        if each.__module__.startswith("service."):
            for base in each.__mro__[1:]:
                if base.__module__.partition(".")[0] in BASES:
                    for name in vars(each).keys() & vars(base).keys() - NOT_COMPARED:
                        if isinstance(vars(base)[name], FunctionType):
                            yield base, name


def test_every_overridden_method_is_named_here() -> None:
    named = {(base, name) for base, methods in OVERRIDDEN.items() for name in methods}
    assert {*overrides()} == named


def parameters_of(method: Any) -> tuple[str, ...]:
    if method.__module__ == "sse_starlette.sse":  # a package of `mcp` replaces `handle_exit`
        method = AppStatus.original_handler
    return tuple(inspect.signature(method).parameters)[1:]


@pytest.mark.parametrize("base", OVERRIDDEN, ids=lambda base: base.__name__)
def test_overridden_methods_have_the_parameters_that_the_server_expects(base: type) -> None:
    found = {name: parameters_of(vars(base)[name]) for name in OVERRIDDEN[base]}
    assert found == OVERRIDDEN[base]


def test_attributes_that_the_server_reads_exist() -> None:
    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        """Is never called."""

    config = uvicorn.Config(app)
    config.load()
    protocol = HttpToolsProtocol(config, ServerState(), {}, Mock())
    protocol.connection_made(Mock())
    protocol.on_message_begin()
    parameters = [*inspect.signature(RequestResponseCycle).parameters]
    objects: dict[str, object] = {
        "protocol": protocol,
        "cycle": RequestResponseCycle(**{name: Mock() for name in parameters}),
        "flow": protocol.flow,
        "state": protocol.server_state,
        "server": uvicorn.Server(config),
    }
    missing = [
        f"{name}.{attribute}"
        for name, attributes in READ.items()
        for attribute in attributes.split()
        if not hasattr(objects[name], attribute)
    ]
    assert not missing
    assert httptools_impl.STATUS_LINE[200].startswith(b"HTTP/1.1 200")
    assert flow_control.HIGH_WATER_LIMIT > 0


@pytest.mark.parametrize("package", PACKAGES)
def test_package_whose_insides_are_overridden_has_an_upper_bound(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = {each.name: each.specifier for each in map(Requirement, project["dependencies"])}
    assert any(each.operator == "<" for each in bounds[package])
    assert version(package) in bounds[package]
