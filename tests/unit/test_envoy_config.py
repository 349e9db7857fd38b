"""The configuration of Envoy agrees with the settings and the routes of the servers behind it."""

import re
from typing import Any

import pytest
import yaml
from starlette.routing import Route

from benchmarks.replicas.envoy import CONFIG
from service.api.app import DIALECTS
from service.settings import Settings

KEPT_BY_ONE_REPLICA = {
    "deepl.documents",
    "deepl.glossaries",
    "libretranslate.routes.download_file",
    "libretranslate.routes.suggest",
    "libretranslate.routes.translate_file",
}
"""Modules and functions of routes whose data one replica keeps."""


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(CONFIG.read_text("utf-8"))["static_resources"]
    return parsed


@pytest.fixture(scope="module")
def manager(config: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = config["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    return found


@pytest.fixture(scope="module")
def routes(manager: dict[str, Any]) -> list[dict[str, Any]]:
    (host,) = manager["route_config"]["virtual_hosts"]
    return [route for route in host["routes"] if "route" in route]


def default(name: str) -> float:
    return float(Settings.model_fields[name].default)


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def endpoints() -> list[Route]:
    routers = [router for dialect in DIALECTS for router in dialect.routers]
    return [route for router in routers for route in router.routes if isinstance(route, Route)]


@pytest.mark.parametrize("route", endpoints(), ids=lambda route: f"{route.path} {route.methods}")
def test_data_of_one_replica_has_a_route_of_its_own(
    route: Route, routes: list[dict[str, Any]]
) -> None:
    module = route.endpoint.__module__.removeprefix("service.api.")
    is_kept = not KEPT_BY_ONE_REPLICA.isdisjoint({module, f"{module}.{route.endpoint.__name__}"})
    kept, _ = routes
    path = re.sub(r"{[^}]*}", "x", route.path)
    assert is_kept == bool(re.fullmatch(kept["match"]["safe_regex"]["regex"], path))


def test_only_a_request_that_no_replica_received_may_change_data_twice(
    routes: list[dict[str, Any]],
) -> None:
    kept, computing = (route["route"]["retry_policy"] for route in routes)
    assert kept["retry_on"] == "connect-failure,refused-stream"
    assert computing["retriable_status_codes"] == [503]  # a 429 reaches the client


def test_envoy_waits_longer_than_the_server(routes: list[dict[str, Any]]) -> None:
    kept, computing = (route["route"] for route in routes)
    per_try = seconds(computing["retry_policy"]["per_try_timeout"])
    assert default("request_timeout_seconds") < per_try
    assert 2 * per_try <= seconds(computing["timeout"])
    assert default("file_timeout_seconds") < seconds(kept["timeout"])
    assert default("file_timeout_seconds") < seconds(kept["idle_timeout"])


def test_envoy_closes_idle_connections_before_the_server(config: dict[str, Any]) -> None:
    for cluster in config["clusters"]:
        (options,) = cluster["typed_extension_protocol_options"].values()
        idle = options["common_http_protocol_options"]["idle_timeout"]
        assert seconds(idle) < default("idle_timeout_seconds")


def test_body_that_the_server_accepts_can_be_sent_again(config: dict[str, Any]) -> None:
    (listener,) = config["listeners"]
    assert listener["per_connection_buffer_limit_bytes"] >= default("max_body_bytes")


def test_server_bounds_its_queue_before_envoy_does(config: dict[str, Any]) -> None:
    for cluster in config["clusters"]:
        (host,) = cluster["circuit_breakers"]["per_host_thresholds"]
        connections = host["max_connections"]
        assert default("max_pending_requests") < connections < default("max_connections")


def test_variant_differs_in_the_choice_of_the_replica_alone() -> None:
    first, second = (
        yaml.safe_load((CONFIG.parent / name).read_text("utf-8"))
        for name in ("envoy.yaml", "envoy-load-reports.yaml")
    )
    for parsed in (first, second):
        (cluster, _) = parsed["static_resources"]["clusters"]
        del cluster["load_balancing_policy"]
    assert first == second
