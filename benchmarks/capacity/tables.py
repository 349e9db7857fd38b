"""Markdown tables of costs, loads, periods and waiting times."""

from collections.abc import Mapping, Sequence

from benchmarks.capacity.arrivals import Trace
from benchmarks.capacity.calibration import Level
from benchmarks.capacity.costs import Costs
from benchmarks.capacity.replicas import ClosedLoop, Figures, Point, closed_loop

SIMULATED_SECONDS = 5.0


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---:"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def costs_table(costs: Costs) -> str:
    """Returns the measured costs in microseconds."""
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
    return head + table(["CPU time of", "µs"], rows)


def levels_table(costs: Costs, levels: Sequence[Level]) -> str:
    """Returns a table of the measured figures of each load beside the simulated ones."""
    heads = ["clients", "sentences/s", "simulated", "p50 ms", "simulated", "p99 ms", "simulated"]
    rows = []
    for level in levels:
        found = closed_loop(costs, level.clients, SIMULATED_SECONDS)
        figures = [
            *(level.per_second, found.per_second),
            *(level.p50_ms, found.p50_ms, level.p99_ms, found.p99_ms),
            level.rows / level.steps,
            1000 * level.workers_seconds / level.requests,
            1000 * level.main_seconds / level.requests,
            level.busy_cores,
        ]
        rows.append([str(level.clients), *(f"{figure:.3g}" for figure in figures)])
    return table(
        [*heads, "rows", "CPU ms of workers", "CPU ms of the main process", "busy cores"], rows
    )


def cores_table(loads: Mapping[int, ClosedLoop]) -> str:
    """Returns the simulated rate of machines by their number of cores."""
    rows = [
        [str(count), f"{load.per_second:.0f}", f"{load.per_second / count:.0f}"]
        for count, load in loads.items()
    ]
    return table(["cores", "sentences/s", "sentences/s of a core"], rows)


def periods_table(trace: Trace) -> str:
    """Returns the periods of a trace."""
    rows = [
        [each.kind, f"{each.begin:.0f}", f"{each.end - each.begin:.0f}", f"{each.mean_rate:.0f}"]
        for each in trace.periods
    ]
    return table(["period", "start s", "length s", "mean requests/s"], rows)


def curve_table(points: Sequence[Point]) -> str:
    """Returns the waiting times at several utilisations."""
    heads = ["machines", "utilisation"]
    for load in ("Poisson", "bursty"):
        heads += [f"p50 ms, {load}", "p99 ms", "refused %"]
    rows = []
    for each in points:
        cells = [str(each.replicas), f"{each.utilisation:.2f}"]
        for found in (each.poisson, each.bursty):
            cells += [f"{found.p50_ms:.3g}", f"{found.p99_ms:.3g}", f"{100 * found.refused:.2g}"]
        rows.append(cells)
    return table(heads, rows)


def difference(measured: float, simulated: float) -> str:
    return f"{100 * (simulated / measured - 1):+.0f} %" if measured else "–"


def figures_table(found: dict[str, Figures]) -> str:
    """Returns a Markdown table of the figures."""
    rows = [
        [
            *(kind, f"{each.requests}", f"{each.p50_ms:.3g}", f"{each.p99_ms:.3g}"),
            *(f"{100 * each.refused:.3g}", f"{100 * each.failed:.2g}"),
        ]
        for kind, each in found.items()
    ]
    return table(["period", "requests", "p50 ms", "p99 ms", "refused %", "late or failed %"], rows)


def comparison_table(measured: dict[str, Figures], simulated: dict[str, Figures]) -> str:
    """Returns a Markdown table of the measured and the simulated figures, with their deviations."""
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
    return table(["period", "requests", *heads, "late or failed %", "simulated"], rows)
