"""Computes medians, ranges and ratios of samples, and writes them as tables and files."""

import json
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from service import doctor

OURS = "regard"


@dataclass(frozen=True)
class Sample:
    contestant: str  # name of the engine or server
    case: str  # name of the condition, such as `64 clients`
    round: int  # number of the round, counted from 1; 0 for figures that are not measured in rounds
    # maps the name of each figure to its value. A name includes the unit, such as `p50_ms`.
    figures: dict[str, float]


@dataclass
class Result:
    """Results of one section of the benchmarks, such as `http`."""

    section: str  # name of the section
    samples: list[Sample] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, contestant: str, case: str, turn: int, figures: dict[str, float]) -> None:
        """Prints and keeps the figures of one turn."""
        print(f"  round {turn} {case} {contestant}: {figures}", file=sys.stderr)
        self.samples.append(Sample(contestant, case, turn, figures))


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest value of a figure over all rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[0], ordered[-1])


def spread(result: Result, contestant: str, case: str, figure: str) -> Spread | None:
    """Returns a figure's spread over the rounds that have it; None if no round has it."""
    values = [
        sample.figures[figure]
        for sample in result.samples
        if (sample.contestant, sample.case) == (contestant, case) and figure in sample.figures
    ]
    return Spread.of(values) if values else None


def ratio(result: Result, contestant: str, case: str, figure: str, against: str) -> float | None:
    """Divides `contestant`'s figure by `against`'s figure in each round; returns the median.

    Both figures of a ratio come from the same round. A machine that is slower in some rounds
    therefore hardly changes the ratios. The result is None if no round has both figures.
    """
    by_round: dict[int, dict[str, float]] = {}
    for sample in result.samples:
        if sample.case == case and figure in sample.figures:
            by_round.setdefault(sample.round, {})[sample.contestant] = sample.figures[figure]
    quotients = [
        figures[contestant] / figures[against]
        for figures in by_round.values()
        if contestant in figures and figures.get(against)
    ]
    return statistics.median(quotients) if quotients else None


def cases(result: Result) -> list[tuple[str, str]]:
    found = dict.fromkeys((sample.case, sample.contestant) for sample in result.samples)
    order = list(dict.fromkeys(case for case, _ in found))
    return sorted(found, key=lambda pair: order.index(pair[0]))


def number(value: float | None) -> str:
    """Formats a value with 0 to 2 decimals, fewer for larger values; None gives `–`."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ranged(value: Spread | None) -> str:
    if value is None:
        return "–"
    return f"{number(value.median)} ({number(value.low)}–{number(value.high)})"


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def median(result: Result, contestant: str, case: str, figure: str) -> str:
    found = spread(result, contestant, case, figure)
    return number(found.median if found else None)


def ranged_cell(result: Result, contestant: str, case: str, figure: str) -> str:
    return ranged(spread(result, contestant, case, figure))


def formatted(form: str) -> "Cell":
    """Returns a function that shows the median of a figure in another format."""

    def cell(result: Result, contestant: str, case: str, figure: str) -> str:
        found = spread(result, contestant, case, figure)
        return format(found.median, form) if found else "–"

    return cell


def score(result: Result, contestant: str, _case: str, _figure: str) -> str:
    return f"{result.scores[contestant]:.2f}" if contestant in result.scores else "–"


def worst(result: Result, contestant: str, case: str, figure: str) -> str:
    found = spread(result, contestant, case, figure)
    return f"{found.high:.0f}" if found else "–"


def bold(contestant: str) -> str:
    return f"**{contestant}**" if contestant == OURS else contestant


def best_of(result: Result, case: str, rate: str, *prefixes: str) -> str:
    """Returns the contestant with a prefix that has the highest median rate; "" without any."""
    rates = {
        name: found.median
        for each, name in cases(result)
        if each == case and name.startswith(prefixes)
        if (found := spread(result, name, case, rate))
    }
    return max(rates, key=rates.__getitem__, default="")


Cell = Callable[[Result, str, str, str], str]
Columns = dict[str, str | tuple[Cell, str]]
"""Headings with figures, whose medians are shown; a Cell shows a figure in another way."""


def comparison(
    result: Result,
    rate: str,
    against: Callable[[str], str],
    columns: Columns,
    left_out: str = "",
) -> list[list[str]]:
    """Returns a row for each case and contestant, with the rate and its ratio to a peer's.

    `against` returns the name of this peer for a case.
    """
    rows = []
    for case, name in cases(result):
        if case == left_out:
            continue
        cells = [case, bold(name), ranged(spread(result, name, case, rate))]
        cells.append(number(ratio(result, name, case, rate, against(case))))
        for column in columns.values():
            cell, figure = (median, column) if isinstance(column, str) else column
            cells.append(cell(result, name, case, figure))
        rows.append(cells)
    return rows


def replace_marked(text: str, name: str, block: str) -> str:
    """Replaces the text between the two markers for `name` by a block."""
    start, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed) or start in rest or end in before + after:
        raise ValueError(f"the text must have {start} and {end} once each, in this order")
    return f"{before}{start}\n\n{block.strip()}\n\n{end}{after}"


def machine() -> dict[str, str]:
    processor, versions = doctor.processor(), doctor.versions()
    return {
        "date": date.today().isoformat(),
        "cpu": processor["model"],
        "units": ", ".join(processor["features"]),
        "memory": f"{doctor.memory()['total_bytes'] / 2**30:.0f} GiB",
        "kernel": platform.release(),
        "python": versions["python"],
        "torch": versions["torch"],
    }


def conditions(facts: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} {value}" for name, value in facts.items() if value)


def save(result: Result, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.section}.json"
    path.write_text(json.dumps(asdict(result), indent=1), "utf-8")
    return path


def load(path: Path) -> Result:
    fields = json.loads(path.read_text("utf-8"))
    fields["samples"] = [Sample(**sample) for sample in fields["samples"]]
    return Result(**fields)


def bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    from sacrebleu import BLEU

    return float(BLEU(tokenize="13a").corpus_score(outputs, [references]).score)
