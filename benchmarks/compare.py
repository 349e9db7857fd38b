"""Compares this checkout with another one, side by side, in interleaved rounds.

    python -m benchmarks.compare --other ../base --source en.txt

Each checkout needs an environment of its own (`make install`). Both servers stay up, but only one
of them gets requests at a time. The table shows medians over the rounds, and the median ratio of
this checkout to the other. The offline engine is Regard without HTTP (`benchmarks.ours`); it
translates the whole file at once.
"""

import argparse
import json
import os
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks import load, tree
from benchmarks.environments import ROOT
from benchmarks.load import Shape
from benchmarks.peers.protocol import read_lines
from benchmarks.processes import free_ports, stop, until_ready


@dataclass(frozen=True)
class Case:
    """One shape of load."""

    name: str  # first column of the table
    path: str  # route of the requests; empty for the offline engine
    clients: int  # number of connections


CASES = (
    Case("offline", "", 0),
    Case("/translate, 1 client", "/translate", 1),
    Case("/translate, 64 clients", "/translate", 64),
    Case("/embed, 64 clients", "/embed", 64),
)


class Checkout:
    """A checkout with its server and its offline engine, both running."""

    def __init__(self, root: Path, source: Path) -> None:
        python = str(root / ".venv" / "bin" / "python")
        (self.port,) = free_ports(1)
        environment = {**os.environ, "PYTHONPATH": str(root)}
        self.server = subprocess.Popen(
            [python, "-m", "service", "serve", "--port", str(self.port)],
            cwd=root,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.engine = subprocess.Popen(
            [python, "-m", "benchmarks.ours", "--source", str(source), "--workers", "2"],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait(self) -> None:
        """Waits until the server and the engine are ready."""
        assert self.engine.stdout
        self.engine.stdout.readline()
        until_ready(self.server, self.port)

    def translate(self) -> tuple[float, float]:
        """Returns the wall and CPU seconds of the offline engine for the whole file."""
        assert self.engine.stdin
        assert self.engine.stdout
        before = tree.cpu_seconds(self.engine.pid)
        self.engine.stdin.write('{"run": 1}\n')
        self.engine.stdin.flush()
        seconds: float = json.loads(self.engine.stdout.readline())["seconds"]
        return seconds, tree.cpu_seconds(self.engine.pid) - before

    def stop(self) -> None:
        """Stops the server and the engine."""
        assert self.engine.stdin
        self.engine.stdin.close()
        self.engine.wait()
        stop(self.server)


def bodies(case: Case, lines: list[str]) -> list[str]:
    if case.path == "/embed":
        return [json.dumps({"inputs": line}) for line in lines]
    return load.translate_bodies(lines, "en-pt")


def measure(checkout: Checkout, case: Case, lines: list[str], seconds: float) -> dict[str, float]:
    """Returns a checkout's figures for one case in one round."""
    if not case.path:
        wall, cpu = checkout.translate()
        return {"rate": len(lines) / wall, "cpu": 1000 * cpu / len(lines)}
    shape = Shape(case.clients, seconds, seconds / 4)
    found = load.run(checkout.port, bodies(case, lines), shape, checkout.server.pid, path=case.path)
    if found.errors:
        raise RuntimeError(f"{case.name}: {found.errors}")
    cpu = 1000 * found.server_cpu_seconds / found.requests
    return {"rate": found.rate, "cpu": cpu, "p50": found.p50_ms, "p99": found.p99_ms}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--other", type=Path, required=True, help="folder of the other checkout")
    add("--source", type=Path, required=True, help="file with one sentence per line")
    add("--rounds", type=int, default=5, help="number of rounds")
    add("--seconds", type=float, default=10.0, help="length of a measurement under load")
    args = parser.parse_args()
    lines = [line for line in read_lines(str(args.source)) if line.strip()]
    checkouts = [Checkout(root, args.source.resolve()) for root in (ROOT, args.other.resolve())]
    for checkout in checkouts:
        checkout.wait()
        checkout.translate()  # warm-up
    found: dict[tuple[str, str], list[list[float]]] = {}
    for turn in range(args.rounds):
        for case in CASES:
            order = checkouts if turn % 2 == 0 else checkouts[::-1]
            figures = {id(each): measure(each, case, lines, args.seconds) for each in order}
            for name in figures[id(checkouts[0])]:
                pair = [figures[id(each)][name] for each in checkouts]
                found.setdefault((case.name, name), []).append(pair)
    print("| case | figure | this | other | median ratio |")
    print("| --- | --- | ---: | ---: | ---: |")
    for (case_name, name), pairs in found.items():
        ours, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"| {case_name} | {name} | {ours:.2f} | {theirs:.2f} | {ratio:.3f} |")
    for checkout in checkouts:
        checkout.stop()


if __name__ == "__main__":
    main()
