"""Compares this checkout with another one, side by side, in interleaved rounds.

    python -m benchmarks.compare --other ../base --source en.txt

Each checkout needs an environment of its own (`make install`). Both servers stay up, but only one
of them gets requests at a time. The table shows medians over the rounds, and the median ratio of
this checkout to the other. The offline engine is Regard without HTTP (`benchmarks.ours`); it
translates the whole file at once.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import load, report, tree
from benchmarks.environments import ROOT
from benchmarks.load import Shape
from benchmarks.options import command_line
from benchmarks.peers.protocol import read_lines
from benchmarks.processes import Contestant, Engine, Server, ending


@dataclass(frozen=True)
class Case:
    name: str  # first column of the table
    path: str  # route of the requests; empty for the offline engine
    clients: int  # number of connections


CASES = (
    Case("offline", "", 0),
    Case("/translate, 1 client", "/translate", 1),
    Case("/translate, 64 clients", "/translate", 64),
    Case("/embed, 64 clients", "/embed", 64),
)


def measure(
    server: Server, engine: Engine, case: Case, lines: Sequence[str], seconds: float
) -> dict[str, float]:
    if not case.path:
        found = engine.figures(len(lines))
        return {"rate": found["sentences_per_second"], "cpu": found["cpu_seconds_per_1000"]}
    bodies = load.translate_bodies(lines, "en-pt")
    if case.path == "/embed":
        bodies = [json.dumps({"inputs": line}) for line in lines]
    shape = Shape(case.clients, seconds, seconds / 4)
    marks: list[float] = []
    mark = partial(_add_own_cpu, server.pid, marks)
    done = load.run(server.port, bodies, shape, server.pid, case.path, mark)
    if done.errors:
        raise RuntimeError(f"{case.name}: {done.errors}")
    return {
        "rate": done.rate,
        "cpu": done.figures()["cpu_seconds_per_1000"],
        "cpu of the main process": 1000 * (marks[1] - marks[0]) / done.requests,
        "p50": done.p50_ms,
        "p99": done.p99_ms,
    }


def _add_own_cpu(pid: int, marks: list[float]) -> None:
    marks.append(tree.own_cpu_seconds(pid))


def main() -> None:
    parser = command_line("compare", __doc__)
    add = parser.add_argument
    add("--other", type=Path, required=True, help="folder of the other checkout")
    add("--source", type=Path, required=True, help="file with one sentence per line")
    add("--rounds", type=int, default=5, help="number of rounds")
    add("--seconds", type=float, default=10.0, help="length of a measurement under load")
    args = parser.parse_args()
    lines = [line for line in read_lines(str(args.source)) if line.strip()]
    words = ["-m", "benchmarks.ours", "--source", str(args.source.resolve()), "--workers", "2"]
    found: dict[tuple[str, str], list[list[float]]] = {}
    with ending() as started:
        checkouts: list[tuple[Server, Engine]] = []
        for name, root in (("this", ROOT), ("other", args.other.resolve())):
            python, path = str(root / ".venv" / "bin" / "python"), {"PYTHONPATH": str(root)}
            serve = [python, "-m", "service", "serve", "--port", "{port}"]
            started.append(server := Server(Contestant(f"{name}-server", serve, path), root=root))
            started.append(
                engine := Engine(Contestant(f"{name}-engine", [python, *words], path), root)
            )
            checkouts.append((server.until_ready(), engine))
            engine.run()  # warm-up
        for turn in range(args.rounds):
            for case in CASES:
                order = (0, 1) if turn % 2 == 0 else (1, 0)
                figures = {i: measure(*checkouts[i], case, lines, args.seconds) for i in order}
                for name in figures[0]:
                    pair = [figures[0][name], figures[1][name]]
                    found.setdefault((case.name, name), []).append(pair)
    rows = []
    for names, pairs in found.items():
        medians = [statistics.median(values) for values in zip(*pairs, strict=True)]
        ratio = statistics.median(a / b for a, b in pairs)
        rows.append([*names, *(f"{value:.2f}" for value in medians), f"{ratio:.3f}"])
    print(report.markdown(["case", "figure", "this", "other", "median ratio"], rows))


if __name__ == "__main__":
    main()
