"""Runs Regard on a Ray cluster of two nodes on this machine, for `ray_cluster`.

    python -m benchmarks.ray_nodes PORT ARGUMENTS sleeping|real

ARGUMENTS are those of the application, as JSON. Each line of the standard input is a JSON object
with a command. A JSON object on the standard output follows when the application is ready, and one
for each command. Ray reads its environment variables at its import, so `ray_cluster` sets them for
this process.
"""

import contextlib
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray import serve
from ray.cluster_utils import Cluster
from ray.exceptions import RayError

from benchmarks import tree
from benchmarks.sleeping.pace import Pace
from benchmarks.sleeping.server import DEFAULTS, start_worker
from service.ray_serve.application import Arguments, build_with
from service.ray_serve.replica import Replica

TRIES = 12
"""Largest number of calls to get the figures of all replicas."""

STORE_BYTES = 80_000_000
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
DEVICE_WORKER = "workers.worker"  # part of the command line of a device worker
SLEEPING_WORKER = "sleeping.worker"


class MeasuredReplica(Replica):
    """A replica that reports its figures to the benchmark."""

    async def figures(self) -> dict[str, float]:
        """Returns the id of the process, the number of translated requests, and the load."""
        assert self.core is not None
        requests = self.core.metrics.requests.collect()
        return {
            "pid": os.getpid(),
            "translated": sum(
                sample.value
                for metric in requests
                for sample in metric.samples
                if sample.name.endswith("_total") and sample.labels["outcome"] == "ok"
            ),
            **await self.record_autoscaling_stats(),
        }


class SleepingReplica(MeasuredReplica):
    """A replica whose device workers sleep instead of computing."""

    start_worker = staticmethod(start_worker(Pace()))


class Nodes:
    """The cluster with the application.

    The head node has the controller and the only proxy. `kill` ends the other node.
    """

    def __init__(self, port: int, given: dict[str, Any], is_sleeping: bool) -> None:
        if is_sleeping:
            sleeping = {name.removeprefix("REGARD_").lower(): v for name, v in DEFAULTS.items()}
            given["settings"] = sleeping | given.get("settings", {})
        self.cluster = Cluster(
            initialize_head=True, head_node_args={**NODE, "include_dashboard": False}
        )
        self.other = self.cluster.add_node(**NODE)
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
        kind = SleepingReplica if is_sleeping else MeasuredReplica
        serve.run(build_with(kind, Arguments(**given)), name="regard")

    def kill(self) -> dict[str, Any]:
        """Kills the raylet of the other node and its Ray workers, but no device worker."""
        raylet = self.other.all_processes["raylet"][0].process.pid
        victims = [
            pid
            for pid in tree.members(raylet)
            if not any(name in tree.command(pid) for name in (DEVICE_WORKER, SLEEPING_WORKER))
        ]
        began = time.monotonic()
        for pid in [raylet, *victims]:
            os.kill(pid, signal.SIGKILL)
        return {"at": began, "processes": len(victims)}

    def add(self) -> dict[str, Any]:
        """Adds a node in place of the lost one."""
        began = time.monotonic()
        self.cluster.remove_node(self.other, allow_graceful=False)
        self.other = self.cluster.add_node(**NODE)
        return {"at": began, "seconds": time.monotonic() - began}

    def status(self) -> dict[str, Any]:
        """Returns the number of replicas in each state, the device workers, and all figures."""
        application = serve.status().applications["regard"]
        states = application.deployments["regard"].replica_states
        return {
            "at": time.monotonic(),
            "replicas": {str(getattr(k, "value", k)): count for k, count in states.items()},
            "device workers": len(device_workers()),
            "figures": self.figures(states),
        }

    def figures(self, states: dict[Any, int]) -> list[dict[str, float]]:
        """Returns the figures of all running replicas. Each call reaches one of them at random."""
        handle = serve.get_app_handle("regard").figures
        running, found = sum(states.values()), dict[float, dict[str, float]]()
        for _ in range(TRIES):
            with contextlib.suppress(RayError, TimeoutError):
                each = handle.remote().result(timeout_s=1)
                found[each["pid"]] = each
            if len(found) >= running:
                break
        return [*found.values()]

    def stop(self) -> None:
        serve.shutdown()
        ray.shutdown()
        self.cluster.shutdown()


def device_workers() -> list[int]:
    names = (DEVICE_WORKER, SLEEPING_WORKER)
    own = os.environ["RAY_CLUSTER_RUN"]
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and any(
            name in tree.command(int(folder.name)) for name in names
        ):
            try:
                variables = (folder / "environ").read_text("utf-8", errors="replace")
            except OSError:
                continue
            if f"RAY_CLUSTER_RUN={own}\0" in variables:
                found.append(int(folder.name))
    return found


def main() -> None:
    port, arguments, kind = sys.argv[1:]
    os.environ["RAY_CLUSTER_RUN"] = str(os.getpid())
    nodes = Nodes(int(port), json.loads(arguments), kind == "sleeping")
    print(json.dumps({"ready": time.monotonic()}), flush=True)
    try:
        for line in sys.stdin:
            act = {"kill": nodes.kill, "add": nodes.add, "status": nodes.status}
            print(json.dumps(act[json.loads(line)["act"]]()), flush=True)
    finally:
        nodes.stop()


if __name__ == "__main__":
    main()
