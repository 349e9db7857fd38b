"""The tables that `regard bench` prints."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from benchmarks.bench.beside import ATTENTION_WARMUP_SECONDS, AttentionReport, BulkReport
from benchmarks.bench.correctness import (
    LIST_SIZE,
    AlignmentReport,
    ConsistencyReport,
    DetachmentReport,
    QualityReport,
)
from benchmarks.bench.fidelity import FRAMES, FidelityReport
from benchmarks.bench.load import LoadReport
from benchmarks.bench.mixed import KindFigures, MixedReport
from benchmarks.bench.overload import CLIENTS, OverloadReport

SHOWN_LINES = 8
COMPACT: dict[str, Any] = {"padding": 0, "collapse_padding": True}
"""Options of a table that needs all of 80 columns."""


def numbers_table(*headings: str, **options: Any) -> Table:
    """Returns an empty table of numbers; only a column without a heading has names."""
    table = Table(box=box.SIMPLE, **options)
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left")
    return table


def figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def counted(place: str, counts: Mapping[str, int]) -> list[str]:
    return [f"{place}: {n} x {kind}" for kind, n in sorted(counts.items())]


def medians(runs: Sequence[LoadReport]) -> list[str]:
    """Returns the cells of p50, p99 and the rate: medians over the windows."""
    names = ("p50_ms", "p99_ms", "sentences_per_second")
    return [figure(median(getattr(run, name) for run in runs)) for name in names]


def quality_table(report: QualityReport) -> Table:
    table = Table(report.pair, "this server", "compared file", box=box.SIMPLE)
    theirs = report.compared
    table.add_row("BLEU", f"{report.scores.bleu:.2f}", f"{theirs.bleu:.2f}" if theirs else "-")
    table.add_row("chrF", f"{report.scores.chrf:.2f}", f"{theirs.chrf:.2f}" if theirs else "-")
    table.add_row("sentences", str(report.sentences), f"{report.equal} equal" if theirs else "-")
    table.add_row("seconds", f"{report.seconds:.2f}", "-")
    table.add_row("sentences/s", f"{report.sentences_per_second:.1f}", "-")
    table.caption = "BLEU {}\nchrF {}".format(*report.signatures)
    return table


def consistency_table(report: ConsistencyReport) -> Table:
    table = Table(report.pair, "changed lines", "first of them", box=box.SIMPLE)
    table.caption = "A changed line gets another translation when it is sent alone."
    for way, lines in (
        (f"in lists of up to {LIST_SIZE}", report.lists_differ),
        (f"from {report.clients} clients", report.clients_differ),
    ):
        shown = ", ".join(map(str, lines[:SHOWN_LINES])) or "-"
        table.add_row(way, f"{len(lines)} of {report.sentences}", shown)
    return table


def load_table(reports: Sequence[LoadReport]) -> Group:
    headings = ["clients", "sentences/s", "ratio", "p50 ms", "p95 ms", "p99 ms", "rows/step"]
    table = numbers_table(*headings, "padding %", "errors", **COMPACT)
    notes = []
    for run in reports:
        padding = None if run.padding_share is None else 100 * run.padding_share
        latencies = [run.p50_ms, run.p95_ms, run.p99_ms]
        figures = [run.sentences_per_second, run.ratio, *latencies, run.mean_rows, padding]
        cells = [figure(number) for number in figures]
        table.add_row(str(run.clients), *cells, str(sum(run.errors.values())))
        notes += counted(f"{run.clients} clients", run.errors)
        if not run.sentences:
            notes.append(f"{run.clients} clients: no sentence finished in {run.seconds:g} s")
    return Group(table, *map(escape, notes))


def attention_table(report: AttentionReport) -> Table:
    headings = ("", "p50 ms", "p99 ms", "sentences/s", "attention/s")
    table = numbers_table(*headings, title="translations; medians over the windows")
    for name, runs in (("without attention", report.alone), ("with attention", report.beside)):
        seconds = sum(run.seconds + ATTENTION_WARMUP_SECONDS for run in runs)
        replies = sum(asked.replies for asked in report.asked) if runs is report.beside else 0
        table.add_row(name, *medians(runs), figure(replies / seconds))
    table.add_row("ratio", "", f"{report.p99_ratio:.2f}", "", "")
    source, target = report.tokens
    table.caption = (
        f"text for attention: {source} source tokens, {target} target tokens, "
        f"{report.values} values per reply"
    )
    return table


def mixed_table(report: MixedReport) -> Group:
    pairs = [
        f"{name}\n{way}" for name in ("p50 ms", "p99 ms", "per s") for way in ("without", "with")
    ]
    headings = ("", "clients", *pairs[:4], "p99\nratio", *pairs[4:])
    table = numbers_table(*headings, **COMPACT)
    for kind, beside in report.beside.items():
        alone = report.alone.get(kind)
        cells = [figure(number) for number in _side_by_side(alone, beside)]
        table.add_row(kind, str(beside.clients), *cells)
    first, last = report.memory_mib
    table.caption = (
        f"{report.rounds} windows without long embeddings and {report.rounds} with them, in "
        f"{report.seconds:.0f} s; memory {first:.0f} to {last:.0f} MiB"
    )
    ratio = f"{report.p99_ratio:.2f} times"
    notes = [f"with long embeddings, p99 of short embeddings is {ratio} as long as without them"]
    for kind, counts in report.errors.items():
        notes += counted(kind, counts)
    return Group(table, *map(escape, notes))


def _side_by_side(alone: KindFigures | None, beside: KindFigures) -> list[float | None]:
    """Returns p50, p99 and the rate without and with long embeddings, and the ratio of p99."""
    without = alone or replace(beside, p50_ms=None, p99_ms=None, per_second=0.0)
    ratio = None
    if without.p99_ms is not None and beside.p99_ms is not None:
        ratio = beside.p99_ms / without.p99_ms
    p50s, p99s = (without.p50_ms, beside.p50_ms), (without.p99_ms, beside.p99_ms)
    return [*p50s, *p99s, ratio, without.per_second, beside.per_second]


def alignment_table(report: AlignmentReport) -> Table:
    table = Table(f"{report.sentences} sentences", "aligned", "of pairs", "%", box=box.SIMPLE)
    shares = {
        "numerals": report.numerals,
        "words spelt alike": report.words,
        "false friends": report.false_friends,
        "words and false friends": report.all_words,
    }
    for name, share in shares.items():
        table.add_row(name, str(share.aligned), str(share.total), f"{share.percent:.1f}")
    return table


def fidelity_table(report: FidelityReport) -> Group:
    table = numbers_table("", "kinds", "sentences", "whole", "%", title="placeholders in frames")
    rows = [
        (family.name, family.kinds, len(FRAMES) * family.kinds, family.whole)
        for family in report.families
    ]
    kinds = sum(family.kinds for family in report.families)
    for name, count, sentences, whole in (*rows, ("all", kinds, report.sentences, report.whole)):
        share = figure(100 * whole / sentences)
        table.add_row(name, str(count), str(sentences), str(whole), share)
    lost = {kind: found for family in report.families for kind, found in family.lost.items()}
    notes = [f"{kind}: {len(found)} broken, such as {found[0]}" for kind, found in lost.items()]
    broken = len(report.broken)
    notes.append(f"{report.mixed - broken} of {report.mixed} mixed sentences are whole")
    return Group(table, *map(escape, [*notes, *report.broken]))


def detachment_table(report: DetachmentReport) -> Table:
    table = Table(f"{report.sentences} sentences", "median score", box=box.SIMPLE)
    table.add_row("with their own translations", f"{report.true_median:.3f}")
    table.add_row("with translations of other lines", f"{report.shuffled_median:.3f}")
    table.add_row("area under the ROC curve", f"{report.area:.4f}")
    return table


def overload_table(report: OverloadReport) -> Group:
    headings = (
        "deadline\ns",
        "offered",
        "per s",
        "in time\nper s",
        "% of\npeak",
        "p99 s",
        "late %",
    )
    table = numbers_table(*headings, "refused\np50 ms", "MiB", "recovery\ns", **COMPACT)
    notes = []
    for run in report.runs:
        table.add_row(
            f"{run.deadline_seconds:g}",
            f"{run.factor:g} x",
            figure(run.offered_per_second),
            figure(run.in_time_per_second),
            f"{100 * run.share_of_peak:.0f}",
            figure(run.accepted_p99_seconds),
            f"{100 * run.late_share:.1f}",
            figure(run.refused_p50_ms),
            f"{run.memory_mib:.0f}",
            f"{run.recovery_seconds}",
        )
        place = f"{run.deadline_seconds:g} s, {run.factor:g} x"
        notes += counted(place, run.errors)
        if run.without_retry_after:
            notes.append(f"{place}: {run.without_retry_after} refusals without Retry-After")
    capacity = f"{report.capacity_per_second:.0f} sentences/s"
    table.caption = f"capacity: {capacity} with {CLIENTS} clients"
    return Group(table, *map(escape, notes))


def bulk_table(report: BulkReport) -> Group:
    headings = ("", "p50 ms", "p99 ms", "sentences/s")
    table = numbers_table(*headings, title="single sentences; medians over the windows")
    for name, runs in (("without lists", report.alone), ("with lists", report.beside)):
        table.add_row(name, *medians(runs))
    table.add_row("ratio", "", f"{report.p99_ratio:.2f}", "")
    notes = [f"{report.lists} lists translated", *counted("lists", report.statuses)]
    for run in report.beside:
        notes += counted("single sentences", run.errors)
    return Group(table, *map(escape, notes))
