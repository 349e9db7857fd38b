"""A replica of Ray Serve: the application of the server, and its device workers.

Ray Serve runs the ASGI lifespan of the application. The workers are started when the lifespan
begins. They are ended when the lifespan ends, after the last request. A worker also ends when its
replica is killed, because the worker's channel is closed then.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import ray
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import logs
from service.core import Core
from service.models.registry.take import take_models
from service.ray_serve.autoscaling import QUEUED_TOKENS, USED_ROWS
from service.ray_serve.load import used_share, waiting_tokens
from service.ray_serve.replica_settings import read_settings
from service.server import create_app
from service.workers.supervisor import StartWorker, start_process

ID_HEADER = b"x-request-id"

READY_SECONDS = 0.05
"""Time between two checks whether the models are ready."""


class PlainApplication:
    """An application that hides its routes from Ray Serve, and leaves X-Request-Id to Ray Serve.

    If Ray Serve saw the routes, it would compare each request with all of them, for its metrics.
    Ray Serve gives each request an id, which the application uses. Ray Serve also adds the header
    X-Request-Id to the response. The application's own header would repeat it and is removed.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request, or the lifespan."""

        async def send_without_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                message["headers"] = [each for each in headers if each[0] != ID_HEADER]
            await send(message)

        await self.app(scope, receive, send_without_id)


class Replica:
    """One server with its device workers, as Ray Serve uses it.

    Args:
        given: The settings in `Arguments.settings`. They override the environment.

    Attributes:
        start_worker: Starts a device worker.
    """

    start_worker: StartWorker = staticmethod(start_process)

    def __init__(self, given: Mapping[str, Any]) -> None:
        assigned = ray.get_runtime_context().get_assigned_resources()
        self.settings = take_models(read_settings(given, assigned.get("GPU", 0) > 0))
        self.cores = max(1, int(assigned.get("CPU", 1)))
        self.core: Core | None = None
        logs.configure_own(self.settings.log_level, self.settings.log_format)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Builds the application; Ray Serve calls this method in the replica's event loop."""
        app = create_app(self.settings, self.start_worker, cores=self.cores)
        self.core = app.state.core
        return PlainApplication(app)

    async def check_health(self) -> None:
        """Waits until a device worker is ready. Ray Serve sends requests after the first check.

        A worker that ends later is started again. If this takes longer than the health check may
        take, Ray Serve replaces the replica.

        Raises:
            RuntimeError: A model cannot be loaded, or the device has failed repeatedly.
        """
        assert self.core is not None
        supervisor = self.core.supervisor
        while not supervisor.is_ready:
            if supervisor.failure is not None:
                raise RuntimeError(f"no worker can serve: {supervisor.failure}")
            await asyncio.sleep(READY_SECONDS)

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Returns the waiting work and the share of used batch rows, for the autoscaling."""
        assert self.core is not None
        scheduler = self.core.scheduler
        return {QUEUED_TOKENS: float(waiting_tokens(scheduler)), USED_ROWS: used_share(scheduler)}
