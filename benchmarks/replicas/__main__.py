"""Measures replicas behind Envoy: python -m benchmarks.replicas even kill rolling scale.

The replicas sleep instead of computing, unless `--real` is given. Each real replica is pinned to
one core.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.bench.texts import built_in_sentences
from benchmarks.environments import WORK, MissingError
from benchmarks.load import Shape, translate_bodies
from benchmarks.options import command_line
from benchmarks.processes import READY_SECONDS, Contestant, Server, ending, free_ports
from benchmarks.replicas import measure
from benchmarks.replicas.envoy import find_envoy, running
from benchmarks.replicas.measure import WARMUP_SECONDS, Figures

SCALE = (1, 2, 4, 8)
RESULTS = WORK / "results" / "replicas.json"
SETTINGS = {
    "REGARD_DRAIN_DELAY_SECONDS": "3",
    "REGARD_SHARE_SENTENCES": "false",
    "REGARD_LOG_LEVEL": "error",
}


def options() -> argparse.Namespace:
    parser = command_line("replicas", __doc__)
    add = parser.add_argument
    add("parts", nargs="+", choices=("even", "kill", "rolling", "scale"), help="parts to run")
    add("--replicas", type=int, default=2, help="number of replicas, except for scale")
    add("--real", action="store_true", help="serve the built-in models, on one core a replica")
    add("--clients", type=int, default=64, help="number of clients, except for scale")
    add("--clients-per-replica", type=int, default=32, help="number of clients for scale")
    add("--seconds", type=float, default=10.0, help="length of a measured window")
    add("--restart-seconds", type=float, default=25.0, help="upper limit for one restart")
    add("--rows", type=int, default=16, help="REGARD_MAX_ROWS of a sleeping replica")
    return parser.parse_args()


@contextmanager
def started(args: argparse.Namespace, ports: Sequence[int]) -> Iterator[list[Server]]:
    """Runs a replica on each port until the context ends."""
    cores = sorted(os.sched_getaffinity(0))
    with ending() as replicas:
        for number, port in enumerate(ports):
            if args.real:
                command = ["taskset", "--cpu-list", str(cores[number % len(cores)]), sys.executable]
                command += ["-m", "service", "serve", "--port", "{port}"]
                settings = SETTINGS
            else:
                command = [sys.executable, "-m", "benchmarks.sleeping.server", "--port", "{port}"]
                settings = {**SETTINGS, "REGARD_MAX_ROWS": str(args.rows)}
            replicas.append(Server(Contestant(f"replica-{number}", command, settings), port))
        for each in replicas:
            each.until_ready()
        yield replicas


def faults(
    args: argparse.Namespace, program: str, ports: Sequence[int], bodies: Sequence[str]
) -> Iterator[tuple[str, Figures]]:
    """Runs all parts but scale; yields the name and the figures of each."""
    client_port, admin_port, *used = ports

    def shape(seconds: float) -> Shape:
        return Shape(args.clients, seconds, WARMUP_SECONDS)

    with (
        started(args, used) as replicas,
        running(program, used, (client_port, admin_port)) as envoy,
    ):
        envoy.until_healthy(used, READY_SECONDS)
        if "even" in args.parts:
            yield "even", measure.even(envoy, bodies, shape(args.seconds))
        if "kill" in args.parts:
            load = shape(args.restart_seconds + 15)
            yield "kill", measure.killed(envoy, replicas, bodies, load)
        if "rolling" in args.parts:
            load = shape((args.restart_seconds + 5) * len(used))
            yield "rolling", measure.rolled(envoy, replicas, bodies, load)


def scale(
    args: argparse.Namespace, program: str, ports: Sequence[int], bodies: Sequence[str]
) -> Iterator[tuple[str, Figures]]:
    """Measures the rate with growing numbers of replicas; yields the figures of each."""
    client_port, admin_port, *replica_ports = ports
    alone = 0.0
    with started(args, replica_ports):
        for number in SCALE:
            shape = Shape(args.clients_per_replica * number, args.seconds, WARMUP_SECONDS)
            used = replica_ports[:number]
            with running(program, used, (client_port, admin_port)) as envoy:
                envoy.until_healthy(used, READY_SECONDS)
                figures = measure.plain(envoy, bodies, shape)
            alone = alone or figures["requests/s"]
            figures["efficiency %"] = 100 * figures["requests/s"] / (number * alone)
            yield f"scale {number}", figures


def measure_all(args: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    bodies, program = translate_bodies(built_in_sentences("en"), "en-pt"), find_envoy()
    if {*args.parts} - {"scale"}:
        yield from faults(args, program, free_ports(2 + args.replicas), bodies)
    if "scale" in args.parts:
        yield from scale(args, program, free_ports(2 + max(SCALE)), bodies)


def main() -> None:
    args, results = options(), dict[str, Figures]()
    try:
        for name, figures in measure_all(args):
            results[name] = figures
            rounded = {key: round(value, 3) for key, value in figures.items()}
            print(f"{name}: {json.dumps(rounded)}", flush=True)
    except MissingError as error:
        sys.exit(f"replicas: {error}")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"options": vars(args), "results": results}) + "\n")


if __name__ == "__main__":
    main()
