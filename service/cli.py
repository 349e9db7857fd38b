"""The `regard` command."""

import asyncio
import errno
import logging
import os
import signal
import socket
from importlib.metadata import version
from typing import Annotated, Any

import typer
import uvloop
from typer.core import TyperGroup
from typer.main import get_command

from model.errors import ModelError
from service import logs
from service.api.key_commands import app as keys_app
from service.api.tracing import fault_of as tracing_fault
from service.bulk.commands import app as bulk
from service.console import read_settings, say, stop
from service.doctor import app as doctor
from service.files.embed import app as embed
from service.files.mcp import app as mcp
from service.files.translate import app as translate
from service.http_workers.main_process import MainProcess, open_listeners
from service.ipc.machine import freeze_heap, require_linux
from service.ipc.machine import http_workers as count_http_workers
from service.logs import LogFormat
from service.models.catalog import Catalog
from service.models.registry.commands import app as models_app
from service.models.registry.commands import take_models
from service.models.registry.errors import RegistryError
from service.settings import Settings

logger = logging.getLogger("regard")

EXAMPLE = ("en", "pt")
"""Languages of the printed example, if the server translates this pair."""


class Commands(TyperGroup):
    """Adds `regard bench`, and imports it only when it is needed: no server imports benchmarks."""

    def list_commands(self, ctx: Any) -> list[str]:
        first, *others = super().list_commands(ctx)
        return [first, "bench", *others]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name != "bench":
            return super().get_command(ctx, cmd_name)
        from benchmarks.bench.commands import app as bench

        return get_command(bench)


app = typer.Typer(cls=Commands, help="A translation and embedding server that you can look inside.")
app.add_typer(models_app, name="models", help="Fetch, check and describe models.")
app.add_typer(keys_app, name="keys", help="Make and check API keys.")
app.add_typer(bulk, name="bulk", help="Translate or embed files of any size.")
app.add_typer(translate)
app.add_typer(embed)
app.add_typer(mcp)
app.add_typer(doctor)


def print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(version("regard"))
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="print the version and exit"
        ),
    ] = False,
) -> None:
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
    flags = {name: value for name, value in locals().items() if value is not None}
    logs.configure("info", logs.environment_format())  # until the settings are known
    require_linux()
    if (fault := tracing_fault(os.environ)) is not None:
        raise stop(fault)
    settings = read_settings(flags)
    logs.configure(settings.log_level, settings.log_format)
    count = count_http_workers(settings.http_workers, settings.device)
    try:
        settings = take_models(settings)
        failure = serve_here(settings) if count == 1 else serve_apart(settings, count)
    except (ModelError, RegistryError) as error:
        raise stop(str(error)) from error
    if failure is not None:
        raise stop(failure)


def serve_here(settings: Settings) -> str | None:
    """Serves HTTP from this process. If a model or the device failed, returns the reason."""
    # This import takes 1.4 s, and only a process that serves HTTP needs it.
    from service.server import Server

    def announce(port: int, catalog: Catalog) -> None:
        greet(settings.host, port, catalog, settings.log_format)

    server = Server(settings, on_listening=announce)
    server.run(listen(settings))
    return server.failure


def serve_apart(settings: Settings, count: int) -> str | None:
    """Serves HTTP from `count` processes; returns as `serve_here` does."""
    listeners = listen(settings)
    port = listeners[0].getsockname()[1]

    def announce() -> None:
        greet(settings.host, port, main_process.catalog, settings.log_format)

    main_process = MainProcess(settings, listeners, on_listening=announce)

    async def run() -> None:
        freeze_heap()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, main_process.interrupt)
        await main_process.run(count)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    return main_process.failure


def listen(settings: Settings) -> list[socket.socket]:
    wanted = [(settings.host, settings.port, "REGARD")]
    if settings.admin_port:
        host = settings.admin_host or settings.host
        wanted.append((host, settings.admin_port, "REGARD_ADMIN"))
    listeners = []
    for host, port, prefix in wanted:
        try:
            listeners += open_listeners(host, port)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            is_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
            advice = "PORT to another port" if is_port else "HOST to another address"
            raise stop(
                f"cannot listen on {host}:{port}: {reason}; set {prefix}_{advice}"
            ) from error
    return listeners


def greet(host: str, port: int, catalog: Catalog, log_format: LogFormat = "text") -> None:
    """Prints the address of the server and an example request. A JSON log has the address alone."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if log_format == "json":
        logger.info("Regard listens on %s", address)
        return
    say(f"Regard listens on {address} (models load in the background). Try:\n")
    say(f"  curl {address}{trial(catalog)}\n")


def trial(catalog: Catalog) -> str:
    offers = catalog.offers().items()
    pairs = [(code, other) for code, targets in offers for other in targets if code != other]
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
    app()
