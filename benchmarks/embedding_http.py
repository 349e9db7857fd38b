"""Section "embed-http": sends one sentence per POST to each embedding server in turn.

A section is a part of the benchmark that `--only` selects by its name. Regard receives requests in
the API of text-embeddings-inference. The peer, infinity-emb, receives them in OpenAI's API. Both
servers answer in JSON.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import environments, load, report
from benchmarks.embedding import find_model
from benchmarks.engines import OURS, Contestant
from benchmarks.environments import MissingError
from benchmarks.load import Shape
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines
from benchmarks.report import Result, Sample
from benchmarks.servers import Server, regard
from benchmarks.throughput import chosen

PEER = "infinity-bfloat16"


@dataclass(frozen=True)
class Target:
    """A running server with the requests for it."""

    server: Server
    path: str  # route of the requests
    bodies: list[str]  # JSON bodies of the requests


def measure(options: Options) -> Result:
    """Measures all servers in turn with each number of clients, round by round."""
    find_model(options)
    result = Result("embed-http", facts={"seconds a point": options.seconds})
    lines = [line for line in read_lines(str(options.source)) if line.strip()]
    targets = start_all(options, lines, result)
    try:
        for turn in range(1, options.rounds + 1):
            offset = (turn - 1) * len(lines) // options.rounds
            for clients in options.clients:
                shape = Shape(clients, options.seconds, options.warmup, offset=offset)
                for target in targets:
                    _turn(target, shape, turn, result)
    finally:
        for target in targets:
            target.server.stop()
    return result


def start_all(options: Options, lines: list[str], result: Result) -> list[Target]:
    """Starts Regard and the chosen peer; adds a note if the peer cannot start."""
    targets = [start_ours(options, lines)]
    for name, start in chosen_starts(options).items():
        try:
            targets.append(start(options, lines))
        except MissingError as error:
            result.notes.append(f"{name} was left out: {error}")
    return targets


def chosen_starts(options: Options) -> dict[str, Callable[[Options, list[str]], Target]]:
    names = chosen({PEER: infinity}, options)
    return dict.fromkeys(names, start_infinity)


def start_ours(options: Options, lines: list[str]) -> Target:
    contestant = regard(options, {"REGARD_MODELS": options.embedding_model})
    bodies = [json.dumps({"inputs": line}, ensure_ascii=False) for line in lines]
    return Target(Server(contestant), "/embed", bodies)


def start_infinity(options: Options, lines: list[str]) -> Target:
    bodies = [json.dumps({"input": line}, ensure_ascii=False) for line in lines]
    return Target(Server(infinity(options)), "/embeddings", bodies)


def infinity(options: Options) -> Contestant:
    """Describes infinity-emb on the CPU in bfloat16, without BetterTransformer and telemetry."""
    python = environments.peer_python("infinity", with_project_packages=True)
    command = [python, "-m", "infinity_emb.cli", "v2", "--port", "{port}", "--host", "127.0.0.1"]
    command += ["--model-id", str(find_model(options).folder), "--dtype", "bfloat16"]
    command += ["--device", "cpu", "--engine", "torch", "--no-bettertransformer"]
    environment = {"DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
    return Contestant(PEER, command, environment=environment, ready_path="/health")


def _turn(target: Target, shape: Shape, turn: int, result: Result) -> None:
    server, case = target.server, str(shape.clients)
    try:
        done = load.run(server.port, target.bodies, shape, server.pid, path=target.path)
    except MissingError as error:
        result.notes.append(f"{server.name}, {case}, round {turn}: {error}")
        return
    figures = done.figures() | {"pss_mib": server.memory().pss}
    print(f"  round {turn} {case} {server.name}: {figures}", file=sys.stderr)
    result.samples.append(Sample(server.name, case, turn, figures))


def table(result: Result, _options: Options) -> str:
    """Returns a table with a row for each pair of a number of clients and a server."""
    headings = ["clients", "server", "requests/s", f"× {PEER}", "p50 ms", "p99 ms"]
    headings += ["CPU s per 1,000", "PSS MiB", "errors, at most"]
    rows = []
    for case, name in report.cases(result):
        figures = ("p50_ms", "p99_ms", "cpu_seconds_per_1000", "pss_mib")
        medians = [report.spread(result, name, case, figure) for figure in figures]
        errors = report.spread(result, name, case, "errors")
        quotient = report.ratio(result, name, case, "requests_per_second", PEER)
        rows.append(
            [
                case,
                f"**{name}**" if name == OURS else name,
                report.ranged(report.spread(result, name, case, "requests_per_second")),
                report.number(quotient),
                *(report.number(m.median if m else None) for m in medians),
                f"{errors.high:.0f}" if errors else "–",
            ]
        )
    return report.markdown(headings, rows)
