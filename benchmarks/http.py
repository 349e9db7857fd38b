"""Section "http": sends one sentence per POST, in closed and open loops, to each server in turn.

All servers start once and stay up; only one of them gets requests at a time. The section measures
the CPU use of the idle servers, and notes each server that uses more than MAX_IDLE_SHARE of a core.
Section "start" measures the time until Regard is ready, and its memory before and after a load. Its
first start fills the file cache and is not measured.
"""

import time
from dataclasses import replace

from benchmarks import load, report, tree
from benchmarks.environments import MissingError
from benchmarks.load import Shape
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines
from benchmarks.report import OURS, Result, Sample
from benchmarks.servers import PEERS, Server, regard
from benchmarks.throughput import chosen

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


def measure(options: Options) -> Result:
    """Scores every server's translations, then measures each server under each load."""
    result = Result("http", facts={"seconds a point": options.seconds})
    lines = read_lines(str(options.source))
    bodies = load.translate_bodies([line for line in lines if line.strip()], options.pair)
    servers = result.started(Server, {OURS: regard, **chosen(PEERS, options)}, options)
    try:
        memory = {server.name: idle_figures(server) for server in servers}
        _check_idle(servers, result)
        for server in servers:
            _score(server, options, lines, result)
        for turn in range(1, options.rounds + 1):
            offset = (turn - 1) * len(bodies) // options.rounds
            for shape in shapes(options, offset):
                for server in servers:
                    take_turn(server, bodies, shape, turn, result)
        for server in servers:
            figures = memory[server.name] | loaded_figures(server)
            result.samples.append(Sample(server.name, MEMORY, 1, figures))
    finally:
        for server in servers:
            server.stop()
    return result


def shapes(options: Options, offset: int) -> list[Shape]:
    """Returns the loads of one round: one for each number of clients, then one for each rate."""
    shape = Shape(1, seconds=options.seconds, warmup=options.warmup, offset=offset)
    closed = [replace(shape, clients=count) for count in options.clients]
    return closed + [replace(shape, rate=rate) for rate in options.rates]


def case_of(shape: Shape) -> str:
    return f"{shape.rate:g}/s" if shape.rate else str(shape.clients)


def take_turn(
    server: Server,
    bodies: list[str],
    shape: Shape,
    turn: int,
    result: Result,
    path: str = "/translate",
) -> None:
    """Measures one server under one load; adds a note if the load fails."""
    try:
        done = load.run(server.port, bodies, shape, server.pid, path)
    except MissingError as error:
        result.notes.append(f"{server.name}, {case_of(shape)}, round {turn}: {error}")
        return
    result.add(server.name, case_of(shape), turn, done.figures() | {"pss_mib": server.memory().pss})


def idle_figures(server: Server) -> dict[str, float]:
    memory = server.memory()
    figures = {"idle_rss_mib": memory.rss, "idle_pss_mib": memory.pss}
    return {"ready_seconds": server.ready_seconds, **figures}


def loaded_figures(server: Server) -> dict[str, float]:
    memory = server.memory()
    return {"loaded_rss_mib": memory.rss, "loaded_pss_mib": memory.pss}


def _check_idle(servers: list[Server], result: Result) -> None:
    before = {server.name: tree.cpu_seconds(server.pid) for server in servers}
    time.sleep(IDLE_SECONDS)  # The servers' CPU time is measured over this interval.
    for server in servers:
        share = (tree.cpu_seconds(server.pid) - before[server.name]) / IDLE_SECONDS
        if share > MAX_IDLE_SHARE:
            result.notes.append(f"{server.name} used {share:.0%} of a core while idle")


def _score(server: Server, options: Options, lines: list[str], result: Result) -> None:
    """Scores the translations of all sentences; this also warms the server up."""
    bodies = load.translate_bodies([line or " " for line in lines], options.pair)
    shape = Shape(clients=QUALITY_CLIENTS, requests=len(bodies))
    done = load.run(server.port, bodies, shape, server.pid)
    if done.errors:
        result.notes.append(f"{server.name} returned errors while it was scored: {done.errors}")
    if server.contestant.has_text:
        references = read_lines(str(options.reference))
        result.scores[server.name] = report.bleu(load.translations(done), references)


def table(result: Result, options: Options) -> str:
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
            score = f"{result.scores[name]:.2f}" if name in result.scores else "–"
            cells = (report.median(result, name, case, figure) for figure in START_FIGURES)
            servers.append([name, score, *cells])
    return f"{load_table}\n\n{report.markdown(headings, servers)}"


def measure_start(options: Options) -> Result:
    """Starts the server and puts a load on it, once in each round."""
    result = Result("start", facts={"clients of the load": START_CLIENTS})
    bodies = load.translate_bodies(read_lines(str(options.source)), options.pair)
    shape = Shape(clients=START_CLIENTS, seconds=options.seconds)
    Server(regard(options)).stop()
    for turn in range(1, options.rounds + 1):
        result.add(OURS, "start", turn, loaded(options, bodies, shape))
    return result


def loaded(options: Options, bodies: list[str], shape: Shape) -> dict[str, float]:
    """Starts a server, puts a load on it, and returns all figures."""
    server = Server(regard(options))
    try:
        idle = idle_figures(server)
        done = load.run(server.port, bodies, shape, server.pid)
        return idle | loaded_figures(server) | done.figures()
    finally:
        server.stop()


def start_table(result: Result, _options: Options) -> str:
    cells = [
        report.ranged(report.spread(result, name, case, figure))
        for case, name in report.cases(result)
        for figure in START_FIGURES
    ]
    return report.markdown(list(START_FIGURES.values()), [cells])
