"""Reads OpenTelemetry's environment variables, and builds the tracing of an application.

OpenTelemetry's SDK reads most of the variables itself, so they are no settings of the server.
Without an endpoint, the address of a collector, no package of OpenTelemetry is imported.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # regard[otel] may be missing
    from service.api.spans import OtlpTracing

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")

Environment = Mapping[str, str]


def is_enabled(environment: Environment) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(environment.get(name) for name in ENDPOINTS)


def fault_of(environment: Environment) -> str | None:
    """Returns the reason why tracing cannot work; None if it is disabled or can work."""
    if not is_enabled(environment):
        return None
    variable = next(name for name in ENDPOINTS if environment.get(name))
    if not all(is_installed(name) for name in PACKAGES):
        return (
            f"{variable} is set, but OpenTelemetry is not installed; "
            "install regard[otel], or unset the variable"
        )
    name = next((each for each in PROTOCOLS if environment.get(each)), None)
    if name is not None and environment[name] != PROTOCOL:
        return f"{name} is {environment[name]}; only {PROTOCOL} is supported"
    return None


def is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def open_tracing(environment: Environment) -> "OtlpTracing | None":
    if not is_enabled(environment):
        return None
    from service.api.spans import OtlpTracing

    return OtlpTracing(environment)
