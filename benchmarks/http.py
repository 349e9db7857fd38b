"""Section "http": sends one sentence per POST, in closed and open loops, to each server in turn.

All servers start once and stay up; only one of them gets requests at a time. The section measures
the CPU use of the idle servers, and notes each server that uses more than MAX_IDLE_SHARE of a core.
"""

import sys
import time
from dataclasses import replace

from benchmarks import load, report, tree
from benchmarks.engines import OURS
from benchmarks.environments import MissingError
from benchmarks.load import Shape
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines
from benchmarks.report import Result, Sample
from benchmarks.servers import PEERS, Server, regard
from benchmarks.throughput import chosen

MEMORY = "memory"
IDLE_SECONDS = 2.0
MAX_IDLE_SHARE = 0.02
QUALITY_CLIENTS = 32
OPEN_LOOP_CLIENTS = 1024


def measure(options: Options) -> Result:
    """Scores every server's translations, then measures each server under each load."""
    result = Result("http", facts={"seconds a point": options.seconds})
    lines = read_lines(str(options.source))
    bodies = load.translate_bodies([line for line in lines if line.strip()], options.pair)
    servers = start_all(options, result)
    try:
        memory = {server.name: _memory(server) for server in servers}
        _check_idle(servers, result)
        for server in servers:
            _score(server, options, lines, result)
        for turn in range(1, options.rounds + 1):
            offset = (turn - 1) * len(bodies) // options.rounds
            for shape in shapes(options, offset):
                for server in servers:
                    _turn(server, bodies, shape, turn, result)
        for server in servers:
            after = server.memory()
            figures = memory[server.name] | {
                "loaded_rss_mib": after.rss,
                "loaded_pss_mib": after.pss,
            }
            result.samples.append(Sample(server.name, MEMORY, 1, figures))
    finally:
        for server in servers:
            server.stop()
    return result


def start_all(options: Options, result: Result) -> list[Server]:
    """Starts Regard and the chosen peers; adds a note for each peer that cannot start."""
    servers = [Server(regard(options))]
    for name, prepare in chosen(PEERS, options).items():
        try:
            servers.append(Server(prepare(options)))
        except MissingError as error:
            result.notes.append(f"{name} was left out: {error}")
    return servers


def shapes(options: Options, offset: int) -> list[Shape]:
    shape = Shape(1, seconds=options.seconds, warmup=options.warmup, offset=offset)
    closed = [replace(shape, clients=count) for count in options.clients]
    return closed + [replace(shape, clients=OPEN_LOOP_CLIENTS, rate=r) for r in options.rates]


def case_of(shape: Shape) -> str:
    return f"{shape.rate:g}/s" if shape.rate else str(shape.clients)


def _memory(server: Server) -> dict[str, float]:
    memory = server.memory()
    return {
        "ready_seconds": server.ready_seconds,
        "idle_rss_mib": memory.rss,
        "idle_pss_mib": memory.pss,
    }


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


def _turn(server: Server, bodies: list[str], shape: Shape, turn: int, result: Result) -> None:
    try:
        figures = load.run(server.port, bodies, shape, server.pid).figures()
    except MissingError as error:
        result.notes.append(f"{server.name}, {case_of(shape)}, round {turn}: {error}")
        return
    print(f"  round {turn} {case_of(shape)} {server.name}: {figures}", file=sys.stderr)
    result.samples.append(Sample(server.name, case_of(shape), turn, figures))


def table(result: Result, options: Options) -> str:
    """Returns a table of the figures under load, and a table of quality, start and memory."""
    against = options.against or "bergamot-batched"
    headings = ["clients", "server", "requests/s", f"× {against}", "p50 ms", "p99 ms"]
    rows = []
    for case, name in report.cases(result):
        if case == MEMORY:
            continue
        figures = ("p50_ms", "p99_ms", "cpu_seconds_per_1000", "errors")
        medians = [report.spread(result, name, case, figure) for figure in figures]
        quotient = report.ratio(result, name, case, "requests_per_second", against)
        rows.append(
            [
                case,
                f"**{name}**" if name == OURS else name,
                report.ranged(report.spread(result, name, case, "requests_per_second")),
                report.number(quotient),
                *(report.number(m.median) if m else "–" for m in medians[:3]),
                f"{medians[3].high:.0f}" if medians[3] else "–",
            ]
        )
    load_table = report.markdown([*headings, "CPU s per 1,000", "errors, at most"], rows)
    return f"{load_table}\n\n{_server_table(result)}"


def _server_table(result: Result) -> str:
    figures = (
        "ready_seconds",
        "idle_rss_mib",
        "idle_pss_mib",
        "loaded_rss_mib",
        "loaded_pss_mib",
    )
    headings = ["server", "BLEU", "ready s", "idle RSS MiB", "PSS", "loaded RSS", "PSS"]
    rows = []
    for case, name in report.cases(result):
        if case == MEMORY:
            spreads = [report.spread(result, name, case, figure) for figure in figures]
            score = f"{result.scores[name]:.2f}" if name in result.scores else "–"
            rows.append([name, score, *(report.number(s.median) if s else "–" for s in spreads)])
    return report.markdown(headings, rows)
