"""Sections over HTTP: "http", "start", "shapes-http" and "embed-http".

Each request has one sentence. The servers of a section start once and stay up; only one of them
gets requests at a time. Section "http" notes each server that uses more than MAX_IDLE_SHARE of a
core while it is idle. Section "start" measures the time until Regard is ready, and its memory
before and after a load. Its first start fills the file cache and is not measured. Section
"shapes-http" serves random weights in the shape of OPUS-MT, in int8. In "embed-http", Regard gets
requests in the API of text-embeddings-inference, and infinity-emb gets them in OpenAI's API.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import uvloop

from benchmarks import load, report, tree
from benchmarks.bench.client import Address, BenchError
from benchmarks.bench.texts import in_lists, translate
from benchmarks.contestants import (
    BERGAMOT_SERVERS,
    MODES,
    chosen,
    ctranslate2_server,
    find_embedding_model,
    infinity,
    our_server,
)
from benchmarks.environments import WORK, MissingError
from benchmarks.load import Shape, translate_bodies
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines, sentences
from benchmarks.processes import HOST, Prepare, Server, ending, ready_server, running
from benchmarks.random_weights import CASES, PAIR, write_folder
from benchmarks.report import OURS, Result, Sample

MEMORY = "memory"
IDLE_SECONDS = 2.0
MAX_IDLE_SHARE = 0.02
QUALITY_CLIENTS = 32
START_CLIENTS = 64
RATE = "requests_per_second"
LATENCIES: report.Columns = {
    "p50 ms": "p50_ms",
    "p99 ms": "p99_ms",
    "CPU s per 1,000": "cpu_seconds_per_1000",
}
START_FIGURES = {
    "ready_seconds": "ready after s",
    "idle_rss_mib": "idle, RSS MiB",
    "idle_pss_mib": "idle, PSS MiB",
    "loaded_rss_mib": "after load, RSS MiB",
    "loaded_pss_mib": "after load, PSS MiB",
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
    case: str = "{}",
) -> None:
    """Measures all servers in turn with each number of clients; a load that fails gets a note.

    `case` is the name of a case, with a place for the number of clients.
    """
    for turn in range(1, options.rounds + 1):
        for clients, server in product(options.clients, servers):
            requests = requests_for(server.name)
            offset = (turn - 1) * len(requests.bodies) // options.rounds
            shape = Shape(clients, options.seconds, options.warmup, offset)
            try:
                figures = run(server, requests, shape)
            except MissingError as error:
                name = f"{server.name}, {case.format(clients)}, round {turn}"
                result.notes.append(f"{name}: {error}")
            else:
                result.add(server.name, case.format(clients), turn, figures)


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
        memory = {server.name: idle_figures(server) for server in servers}
        _check_idle(servers, result)
        for server in servers:
            _score(server, options, lines, result)
        measure_servers(servers, lambda _: requests, options, result)
        for server in servers:
            figures = memory[server.name] | loaded_figures(server)
            result.samples.append(Sample(server.name, MEMORY, 1, figures))
    return result


def idle_figures(server: Server) -> dict[str, float]:
    memory = server.memory()
    figures = {"idle_rss_mib": memory.rss, "idle_pss_mib": memory.pss}
    return {"ready_seconds": server.ready_seconds, **figures}


def loaded_figures(server: Server) -> dict[str, float]:
    memory = server.memory()
    return {"loaded_rss_mib": memory.rss, "loaded_pss_mib": memory.pss}


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
    headings = ["server", "BLEU", "ready s", "idle RSS MiB", "PSS", "loaded RSS", "PSS"]
    servers = []
    for case, name in report.cases(result):
        if case == MEMORY:
            cells = (report.median(result, name, case, figure) for figure in START_FIGURES)
            servers.append([name, report.score(result, name, case, ""), *cells])
    return f"{load_table}\n\n{report.markdown(headings, servers)}"


def measure_start(options: Options) -> Result:
    """Starts the server and puts a load on it, once in each round."""
    result = Result("start", facts={"clients of the load": START_CLIENTS})
    bodies = translate_bodies(read_lines(str(options.source)), options.pair)
    shape = Shape(clients=START_CLIENTS, seconds=options.seconds)
    ready_server(our_server(options)).stop()
    for turn in range(1, options.rounds + 1):
        result.add(OURS, "start", turn, start_and_load(options, bodies, shape))
    return result


def start_and_load(options: Options, bodies: Sequence[str], shape: Shape) -> dict[str, float]:
    with ending() as servers:
        servers.append(server := ready_server(our_server(options)))
        idle = idle_figures(server)
        return idle | run(server, Requests(bodies), shape) | loaded_figures(server)


def start_table(result: Result, _options: Options) -> str:
    cells = [
        report.ranged_cell(result, name, case, figure)
        for case, name in report.cases(result)
        for figure in START_FIGURES
    ]
    return report.markdown(list(START_FIGURES.values()), [cells])


SHAPE = CASES["opus-mt"]
SHAPE_SENTENCES = 2048
GUARDS_OFF = {"REGARD_GUARD_BEAM_SIZE": "0"}
"""Random weights repeat tokens. With guards, Regard would decode such sentences a second time."""


def shape_contestants(options: Options) -> dict[str, Prepare]:
    models = write_folder(WORK / "shapes-http", SHAPE).parent
    ours = our_server(replace(options, models=str(models), dtype="int8"), GUARDS_OFF)
    peers = {f"ctranslate2-{mode}": partial(ctranslate2_server, SHAPE, mode) for mode in MODES}
    return {OURS: lambda _: ours, **peers}


def measure_shapes(options: Options) -> Result:
    """Measures servers with random weights, after a check of the lengths of translations."""
    options = replace(options, clients=(1, 64))
    facts = {"seconds a point": options.seconds, "tokens in and out": SHAPE.tokens}
    result = Result("shapes-http", facts=facts)
    texts = sentences(SHAPE_SENTENCES, SHAPE.tokens, SHAPE.vocab_size)
    requests = Requests(translate_bodies(texts, PAIR))
    with running(ready_server, shape_contestants(options), options, result) as servers:
        for server in servers:
            lengths = {len(text.split()) for text in _translations(server, texts[:64], PAIR)}
            if lengths != {SHAPE.tokens}:
                raise MissingError(f"{server.name} returned {sorted(lengths)} words")
        measure_servers(servers, lambda _: requests, options, result, f"{SHAPE.name}, {{}}")
    return result


def shapes_table(result: Result, _options: Options) -> str:
    against = "ctranslate2-naive"
    rows = report.comparison(result, RATE, lambda _: against, LATENCIES)
    headings = ["case, clients", "server", "requests/s", f"× {against}", *LATENCIES]
    return report.markdown(headings, rows)


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
