"""Section "start": measures the time until Regard is ready, and its memory before and after a load.

The first start fills the file cache and is not measured.
"""

from benchmarks import load, report
from benchmarks.load import Shape
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines
from benchmarks.report import Result, Sample
from benchmarks.servers import Server, regard

CLIENTS = 64
FIGURES = {
    "ready_seconds": "ready after s",
    "idle_rss_mib": "idle, RSS MiB",
    "idle_pss_mib": "idle, PSS MiB",
    "loaded_rss_mib": "after load, RSS MiB",
    "loaded_pss_mib": "after load, PSS MiB",
}


def measure(options: Options) -> Result:
    """Starts the server and puts a load on it, once in each round."""
    result = Result("start", facts={"clients of the load": CLIENTS})
    bodies = load.translate_bodies(read_lines(str(options.source)), options.pair)
    shape = Shape(clients=CLIENTS, seconds=options.seconds)
    Server(regard(options)).stop()
    for turn in range(1, options.rounds + 1):
        server = Server(regard(options))
        try:
            figures = loaded(server, bodies, shape)
        finally:
            server.stop()
        result.samples.append(Sample(server.name, "start", turn, figures))
    return result


def loaded(server: Server, bodies: list[str], shape: Shape) -> dict[str, float]:
    """Sends a load to a newly started server, and returns all figures of the round.

    They are the time of the start, the memory before and after the load, and the figures of the
    load itself.
    """
    idle = server.memory()
    done = load.run(server.port, bodies, shape, server.pid)
    after = server.memory()
    return {
        "ready_seconds": server.ready_seconds,
        "idle_rss_mib": idle.rss,
        "idle_pss_mib": idle.pss,
        "loaded_rss_mib": after.rss,
        "loaded_pss_mib": after.pss,
        **done.figures(),
    }


def table(result: Result, _options: Options) -> str:
    """Returns a table with one row."""
    cells = [
        report.ranged(report.spread(result, name, case, figure))
        for case, name in report.cases(result)
        for figure in FIGURES
    ]
    return report.markdown(list(FIGURES.values()), [cells])
