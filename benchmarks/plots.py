"""Plots results: `python -m benchmarks.plots RESULTS FOLDER [SECTION ...]`.

The command runs in the virtual environment that has matplotlib. Each plot is an SVG of the medians.
Equal results give equal bytes.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot

from benchmarks import report
from benchmarks.report import Result

matplotlib.rcParams.update({"svg.hashsalt": "regard", "font.size": 9, "lines.markersize": 4})
OURS = "regard"


def main() -> None:
    results, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or DRAWINGS:
        path = results / f"{name}.json"
        if name in DRAWINGS and path.exists():
            figure = DRAWINGS[name](report.load(path))
            figure.tight_layout()
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            print(f"{name}.svg")


def draw_http(result: Result) -> Any:
    """Plots p50 and p99 over the rate: a line for each server, a point for each client count."""
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4))
    for panel, percentile in zip(panels, ("p50_ms", "p99_ms"), strict=True):
        for name in dict.fromkeys(sample.contestant for sample in result.samples):
            points = _points(result, name, percentile)
            width = 2.5 if name == OURS else 1.2
            panel.plot([p[0] for p in points], [p[1] for p in points], "o-", lw=width, label=name)
            for rate, latency, case in points:
                panel.annotate(case, (rate, latency), fontsize=6, alpha=0.7)
        panel.set(xlabel="requests/s", ylabel=percentile.replace("_", " "), yscale="log")
        panel.grid(visible=True, which="both", alpha=0.2)
    panels[0].legend(fontsize=7)
    figure.suptitle(
        "One sentence per POST request, closed loop; each point shows its number of clients"
    )
    return figure


def _points(result: Result, name: str, latency: str) -> list[tuple[float, float, str]]:
    points = []
    for case, contestant in report.cases(result):
        rate = report.spread(result, name, case, "requests_per_second")
        spread = report.spread(result, name, case, latency)
        if contestant == name and case.isdecimal() and rate and spread and rate.median:
            points.append((rate.median, spread.median, case))
    return points


def draw_growth(result: Result) -> Any:
    """Plots growth by source length, clients and models, with two axes each."""
    panels_of = {
        "length": (("alone_p50_ms", "busy_p50_ms"), "tokens_per_second"),
        "clients": (("p50_ms", "p99_ms"), "requests_per_second"),
        "models": (("idle_pss_mib", "loaded_pss_mib"), "ready_seconds"),
    }
    figure, panels = pyplot.subplots(1, 3, figsize=(13, 4))
    for panel, (name, (left, right)) in zip(panels, panels_of.items(), strict=True):
        other = panel.twinx()
        for number, key in enumerate(left):
            panel.plot(*_curve(result, name, key), "o-", color=f"C{number}", label=_words(key))
        other.plot(*_curve(result, name, right), "s--", color="C2", label=_words(right))
        scale = "linear" if name == "models" else "log"
        panel.set(xlabel=name, xscale=scale, yscale=scale)
        panel.legend(loc="upper left", fontsize=7)
        other.legend(loc="lower right", fontsize=7)
        other.set_ylim(bottom=0)
        panel.grid(visible=True, alpha=0.2)
    return figure


def _curve(result: Result, name: str, key: str) -> tuple[list[int], list[float]]:
    cases = [case for case, contestant in report.cases(result) if contestant == name]
    spreads = {int(case): report.spread(result, name, case, key) for case in cases}
    found = {case: spread.median for case, spread in spreads.items() if spread}
    return list(found), list(found.values())


def _words(key: str) -> str:
    return key.replace("_", " ").replace(" per second", "/s")


DRAWINGS: dict[str, Callable[[Result], Any]] = {"http": draw_http, "growth": draw_growth}


if __name__ == "__main__":
    main()
