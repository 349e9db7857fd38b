"""A replica: a server that can be killed, and restarted on the same port."""

import http.client
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.environments import MissingError
from benchmarks.sleeping.pace import Pace

HOST = "127.0.0.1"
READY_SECONDS = 120.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.05
REQUESTS = "regard_requests_total"


@dataclass(frozen=True)
class Plan:
    """Describes how replicas are started."""

    pace: Pace | None  # times of a sleeping model; None for the built-in models
    settings: dict[str, str] = field(default_factory=dict)  # environment variables of each replica

    def command(self, port: int) -> list[str]:
        """Returns the command that starts a replica."""
        if self.pace is None:
            return [sys.executable, "-m", "service", "serve", "--port", str(port)]
        command = [sys.executable, "-m", "benchmarks.sleeping.server", "--port", str(port)]
        return [*command, *self.pace.arguments]


class Replica:
    """A replica that is being started; `until_ready` waits for it."""

    def __init__(self, plan: Plan, port: int, core: int | None = None) -> None:
        self.plan = plan
        self.port = port
        self.core = core
        self.start()

    def start(self) -> None:
        """Starts the server."""
        environment = {
            **os.environ,
            "REGARD_DRAIN_DELAY_SECONDS": "3",
            "REGARD_SHARE_SENTENCES": "false",
            "REGARD_LOG_LEVEL": "error",
            **self.plan.settings,
        }
        command = self.plan.command(self.port)
        if self.core is not None:
            command = ["taskset", "--cpu-list", str(self.core), *command]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)

    def get(self, path: str) -> tuple[int, bytes]:
        """Returns status and body of a GET."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        with closing(connection):
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read()

    def until_ready(self) -> None:
        """Waits until the server is ready."""
        deadline = time.monotonic() + READY_SECONDS
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise MissingError(f"the replica on port {self.port} was not ready in time")
            time.sleep(POLL_SECONDS)

    def _is_ready(self) -> bool:
        try:
            return self.get("/health/ready")[0] == 200
        except (OSError, http.client.HTTPException):  # it does not listen yet
            return False

    def computed(self) -> int:
        """Returns the number of translations that the server has answered since its start."""
        text = self.get("/metrics")[1].decode()
        lines = [line for line in text.splitlines(True) if REQUESTS in line]
        families = text_string_to_metric_families("".join(lines))
        wanted = {"task": "translate", "outcome": "ok"}
        return sum(
            int(sample.value)
            for family in families
            for sample in family.samples
            if sample.name == REQUESTS and wanted.items() <= sample.labels.items()
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Sends SIGTERM, and returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL
