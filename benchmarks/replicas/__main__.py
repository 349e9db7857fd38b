"""Measures replicas behind Envoy: python -m benchmarks.replicas even kill rolling scale.

The replicas sleep instead of computing, unless `--real` is given. Each real replica is pinned to
one core.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from benchmarks import load
from benchmarks.bench.texts import built_in_sentences
from benchmarks.environments import WORK, MissingError
from benchmarks.load import Shape
from benchmarks.processes import READY_SECONDS, free_ports
from benchmarks.replicas import measure
from benchmarks.replicas.envoy import CONFIG, Envoy, find_envoy, running
from benchmarks.replicas.measure import WARMUP_SECONDS, Figures, Plan, Replica
from benchmarks.sleeping.pace import Pace

PARTS = ("even", "kill", "rolling", "scale")
SCALE = (1, 2, 4, 8)
RESULTS = WORK / "results" / "replicas.json"


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replicas",
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add, pace = parser.add_argument, Pace()
    add("parts", nargs="*", default=[*PARTS], help=f"parts to run, of {', '.join(PARTS)}")
    add("--replicas", type=int, default=2, help="number of replicas, except for scale")
    add("--real", action="store_true", help="serve the built-in models, on one core a replica")
    add("--clients", type=int, default=64, help="number of clients, except for scale")
    add("--clients-per-replica", type=int, default=32, help="number of clients for scale")
    add("--seconds", type=float, default=10.0, help="length of a measured window")
    add("--restart-seconds", type=float, default=25.0, help="upper limit for one restart")
    add("--rows", type=int, default=16, help="REGARD_MAX_ROWS of a sleeping replica")
    add("--step-ms", type=float, default=pace.step_ms, help="time of a decode step")
    add("--row-ms", type=float, default=pace.row_ms, help="time that each row adds to a step")
    add("--encode-ms", type=float, default=pace.encode_ms, help="encoder's time per source token")
    add("--slowdown", type=float, default=1.0, help="slows the first replica by this factor")
    add("--config", type=Path, default=CONFIG, help="configuration of Envoy")
    add("--concurrency", type=int, default=1, help="number of Envoy's worker threads")
    add("--first-port", type=int, default=0, help="first of the ports to use; 0 for free ports")
    args = parser.parse_args(arguments)
    for part in args.parts:
        if part not in PARTS:
            parser.error(f"there is no part {part!r}; the parts are {', '.join(PARTS)}")
    return args


@contextmanager
def started(args: argparse.Namespace, ports: Sequence[int]) -> Iterator[list[Replica]]:
    """Runs a replica on each port until the context ends."""
    cores = sorted(os.sched_getaffinity(0)) if args.real else []
    replicas: list[Replica] = []
    try:
        for number, port in enumerate(ports):
            core = cores[number % len(cores)] if cores else None
            replicas.append(Replica(plan_of(args, number), port, core))
        for each in replicas:
            each.until_ready()
        yield replicas
    finally:
        for each in replicas:
            each.process.terminate()
        for each in replicas:
            each.stop()


def plan_of(args: argparse.Namespace, number: int) -> Plan:
    """Returns the plan of a replica. Replicas are numbered from 0."""
    if args.real:
        return Plan(None)
    times = 1.0 if number else args.slowdown
    pace = Pace(times * args.step_ms, times * args.row_ms, times * args.encode_ms)
    return Plan(pace, {"REGARD_MAX_ROWS": str(args.rows)})


@dataclass(frozen=True)
class Run:
    """One run of the program."""

    args: argparse.Namespace  # the options
    program: str  # path of Envoy
    bodies: list[str]  # bodies of the requests
    ports: tuple[int, int]  # ports of Envoy, for clients and for its own interface
    replica_ports: list[int]  # ports of the replicas

    def behind(self, number: int) -> AbstractContextManager[Envoy]:
        used, args = self.replica_ports[:number], self.args
        return running(self.program, used, self.ports, args.config, args.concurrency)

    def shape(self, clients: int, seconds: float) -> Shape:
        return Shape(clients, seconds=seconds, warmup=WARMUP_SECONDS)

    def faults(self, parts: Sequence[str]) -> Iterator[tuple[str, Figures]]:
        """Runs all parts but scale; yields the name and the figures of each."""
        args, used = self.args, self.replica_ports[: self.args.replicas]
        clients = args.clients
        with started(args, used) as replicas, self.behind(len(used)) as envoy:
            envoy.until_healthy(used, READY_SECONDS)
            if "even" in parts:
                shape = self.shape(clients, args.seconds)
                yield "even", measure.even(envoy, self.bodies, shape)
            if "kill" in parts:
                shape = self.shape(clients, args.restart_seconds + 15)
                yield "kill", measure.killed(envoy, replicas, self.bodies, shape)
            if "rolling" in parts:
                shape = self.shape(clients, (args.restart_seconds + 5) * len(used))
                yield "rolling", measure.rolled(envoy, replicas, self.bodies, shape)

    def scale(self) -> Iterator[tuple[str, Figures]]:
        """Measures the rate with growing numbers of replicas; yields the figures of each."""
        alone = 0.0
        with started(self.args, self.replica_ports):
            for number in SCALE:
                shape = self.shape(self.args.clients_per_replica * number, self.args.seconds)
                with self.behind(number) as envoy:
                    envoy.until_healthy(self.replica_ports[:number], READY_SECONDS)
                    figures = measure.plain(envoy, self.bodies, shape)
                alone = alone or figures["requests/s"]
                figures["efficiency %"] = 100 * figures["requests/s"] / (number * alone)
                yield f"scale {number}", figures


def measure_all(args: argparse.Namespace) -> dict[str, Figures]:
    """Runs the parts, prints the figures of each, and returns them."""
    bodies = load.translate_bodies(built_in_sentences("en"), "en-pt")
    count = 2 + max(args.replicas, *SCALE)
    first = args.first_port
    client_port, admin_port, *ports = range(first, first + count) if first else free_ports(count)
    run = Run(args, find_envoy(), bodies, (client_port, admin_port), ports)
    found = chain(
        run.faults(args.parts) if {*args.parts} - {"scale"} else (),
        run.scale() if "scale" in args.parts else (),
    )
    results: dict[str, Figures] = {}
    for name, figures in found:
        results[name] = figures
        rounded = {key: round(value, 3) for key, value in figures.items()}
        print(f"{name}: {json.dumps(rounded)}", flush=True)
    return results


def main() -> None:
    args = options()
    try:
        results = measure_all(args)
    except MissingError as error:
        sys.exit(f"replicas: {error}")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"options": vars(args), "results": results}, default=str) + "\n")


if __name__ == "__main__":
    main()
