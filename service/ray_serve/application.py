"""Builds the application of Ray Serve: `serve run service.ray_serve.application:build`."""

import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.schema import LoggingConfig

from service.ipc.processes import STOP_SECONDS
from service.ray_serve.autoscaling import QueuedTokensPolicy
from service.ray_serve.replica import Replica, read_settings
from service.settings import Settings

NAME = "regard"
"""Name of the only deployment of the application."""

HEALTH_SECONDS = 2.0
"""Time between two checks of a replica. A check costs little, and finds a replica that died."""

LOOK_BACK_SECONDS = 15.0
"""The autoscaling uses the mean of the reports of the last 15 s. Replicas report every 10 s."""

HAPROXY_VARIABLE = "RAY_SERVE_ENABLE_HA_PROXY"
DRAIN_VARIABLE = "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S"
DRAIN_SECONDS = 30.0
"""Ray Serve's default: time in which all HAProxy processes stop using a replica that will drain."""


class Arguments(BaseModel):
    """The `args` of the application in a configuration of Ray Serve (docs/ray.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_cpus: float = Field(default=1.0, gt=0)  # without GPUs, each whole core gets a device worker
    num_gpus: float = Field(default=0.0, ge=0)  # each GPU gets a device worker
    min_replicas: int = Field(default=1, ge=1)
    max_replicas: int = Field(default=1, ge=1)
    max_replicas_per_node: int = Field(default=0, ge=0, le=100)  # 0 sets no limit
    target_queued_tokens: float = Field(default=8192.0, gt=0)  # waiting source tokens of a replica
    upscale_delay_seconds: float = Field(default=10.0, ge=0)
    downscale_delay_seconds: float = Field(default=300.0, ge=0)
    max_ongoing_requests: int = Field(default=0, ge=0)  # 0 is twice REGARD_MAX_PENDING_REQUESTS
    settings: Mapping[str, str | int | float | bool] = {}  # override the environment of a replica

    @model_validator(mode="after")
    def _has_room(self) -> "Arguments":
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"max_replicas is {self.max_replicas}, and min_replicas is {self.min_replicas}; "
                "raise max_replicas"
            )
        return self


def build(arguments: Arguments) -> Application:
    return build_with(Replica, arguments)


def build_with(replica: type[Replica], arguments: Arguments) -> Application:
    settings = read_settings(arguments.settings, has_gpu=arguments.num_gpus > 0)
    as_deployment = serve.deployment(
        name=NAME,
        max_ongoing_requests=ongoing_requests(arguments, settings),
        graceful_shutdown_timeout_s=shutdown_seconds(settings),
        graceful_shutdown_wait_loop_s=0.5,
        health_check_period_s=HEALTH_SECONDS,
        logging_config=LoggingConfig(enable_access_log=False),
        ray_actor_options={"num_cpus": arguments.num_cpus, "num_gpus": arguments.num_gpus},
        **replicas(arguments),
    )
    deployment = as_deployment(serve.ingress()(replica))
    application: Application = deployment.bind(dict(arguments.settings))
    return application


def replicas(arguments: Arguments) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if arguments.max_replicas_per_node:
        limits["max_replicas_per_node"] = arguments.max_replicas_per_node
    if arguments.min_replicas == arguments.max_replicas:
        return limits | {"num_replicas": arguments.min_replicas}
    target = {"target_tokens": arguments.target_queued_tokens}
    policy = AutoscalingPolicy(policy_function=QueuedTokensPolicy, policy_kwargs=target)
    scaling = AutoscalingConfig(
        min_replicas=arguments.min_replicas,
        max_replicas=arguments.max_replicas,
        initial_replicas=arguments.min_replicas,
        upscale_delay_s=arguments.upscale_delay_seconds,
        downscale_delay_s=arguments.downscale_delay_seconds,
        look_back_period_s=LOOK_BACK_SECONDS,
        policy=policy,
    )
    return limits | {"autoscaling_config": scaling}


def ongoing_requests(arguments: Arguments, settings: Settings) -> int:
    # A limit below the server's own would keep requests waiting in the proxy, without a deadline.
    least = settings.max_pending_requests
    number = arguments.max_ongoing_requests or 2 * least
    if number < least:
        raise ValueError(
            f"max_ongoing_requests is {number}, and REGARD_MAX_PENDING_REQUESTS is {least}; raise "
            "the first or lower the second"
        )
    return number


def shutdown_seconds(settings: Settings) -> float:
    wait = 0.0
    if os.environ.get(HAPROXY_VARIABLE) == "1":  # until all proxies have removed the replica
        wait = float(os.environ.get(DRAIN_VARIABLE, DRAIN_SECONDS))
    drain = settings.drain_delay_seconds + settings.drain_timeout_seconds
    return wait + drain + 2 * STOP_SECONDS
