"""Section "embed-http": sends one sentence per POST to each embedding server in turn.

Regard receives requests in the API of text-embeddings-inference. The peer, infinity-emb, receives
them in OpenAI's API. Both servers answer in JSON.
"""

import json

from benchmarks import environments, report
from benchmarks.embedding import find_model
from benchmarks.engines import Contestant
from benchmarks.http import LATENCIES, RATE, take_turn
from benchmarks.load import Shape
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines
from benchmarks.report import OURS, Result
from benchmarks.servers import Server, regard
from benchmarks.throughput import chosen

PEER = "infinity-bfloat16"
ROUTES = {OURS: ("/embed", "inputs"), PEER: ("/embeddings", "input")}
"""The path of each server, and the field of the text."""


def measure(options: Options) -> Result:
    """Measures all servers in turn with each number of clients, round by round."""
    find_model(options)
    result = Result("embed-http", facts={"seconds a point": options.seconds})
    lines = [line for line in read_lines(str(options.source)) if line.strip()]
    servers = result.started(Server, {OURS: ours, **chosen({PEER: infinity}, options)}, options)
    bodies = {
        name: [json.dumps({field: line}, ensure_ascii=False) for line in lines]
        for name, (_, field) in ROUTES.items()
    }
    try:
        for turn in range(1, options.rounds + 1):
            offset = (turn - 1) * len(lines) // options.rounds
            for clients in options.clients:
                shape = Shape(clients, options.seconds, options.warmup, offset=offset)
                for server in servers:
                    path, _ = ROUTES[server.name]
                    take_turn(server, bodies[server.name], shape, turn, result, path)
    finally:
        for server in servers:
            server.stop()
    return result


def ours(options: Options) -> Contestant:
    return regard(options, {"REGARD_MODELS": options.embedding_model})


def infinity(options: Options) -> Contestant:
    """Describes infinity-emb on the CPU in bfloat16, without BetterTransformer and telemetry."""
    python = environments.peer_python("infinity", with_project_packages=True)
    command = [python, "-m", "infinity_emb.cli", "v2", "--port", "{port}", "--host", "127.0.0.1"]
    command += ["--model-id", str(find_model(options).folder), "--dtype", "bfloat16"]
    command += ["--device", "cpu", "--engine", "torch", "--no-bettertransformer"]
    environment = {"DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
    return Contestant(PEER, command, environment=environment, ready_path="/health")


def table(result: Result, _options: Options) -> str:
    columns: report.Columns = {
        **LATENCIES,
        "PSS MiB": "pss_mib",
        "errors, at most": (report.worst, "errors"),
    }
    rows = report.comparison(result, RATE, lambda _: PEER, columns)
    return report.markdown(["clients", "server", "requests/s", f"× {PEER}", *columns], rows)
