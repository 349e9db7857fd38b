"""Sections over HTTP: "http" and "embed-http".

Each request has one sentence. The servers of a section start once and stay up; only one of them
gets requests at a time. Section "http" notes each server that uses more than MAX_IDLE_SHARE of a
core while it is idle. In "embed-http", Regard gets requests in the API of
text-embeddings-inference, and infinity-emb gets them in OpenAI's API.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import uvloop

from benchmarks import load, report, tree
from benchmarks.bench.client import Address, BenchError
from benchmarks.bench.texts import in_lists, translate
from benchmarks.contestants import (
    BERGAMOT_SERVERS,
    chosen,
    find_embedding_model,
    infinity,
    our_server,
)
from benchmarks.environments import MissingError
from benchmarks.load import Shape, translate_bodies
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines
from benchmarks.processes import Prepare, Server, ready_server, running
from benchmarks.report import OURS, Result, Sample
from service.files.private_server import HOST

MEMORY = "memory"
IDLE_SECONDS = 2.0
MAX_IDLE_SHARE = 0.02
QUALITY_CLIENTS = 32
RATE = "requests_per_second"
LATENCIES: report.Columns = {
    "p50 ms": "p50_ms",
    "p99 ms": "p99_ms",
    "CPU s per 1,000": "cpu_seconds_per_1000",
}
MEMORY_FIGURES = {
    "ready_seconds": "ready s",
    "idle_rss_mib": "idle RSS MiB",
    "idle_pss_mib": "idle PSS",
    "loaded_rss_mib": "loaded RSS",
    "loaded_pss_mib": "loaded PSS",
}


@dataclass(frozen=True)
class Requests:
    bodies: Sequence[str]
    path: str = "/translate"


def measure_servers(
    servers: Sequence[Server],
    requests_for: Callable[[str], Requests],
    options: Options,
    result: Result,
) -> None:
    """Measures all servers in turn with each number of clients; a load that fails gets a note."""
    for turn in range(1, options.rounds + 1):
        for clients, server in product(options.clients, servers):
            requests = requests_for(server.name)
            offset = (turn - 1) * len(requests.bodies) // options.rounds
            shape = Shape(clients, options.seconds, options.warmup, offset)
            try:
                figures = run(server, requests, shape)
            except MissingError as error:
                result.notes.append(f"{server.name}, {clients}, round {turn}: {error}")
            else:
                result.add(server.name, str(clients), turn, figures)


def run(server: Server, requests: Requests, shape: Shape) -> dict[str, float]:
    """Puts a load on a server; returns the figures, with the memory after it."""
    done = load.run(server.port, requests.bodies, shape, server.pid, requests.path)
    memory = server.memory()
    return {**done.figures(), "rss_mib": memory.rss, "pss_mib": memory.pss}


def measure_http(options: Options) -> Result:
    """Scores every server's translations, then measures each server under each load."""
    result = Result("http", facts={"seconds a point": options.seconds})
    lines = read_lines(str(options.source))
    requests = Requests(translate_bodies([line for line in lines if line.strip()], options.pair))
    prepares = {OURS: our_server, **chosen(BERGAMOT_SERVERS, options)}
    with running(ready_server, prepares, options, result) as servers:
        idle = [server.memory() for server in servers]
        _check_idle(servers, result)
        for server in servers:
            _score(server, options, lines, result)
        measure_servers(servers, lambda _: requests, options, result)
        for server, before in zip(servers, idle, strict=True):
            after = server.memory()
            values = (server.ready_seconds, before.rss, before.pss, after.rss, after.pss)
            figures = dict(zip(MEMORY_FIGURES, values, strict=True))
            result.samples.append(Sample(server.name, MEMORY, 1, figures))
    return result


def _check_idle(servers: Sequence[Server], result: Result) -> None:
    before = {server.name: tree.cpu_seconds(server.pid) for server in servers}
    time.sleep(IDLE_SECONDS)  # The servers' CPU time is measured over this interval.
    for server in servers:
        share = (tree.cpu_seconds(server.pid) - before[server.name]) / IDLE_SECONDS
        if share > MAX_IDLE_SHARE:
            result.notes.append(f"{server.name} used {share:.0%} of a core while idle")


def _translations(server: Server, lines: Sequence[str], pair: str) -> list[str]:
    """Translates all lines, which also warms the server up."""
    texts = in_lists([line or " " for line in lines], 1)
    address = Address(HOST, server.port, "")
    return uvloop.run(translate(address, pair, texts, True, QUALITY_CLIENTS))


def _score(server: Server, options: Options, lines: Sequence[str], result: Result) -> None:
    try:
        outputs = _translations(server, lines, options.pair)
    except BenchError as error:
        result.notes.append(f"{server.name} was not scored: {error}")
    else:
        references = read_lines(str(options.reference))
        result.scores[server.name] = report.bleu(outputs, references)


def http_table(result: Result, options: Options) -> str:
    """Returns a table of the figures under load, and a table of quality, start and memory."""
    against = options.against or "bergamot-batched"
    columns: report.Columns = {**LATENCIES, "errors, at most": (report.worst, "errors")}
    rows = report.comparison(result, RATE, lambda _: against, columns, left_out=MEMORY)
    load_table = report.markdown(
        ["clients", "server", "requests/s", f"× {against}", *columns], rows
    )
    headings = ["server", "BLEU", *MEMORY_FIGURES.values()]
    servers = []
    for case, name in report.cases(result):
        if case == MEMORY:
            cells = (report.median(result, name, case, figure) for figure in MEMORY_FIGURES)
            servers.append([name, report.score(result, name, case, ""), *cells])
    return f"{load_table}\n\n{report.markdown(headings, servers)}"


INFINITY = "infinity-bfloat16"
ROUTES = {OURS: ("/embed", "inputs"), INFINITY: ("/embeddings", "input")}
"""The path of each embedding server, and the field of the text."""


def measure_embeddings(options: Options) -> Result:
    find_embedding_model(options)
    result = Result("embed-http", facts={"seconds a point": options.seconds})
    lines = [line for line in read_lines(str(options.source)) if line.strip()]
    requests = {
        name: Requests([json.dumps({field: line}, ensure_ascii=False) for line in lines], path)
        for name, (path, field) in ROUTES.items()
    }
    models = {"REGARD_MODELS": options.embedding_model}
    ours: Prepare = partial(our_server, environment=models)
    prepares = {OURS: ours, **chosen({INFINITY: infinity}, options)}
    with running(ready_server, prepares, options, result) as servers:
        measure_servers(servers, requests.__getitem__, options, result)
    return result


def embeddings_table(result: Result, _options: Options) -> str:
    columns: report.Columns = {
        **LATENCIES,
        "PSS MiB": "pss_mib",
        "errors, at most": (report.worst, "errors"),
    }
    rows = report.comparison(result, RATE, lambda _: INFINITY, columns)
    return report.markdown(["clients", "server", "requests/s", f"× {INFINITY}", *columns], rows)
