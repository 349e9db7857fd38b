"""The settings of a server that is a replica of Ray Serve, and the limits that follow from them."""

import os
from collections.abc import Mapping
from typing import Any

from service.ipc.processes import STOP_SECONDS
from service.ray_serve.arguments import Arguments
from service.settings import Settings

HAPROXY_VARIABLE = "RAY_SERVE_ENABLE_HA_PROXY"
DRAIN_VARIABLE = "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S"
DRAIN_SECONDS = 30.0
"""Value that Ray Serve uses if DRAIN_VARIABLE is not set.

It is the time in which all HAProxy processes stop using a replica, before the replica drains.
"""


def read_settings(given: Mapping[str, Any], has_gpu: bool = False) -> Settings:
    """Returns the settings of a replica, from the environment and the arguments.

    Clients reach only the proxy of Ray Serve. A replica therefore checks the name in the header
    Host only if the setting allowed_hosts lists names. One process answers HTTP, because Ray Serve
    sends all requests to it.

    Args:
        given: The settings in `Arguments.settings`. They override the environment.
        has_gpu: Whether Ray has assigned GPUs. Without GPUs, models are on the CPU.

    Raises:
        ValidationError: A setting is not valid.
        ValueError: A setting is not possible in a replica.
    """
    settings = Settings(**given)
    if settings.admin_port:
        raise ValueError(
            f"REGARD_ADMIN_PORT is {settings.admin_port}; a replica of Ray Serve has no port of "
            "its own. Remove the setting."
        )
    if settings.http_workers > 1:
        raise ValueError(
            f"REGARD_HTTP_WORKERS is {settings.http_workers}; a replica of Ray Serve answers HTTP "
            "in one process. Remove the setting, and raise max_replicas."
        )
    if not has_gpu and settings.device.startswith("cuda"):
        raise ValueError(
            f"REGARD_DEVICE is {settings.device}, and the replica has no GPU; raise num_gpus, or "
            "remove the setting"
        )
    device = settings.device if has_gpu else "cpu"
    hosts = settings.allowed_hosts or ("*",)
    changes = {"http_workers": 1, "device": device, "allowed_hosts": hosts}
    return settings.model_copy(update=changes)


def ongoing_requests(arguments: Arguments, settings: Settings) -> int:
    """Returns the largest number of requests that Ray Serve sends to a replica at once.

    Above the limit of the server, the server itself refuses requests, with 429 and `Retry-After`.
    A lower limit of Ray Serve would keep requests waiting in the proxy, without a deadline.

    Raises:
        ValueError: The arguments give a number below the limit of the server.
    """
    least = settings.max_pending_requests
    number = arguments.max_ongoing_requests or 2 * least
    if number < least:
        raise ValueError(
            f"max_ongoing_requests is {number}, and REGARD_MAX_PENDING_REQUESTS is {least}; raise "
            "the first or lower the second"
        )
    return number


def shutdown_seconds(settings: Settings) -> float:
    """Returns the time that a stopping replica has; Ray Serve kills it afterwards.

    The time is enough for the drain of the server and then for the end of the device workers.
    Behind HAProxy, it also covers the wait until all proxies have removed the replica.
    """
    wait = 0.0
    if os.environ.get(HAPROXY_VARIABLE) == "1":
        wait = float(os.environ.get(DRAIN_VARIABLE, DRAIN_SECONDS))
    drain = settings.drain_delay_seconds + settings.drain_timeout_seconds
    return wait + drain + 2 * STOP_SECONDS
