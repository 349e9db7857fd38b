"""A replica of Ray Serve: the application of the server, and its device workers.

The workers are started and ended with the ASGI lifespan of the application. A worker also ends when
its replica is killed, because the worker's channel is closed then.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import ray
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import logs
from service.core import Core
from service.models.registry.commands import take_models
from service.ray_serve.autoscaling import QUEUED_TOKENS, USED_ROWS
from service.scheduling.scheduler import Scheduler
from service.scheduling.supervisor import StartWorker, start_process
from service.server import create_app
from service.settings import Settings

ID_HEADER = b"x-request-id"

READY_SECONDS = 0.05
"""Time between two checks whether the models are ready."""


class PlainApplication:
    """An application that hides its routes from Ray Serve, and leaves X-Request-Id to Ray Serve.

    If Ray Serve saw the routes, it would compare each request with all of them, for its metrics.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_without_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                message["headers"] = [each for each in headers if each[0] != ID_HEADER]
            await send(message)

        await self.app(scope, receive, send_without_id)


class Replica:
    """One server with its device workers. The given settings override the environment."""

    start_worker: StartWorker = staticmethod(start_process)

    def __init__(self, given: Mapping[str, Any]) -> None:
        assigned = ray.get_runtime_context().get_assigned_resources()
        self.settings = take_models(read_settings(given, assigned.get("GPU", 0) > 0))
        self.cores = max(1, int(assigned.get("CPU", 1)))
        self.core: Core | None = None
        logs.configure_own(self.settings.log_level, self.settings.log_format)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        app = create_app(self.settings, self.start_worker, cores=self.cores)
        self.core = app.state.core
        return PlainApplication(app)

    async def check_health(self) -> None:
        """Waits until a device worker is ready. Ray Serve sends requests after the first check.

        If a restart of a worker takes too long, Ray Serve replaces the replica.
        """
        assert self.core is not None
        supervisor = self.core.supervisor
        while not supervisor.is_ready:
            if supervisor.failure is not None:
                raise RuntimeError(f"no worker can serve: {supervisor.failure}")
            await asyncio.sleep(READY_SECONDS)

    async def record_autoscaling_stats(self) -> dict[str, float]:
        assert self.core is not None
        scheduler = self.core.scheduler
        return {QUEUED_TOKENS: float(waiting_tokens(scheduler)), USED_ROWS: used_share(scheduler)}


def read_settings(given: Mapping[str, Any], has_gpu: bool = False) -> Settings:
    """Returns the settings of a replica, from the environment and the arguments.

    Clients reach only the proxy of Ray Serve, so by default any name in the header Host is allowed.
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
    return settings.model_copy(update={"http_workers": 1, "device": device, "allowed_hosts": hosts})


def waiting_tokens(scheduler: Scheduler) -> int:
    queues = [queue for models in scheduler.queues.values() for queue in models.values()]
    return sum(lane.tokens for queue in queues for lane in queue.lanes)


def used_share(scheduler: Scheduler) -> float:
    """Returns the largest share of used batch rows of any model; 0 without translation models."""
    kinds = [kind for kind, row in scheduler.kinds.items() if row.policy.counts_rows]
    pairs = [(kind, model) for kind in kinds for model in scheduler.queues[kind]]
    rows = [(scheduler.used_rows(*pair), scheduler.free_rows(*pair)) for pair in pairs]
    return max((used / (used + free) for used, free in rows if used), default=0.0)
