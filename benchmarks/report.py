"""Samples to figures that can be compared: medians, ranges, ratios; tables and files of them."""

import json
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One contestant's turn in one round.

    Attributes:
        contestant: Who.
        case: Under what, such as `64 clients`.
        round: Counted from 1.
        figures: What was measured, each name with its unit.
    """

    contestant: str
    case: str
    round: int
    figures: dict[str, float]


@dataclass
class Result:
    """All that one section measured.

    Attributes:
        section: Its name.
        samples: One for each contestant, case and round.
        facts: Conditions, such as versions and options.
        scores: BLEU of a contestant's output, where it has one.
        notes: What was left out, and why.
    """

    section: str
    samples: list[Sample] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Spread:
    """A figure over all rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Of at least one value."""
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[0], ordered[-1])


def spread(result: Result, contestant: str, case: str, figure: str) -> Spread | None:
    """A figure over the rounds that have it; None where none has."""
    values = [
        sample.figures[figure]
        for sample in result.samples
        if (sample.contestant, sample.case) == (contestant, case) and figure in sample.figures
    ]
    return Spread.of(values) if values else None


def ratio(result: Result, contestant: str, case: str, figure: str, against: str) -> float | None:
    """The median over the rounds of one contestant's figure divided by another's.

    Divided round by round, so that a machine that slows down in the middle slows both.
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
    """Every (case, contestant) in the order of their first turn, all of a case together."""
    found = dict.fromkeys((sample.case, sample.contestant) for sample in result.samples)
    order = list(dict.fromkeys(case for case, _ in found))
    return sorted(found, key=lambda pair: order.index(pair[0]))


def number(value: float | None) -> str:
    """Three or four digits that count; `–` for none."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ranged(value: Spread | None) -> str:
    """`447 (435–457)`."""
    if value is None:
        return "–"
    return f"{number(value.median)} ({number(value.low)}–{number(value.high)})"


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column to the left, the others to the right."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def replace_marked(text: str, name: str, block: str) -> str:
    """Puts a block between the two markers of that name.

    Raises:
        ValueError: The markers are not there once each, in order.
    """
    start, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed) or start in rest or end in before + after:
        raise ValueError(f"needed once each, in this order: {start} and {end}")
    return f"{before}{start}\n\n{block.strip()}\n\n{end}{after}"


def machine() -> dict[str, str]:
    """What the figures depend on."""
    info = _fields(Path("/proc/cpuinfo"))
    flags = set(info.get("flags", "").split())
    units = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8") if f in flags]
    memory = int(_fields(Path("/proc/meminfo"))["MemTotal"].split()[0]) / 2**20
    return {
        "date": date.today().isoformat(),
        "cpu": info.get("model name", platform.machine()),
        "units": ", ".join(units),
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
    }


def _fields(path: Path) -> dict[str, str]:
    """The first value of each `name: value` line."""
    found: dict[str, str] = {}
    for line in path.read_text("utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def conditions(facts: Mapping[str, Any]) -> str:
    """The conditions of a run as one line."""
    return "; ".join(f"{name} {value}" for name, value in facts.items() if value)


def save(result: Result, folder: Path) -> Path:
    """Writes all samples as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.section}.json"
    path.write_text(json.dumps(asdict(result), indent=1), "utf-8")
    return path


def load(path: Path) -> Result:
    """Reads what `save` wrote."""
    fields = json.loads(path.read_text("utf-8"))
    fields["samples"] = [Sample(**sample) for sample in fields["samples"]]
    return Result(**fields)


def bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU (13a) by sacreBLEU."""
    from sacrebleu import BLEU

    return float(BLEU(tokenize="13a").corpus_score(outputs, [references]).score)
