"""`regard bench`: measure a server from outside, by quality and by load."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Annotated

import httpx
import orjson
import typer
import uvloop
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.bench.client import BenchError
from service.bench.load import LoadReport, built_in_sentences, parse_clients, ratios, run_load
from service.bench.quality import QualityReport, Scorer, read_lines, read_parallel, translate
from service.bench.server import running_server

app = typer.Typer(help="Measure a server over HTTP: quality and load.", no_args_is_help=True)

_LINES = typer.Option(exists=True, dir_okay=False, help="one sentence a line")
_PAIR = typer.Option(help="source and target language, such as en-pt")
_URL = typer.Option(envvar="REGARD_URL", help="a running server; without it one is started")
_JSON = typer.Option("--json", help="print one JSON object instead")


@app.command()
def quality(  # noqa: PLR0913 - one parameter is one flag
    source: Annotated[Path, _LINES],
    reference: Annotated[Path, _LINES],
    pair: Annotated[str, _PAIR] = "en-pt",
    other: Annotated[
        Path | None,
        typer.Option("--compare", exists=True, dir_okay=False, help="another system's output"),
    ] = None,
    url: Annotated[str | None, _URL] = None,
    batch: Annotated[int, typer.Option(min=1, help="sentences a request")] = 32,
    clients: Annotated[int, typer.Option(min=1, help="requests at a time")] = 1,
    output: Annotated[Path | None, typer.Option(help="where to write the translations")] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Translate a file over HTTP and score it with sacreBLEU (BLEU 13a and chrF)."""
    with _errors_shown():
        sentences = read_lines(source)
        scorer = Scorer(read_parallel(source, reference))
        others = None if other is None else read_parallel(source, other)
        with running_server(url) as base_url:
            began = perf_counter()
            translations = translate(base_url, pair, sentences, batch, clients)
            seconds = perf_counter() - began
        report = scorer.report(pair, translations, seconds, others)
        if as_json:
            typer.echo(orjson.dumps(report).decode())
        else:
            Console().print(quality_table(report))
        if output is not None:
            _write_lines(output, translations)


@app.command()
def load(
    clients: Annotated[str, typer.Option(help="how many, or a list such as 1,64")] = "64",
    duration: Annotated[float, typer.Option(min=0.1, help="measured seconds")] = 30.0,
    source: Annotated[Path | None, _LINES] = None,
    pair: Annotated[str, _PAIR] = "en-pt",
    url: Annotated[str | None, _URL] = None,
    warmup: Annotated[float, typer.Option(min=0.0, help="seconds before these")] = 3.0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Load a server with clients that each send one sentence after the other."""
    with _errors_shown():
        counts = parse_clients(clients)
        sentences = built_in_sentences(pair) if source is None else read_lines(source)
        with running_server(url) as base_url:
            reports = [
                uvloop.run(run_load(base_url, pair, sentences, count, warmup, duration))
                for count in counts
            ]
    if as_json:
        typer.echo(orjson.dumps({"pair": pair, "runs": _with_ratios(reports)}).decode())
    else:
        _print_load(reports)
    if any(report.errors or not report.sentences for report in reports):
        raise typer.Exit(1)


def quality_table(report: QualityReport) -> Table:
    """Lay out a report; the scores of the compared file stand beside ours."""
    table = Table(report.pair, "this server", "compared file", box=box.SIMPLE)
    theirs = report.compared
    table.add_row("BLEU", f"{report.scores.bleu:.2f}", f"{theirs.bleu:.2f}" if theirs else "-")
    table.add_row("chrF", f"{report.scores.chrf:.2f}", f"{theirs.chrf:.2f}" if theirs else "-")
    table.add_row("sentences", str(report.sentences), f"{report.equal} equal" if theirs else "-")
    table.add_row("seconds", f"{report.seconds:.2f}", "-")
    table.add_row("sentences/s", f"{report.sentences_per_second:.1f}", "-")
    table.caption = "BLEU {}\nchrF {}".format(*report.signatures)
    return table


def load_table(reports: Sequence[LoadReport]) -> Table:
    """Lay out one run a row, in 80 columns."""
    table = Table(box=box.SIMPLE, padding=0, collapse_padding=True)
    headings = ["clients", "sentences/s", "ratio", "p50 ms", "p95 ms", "p99 ms", "rows/step"]
    for heading in [*headings, "padding %", "errors"]:
        table.add_column(heading, justify="right")
    for report, ratio in zip(reports, ratios(reports), strict=True):
        padding = None if report.padding_share is None else 100 * report.padding_share
        latencies = [report.p50_ms, report.p95_ms, report.p99_ms]
        figures = [report.sentences_per_second, ratio, *latencies, report.mean_rows, padding]
        cells = [_figure(figure) for figure in figures]
        table.add_row(str(report.clients), *cells, str(sum(report.errors.values())))
    return table


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def _print_load(reports: Sequence[LoadReport]) -> None:
    console = Console()
    console.print(load_table(reports))
    for report in reports:
        for kind, times in sorted(report.errors.items()):
            console.print(f"{report.clients} clients: {times} x {kind}", markup=False)
        if not report.sentences:
            console.print(f"{report.clients} clients: nothing finished in {report.seconds:g} s")


def _with_ratios(reports: Sequence[LoadReport]) -> list[dict[str, object]]:
    return [
        {**asdict(report), "ratio": ratio}
        for report, ratio in zip(reports, ratios(reports), strict=True)
    ]


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write one line each: a line break inside a translation becomes a space."""
    path.write_text("".join(line.replace("\n", " ") + "\n" for line in lines), "utf-8")


@contextmanager
def _errors_shown() -> Iterator[None]:
    """End the command with status 1 and the message when the benchmark cannot go on."""
    try:
        yield
    except (BenchError, OSError, httpx.InvalidURL) as error:
        Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from error
