"""Markdown tables of costs, loads, periods and waiting times."""

from collections.abc import Sequence

from benchmarks.capacity.arrivals import Trace
from benchmarks.capacity.calibration import Level
from benchmarks.capacity.costs import Costs
from benchmarks.capacity.replicas import Figures, Point, closed_loop
from benchmarks.report import markdown

SIMULATED_SECONDS = 5.0


def costs_table(costs: Costs) -> str:
    tokens = [sum(column) / len(costs.sentences) for column in zip(*costs.sentences, strict=True)]
    head = (
        f"{len(costs.sentences)} sentences, on average {tokens[0]:.1f} source tokens and "
        f"{tokens[1]:.1f} target tokens; {costs.num_cores:.2f} cores, {costs.capacity:.0f} "
        f"sentences/s; {costs.source}\n\n"
    )
    rows = [
        [name.removesuffix("_seconds"), f"{1e6 * value:.1f}"]
        for group in (costs.worker, costs.server, costs)
        for name, value in vars(group).items()
        if name.endswith("_seconds")
    ]
    return head + markdown(["CPU time of", "µs"], rows)


def levels_table(costs: Costs, levels: Sequence[Level]) -> str:
    heads = ["clients", "sentences/s", "simulated", "p50 ms", "simulated", "p99 ms", "simulated"]
    rows = []
    for level in levels:
        found = closed_loop(costs, level.clients, SIMULATED_SECONDS)
        figures = [
            *(level.per_second, found.requests / SIMULATED_SECONDS),
            *(level.p50_ms, found.p50_ms, level.p99_ms, found.p99_ms),
            level.rows / level.steps,
            1000 * level.workers_seconds / level.requests,
            1000 * level.main_seconds / level.requests,
            level.busy_cores,
        ]
        rows.append([str(level.clients), *(f"{figure:.3g}" for figure in figures)])
    return markdown(
        [*heads, "rows", "CPU ms of workers", "CPU ms of the main process", "busy cores"], rows
    )


def periods_table(trace: Trace) -> str:
    rows = [
        [each.kind, f"{each.begin:.0f}", f"{each.end - each.begin:.0f}", f"{each.mean_rate:.0f}"]
        for each in trace.periods
    ]
    return markdown(["period", "start s", "length s", "mean requests/s"], rows)


def curve_table(points: Sequence[Point]) -> str:
    heads = ["machines", "utilisation"]
    for load in ("Poisson", "bursty"):
        heads += [f"p50 ms, {load}", "p99 ms", "refused %"]
    rows = []
    for each in points:
        cells = [str(each.replicas), f"{each.utilisation:.2f}"]
        for found in (each.poisson, each.bursty):
            cells += [f"{found.p50_ms:.3g}", f"{found.p99_ms:.3g}", f"{100 * found.refused:.2g}"]
        rows.append(cells)
    return markdown(heads, rows)


def difference(measured: float, simulated: float) -> str:
    return f"{100 * (simulated / measured - 1):+.0f} %" if measured else "–"


def comparison_table(measured: dict[str, Figures], simulated: dict[str, Figures]) -> str:
    figures = (
        ("p50 ms", "p50_ms", 1.0),
        ("p99 ms", "p99_ms", 1.0),
        ("refused %", "refused", 100.0),
    )
    heads = [name for title, _, _ in figures for name in (title, "simulated", "error")]
    rows = []
    for kind, real in measured.items():
        model = simulated[kind]
        cells = [kind, f"{real.requests}"]
        for _, name, scale in figures:
            one, other = scale * getattr(real, name), scale * getattr(model, name)
            cells += [f"{one:.3g}", f"{other:.3g}", difference(one, other)]
        cells += [f"{100 * real.failed:.2g}", f"{100 * model.failed:.2g}"]
        rows.append(cells)
    return markdown(["period", "requests", *heads, "late or failed %", "simulated"], rows)
