"""A replica: a server that can be killed, and restarted on the same port."""

import os
import subprocess
import sys
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.processes import get, stop, until_ready
from benchmarks.sleeping.pace import Pace

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

    def until_ready(self) -> None:
        until_ready(self.process, self.port)

    def computed(self) -> int:
        """Returns the number of translations that the server has answered since its start."""
        text = get(self.port, "/metrics")[1].decode()
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
        return stop(self.process)
