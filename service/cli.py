"""The `regard` command."""

import asyncio
import logging
import signal
import socket
from typing import Annotated, Any

import typer
import uvicorn
import uvloop

from model.errors import ModelError
from service.api.app import LOG_FORMAT, http_config
from service.bench.commands import app as bench
from service.console import console, read_settings, stop
from service.files.embed import app as embed
from service.files.translate import app as translate
from service.http_workers.main_process import MainProcess, open_listeners
from service.ipc.machine import freeze_heap, require_linux
from service.ipc.machine import http_workers as count_http_workers
from service.models.catalog import Catalog
from service.models.registry.cache import ModelCache
from service.models.registry.commands import app as models_app
from service.models.registry.commands import pull_models
from service.models.registry.describe import placements_of
from service.models.registry.errors import RegistryError
from service.models.registry.locate import locate, missing_files
from service.models.registry.manifest import read_entries
from service.server import create_app
from service.settings import Settings

EXAMPLE = ("en", "pt")
"""Languages of the printed example. A server without this pair uses its first pair instead."""

app = typer.Typer(help="A translation and embedding server that you can look inside.")
app.add_typer(bench, name="bench", help="Measure a server through HTTP.")
app.add_typer(models_app, name="models", help="Fetch, check and describe models.")
app.add_typer(translate)
app.add_typer(embed)


class Server(uvicorn.Server):
    """A server that prints its address, and that ends with status 0 after SIGTERM."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen, then prints the address."""
        await super().startup(sockets)
        freeze_heap()
        application: Any = self.config.app
        catalog = application.state.services.catalog
        greet(self.config.host, self.servers[0].sockets[0].getsockname()[1], catalog)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Starts to drain on SIGTERM and SIGINT. During draining, SIGINT ends the server at once.

        The method of uvicorn would also record the signal, and uvicorn raises recorded signals
        again after draining. The program would then end with the status of a killed program.
        """
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


@app.callback()
def root() -> None:
    """A translation and embedding server that you can look inside."""


@app.command()
def serve(  # noqa: PLR0913 - one parameter is one flag
    host: Annotated[str | None, typer.Option(help="address to listen on (REGARD_HOST)")] = None,
    port: Annotated[int | None, typer.Option(help="port to listen on (REGARD_PORT)")] = None,
    models: Annotated[
        str | None, typer.Option(help="models to serve, separated by commas (REGARD_MODELS)")
    ] = None,
    pull: Annotated[
        bool | None, typer.Option("--pull", help="fetch missing models first (REGARD_PULL)")
    ] = None,
    device: Annotated[str | None, typer.Option(help="device of the models (REGARD_DEVICE)")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="precision of the models (REGARD_DTYPE)")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="number of device workers (REGARD_WORKERS)")
    ] = None,
    http_workers: Annotated[
        int | None, typer.Option(help="number of HTTP processes (REGARD_HTTP_WORKERS)")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="lowest level of log messages (REGARD_LOG_LEVEL)")
    ] = None,
) -> None:
    """Serve models until SIGTERM or Ctrl-C. An option overrides its environment variable."""
    flags = {
        "host": host,
        "port": port,
        "models": models,
        "pull": pull,
        "device": device,
        "dtype": dtype,
        "workers": workers,
        "http_workers": http_workers,
        "log_level": log_level,
    }
    require_linux()
    settings = read_settings({name: value for name, value in flags.items() if value is not None})
    logging.basicConfig(level=settings.log_level.upper(), format=LOG_FORMAT)
    count = count_http_workers(settings.http_workers, settings.device)
    try:
        settings = take_models(settings)
        failure = serve_here(settings) if count == 1 else serve_apart(settings, count)
    except (ModelError, RegistryError) as error:
        raise stop(str(error)) from error
    if failure is not None:
        raise stop(failure)


def serve_here(settings: Settings) -> str | None:
    """Serves HTTP from this process; returns why a model could not be loaded, or None."""
    failures: list[str] = []

    def fail(message: str) -> None:
        failures.append(message)
        server.should_exit = True

    application = create_app(settings, on_failure=fail)
    server = Server(http_config(application, settings))
    application.state.core.metrics.draining.set_function(lambda: server.should_exit)
    server.run()
    return failures[0] if failures else None


def serve_apart(settings: Settings, count: int) -> str | None:
    """Serves HTTP from `count` processes; returns why a model could not be loaded, or None."""
    try:
        listeners = open_listeners(settings.host, settings.port)
    except OSError as error:
        address = f"{settings.host}:{settings.port}"
        reason = (error.strerror or str(error)).lower()
        raise stop(
            f"cannot listen on {address}: {reason}; set REGARD_PORT to another port"
        ) from error
    port = listeners[0].getsockname()[1]

    def announce() -> None:
        greet(settings.host, port, main_process.catalog)

    main_process = MainProcess(settings, listeners, on_listening=announce)

    async def run() -> None:
        freeze_heap()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, main_process.stop)
        loop.add_signal_handler(signal.SIGINT, main_process.interrupt)
        await main_process.run(count)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    return main_process.failure


def take_models(settings: Settings) -> Settings:
    """Returns settings whose models are complete folders and packages on this disk.

    `serve` calls this function once, before any other process starts. No request is sent to a
    registry afterwards.

    Raises:
        RegistryError: A file is missing, cannot be fetched, or has a wrong checksum.
        CheckpointError: A pulled model cannot be served.
    """
    cache = ModelCache.at(settings.model_cache)
    if settings.pull:
        entries = read_entries(settings.models)
        pull_models([e for e in entries if missing_files(e, cache)], cache, settings)
    located = locate(settings.models, cache, settings.offline)
    return settings.with_models([model.place for model in located], placements_of(located))


def greet(host: str, port: int, catalog: Catalog) -> None:
    """Prints the address of the server, and a command that tries or lists its models."""
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    console.print(
        f"Regard listens on {address} (models load in the background). Try:\n",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    console.print(
        f"  curl {address}{trial(catalog)}\n",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def trial(catalog: Catalog) -> str:
    """Returns the path and the arguments of a curl command that the server can answer."""
    pairs = [
        (source, target)
        for source, targets in catalog.offers().items()
        for target in targets
        if source != target
    ]
    if pairs:
        source, target = EXAMPLE if EXAMPLE in pairs else pairs[0]
        path = "/translate"
        body = f'{{"q":"The cat sat on the mat.","source":"{source}","target":"{target}"}}'
    elif catalog.embedders:
        path, body = "/embed", '{"inputs":"The cat sat on the mat."}'
    else:
        return "/v1/models"
    return f"{path} -H 'Content-Type: application/json' -d '{body}'"


def main() -> None:
    """Runs the `regard` command."""
    app()
