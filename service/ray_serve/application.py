"""Builds the application of Ray Serve: `serve run service.ray_serve.application:build`."""

from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.schema import LoggingConfig

from service.ray_serve.arguments import Arguments
from service.ray_serve.autoscaling import QueuedTokensPolicy
from service.ray_serve.replica import Replica
from service.ray_serve.replica_settings import ongoing_requests, read_settings, shutdown_seconds

NAME = "regard"
"""Name of the only deployment of the application."""

HEALTH_SECONDS = 2.0
"""Time between two checks of a replica. A check costs little, and finds a replica that died."""

LOOK_BACK_SECONDS = 15.0
"""The autoscaling uses the mean of the reports of the last 15 s. Replicas report every 10 s."""


def build(arguments: Arguments) -> Application:
    """Returns the application for the arguments of a configuration.

    Raises:
        ValueError: A setting or an argument is not valid, or not possible in a replica.
    """
    return build_with(Replica, arguments)


def build_with(replica: type[Replica], arguments: Arguments) -> Application:
    """Returns the application, whose replicas are instances of the class `replica`.

    Raises:
        ValueError: A setting or an argument is not valid, or not possible in a replica.
    """
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
    """Returns the deployment options that set the number of replicas, or the autoscaling."""
    limits: dict[str, Any] = {}
    if arguments.max_replicas_per_node:
        limits["max_replicas_per_node"] = arguments.max_replicas_per_node
    if arguments.min_replicas == arguments.max_replicas:
        return limits | {"num_replicas": arguments.min_replicas}
    policy = AutoscalingPolicy(
        policy_function=QueuedTokensPolicy,
        policy_kwargs={"target_tokens": arguments.target_queued_tokens},
    )
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
