"""The figures of a trace for each kind of period: measured on a server, and simulated."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bench.load import percentile
from benchmarks.capacity.arrivals import KINDS, Trace
from benchmarks.capacity.simulation import Outcome

ALL = "all"


@dataclass(frozen=True)
class Figures:
    """Figures of some requests."""

    requests: int
    p50_ms: float  # median time of the answered requests in milliseconds
    p99_ms: float  # 99th percentile of this time
    refused: float  # share of refused requests
    failed: float  # share of requests that were late or failed

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> "Figures":
        """Computes the figures of some requests."""
        ordered = sorted(1000 * each.seconds for each in outcomes if each.name == "ok")
        counts = Counter(each.name for each in outcomes)
        total = max(1, len(outcomes))
        return cls(
            len(outcomes),
            percentile(ordered, 50) or 0.0,
            percentile(ordered, 99) or 0.0,
            counts["refused"] / total,
            (len(outcomes) - counts["ok"] - counts["refused"]) / total,
        )


def by_kind(outcomes: Sequence[Outcome], trace: Trace) -> dict[str, Figures]:
    """Returns the figures of each kind of period, and of all requests."""
    groups: dict[str, list[Outcome]] = {kind: [] for kind in KINDS}
    for each in outcomes:
        groups[trace.kind_at(each.sent)].append(each)
    found = {kind: Figures.of(group) for kind, group in groups.items() if group}
    return {**found, ALL: Figures.of(outcomes)}


def difference(measured: float, simulated: float) -> str:
    return f"{100 * (simulated / measured - 1):+.0f} %" if measured else "–"


def figures_table(found: dict[str, Figures]) -> str:
    """Returns a Markdown table of the figures."""
    lines = ["| period | requests | p50 ms | p99 ms | refused % | late or failed % |"]
    lines.append("| --- |" + " ---: |" * 5)
    for kind, each in found.items():
        shares = f"{100 * each.refused:.3g} | {100 * each.failed:.2g}"
        lines.append(
            f"| {kind} | {each.requests} | {each.p50_ms:.3g} | {each.p99_ms:.3g} | {shares} |"
        )
    return "\n".join(lines)


def comparison_table(measured: dict[str, Figures], simulated: dict[str, Figures]) -> str:
    """Returns a Markdown table of the measured and the simulated figures, with their deviations."""
    figures = (
        ("p50 ms", "p50_ms", 1.0),
        ("p99 ms", "p99_ms", 1.0),
        ("refused %", "refused", 100.0),
    )
    heads = [f"{title} | simulated | error" for title, _, _ in figures]
    lines = [f"| period | requests | {' | '.join(heads)} | late or failed % | simulated |"]
    lines.append("| --- |" + " ---: |" * 12)
    for kind, real in measured.items():
        model = simulated[kind]
        cells = [kind, f"{real.requests}"]
        for _, name, scale in figures:
            one, other = scale * getattr(real, name), scale * getattr(model, name)
            cells += [f"{one:.3g}", f"{other:.3g}", difference(one, other)]
        cells += [f"{100 * real.failed:.2g}", f"{100 * model.failed:.2g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
