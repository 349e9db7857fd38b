"""The command `regard bench`, which measures a server over HTTP.

Its subcommands are quality, consistency, load, attention, mixed and alignment.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated

import orjson
import typer
import uvloop
from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from service.bench.alignment import AlignmentReport, run_alignment
from service.bench.attention import WARMUP_SECONDS, AttentionReport, run_attention
from service.bench.client import Address, BenchError
from service.bench.consistency import LIST_SIZE, ConsistencyReport, run_consistency
from service.bench.load import LoadReport, parse_clients, run_load, with_ratios
from service.bench.mixed import Clients, Interval, KindFigures, MixedReport, num_rounds, run_mixed
from service.bench.quality import QualityReport, Scorer
from service.bench.sentences import built_in_sentences, read_lines, read_parallel
from service.bench.translation import in_lists, split_pair, translate
from service.private_server import ServerStartError, running_server

SHOWN_LINES = 8

app = typer.Typer(help="Measure a server over HTTP.", no_args_is_help=True)

_LINES = typer.Option(exists=True, dir_okay=False, help="file with one sentence per line")
_PAIR = typer.Option(help="source and target language, such as en-pt")
_URL = typer.Option(
    envvar="REGARD_URL", help="address of a running server; without it, a server is started"
)
_JSON = typer.Option("--json", help="print one JSON object, not a table")
_SPLIT = typer.Option(
    "--split/--no-split",
    help="let the server split lines into sentences",
)


@app.command()
def quality(  # noqa: PLR0913 - one parameter is one flag
    source: Annotated[Path, _LINES],
    reference: Annotated[Path, _LINES],
    pair: Annotated[str, _PAIR] = "en-pt",
    other: Annotated[
        Path | None,
        typer.Option(
            "--compare", exists=True, dir_okay=False, help="another system's translations"
        ),
    ] = None,
    url: Annotated[str | None, _URL] = None,
    batch: Annotated[int, typer.Option(min=1, help="sentences per request")] = 32,
    clients: Annotated[int, typer.Option(min=1, help="requests at a time")] = 1,
    split: Annotated[bool, _SPLIT] = False,
    output: Annotated[Path | None, typer.Option(help="file to write the translations to")] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Translate a file over HTTP and score it with sacreBLEU (BLEU 13a and chrF).

    By default the model translates each line as one sentence. With --split the server first splits
    each line into sentences, and the scores also depend on this splitting.
    """
    with _errors_shown():
        lists = in_lists(read_lines(source), batch)
        scorer = Scorer(read_parallel(source, reference))
        others = None if other is None else read_parallel(source, other)
        with running_server(url) as base_url:
            address = Address.parse(base_url)
            began = perf_counter()
            translations = uvloop.run(translate(address, pair, lists, split, clients))
            seconds = perf_counter() - began
        report = scorer.report(pair, translations, seconds, others)
        _show(report, _quality_table(report), as_json)
        if output is not None:
            lines = [translation.replace("\n", " ") for translation in translations]
            output.write_text("\n".join([*lines, ""]), "utf-8")


@app.command()
def consistency(
    source: Annotated[Path, _LINES],
    pair: Annotated[str, _PAIR] = "en-pt",
    clients: Annotated[int, typer.Option(min=1, help="clients that send at random times")] = 32,
    url: Annotated[str | None, _URL] = None,
    seed: Annotated[int, typer.Option(help="seed of the order of the lines and of the pauses")] = 0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Check that a text gets the same translation alone, in a list and during other requests.

    The model translates each line as one sentence. Exits with 1 if a line gets different
    translations.
    """
    with _errors_shown():
        sentences = read_lines(source)
        with running_server(url) as base_url:
            report = uvloop.run(run_consistency(base_url, pair, sentences, clients, seed))
    _show(report, _consistency_table(report), as_json)
    if report.lists_differ or report.clients_differ:
        raise typer.Exit(1)


@app.command()
def load(
    clients: Annotated[str, typer.Option(help="number of clients, or a list such as 1,64")] = "64",
    duration: Annotated[float, typer.Option(min=0.1, help="seconds that are measured")] = 30.0,
    source: Annotated[Path | None, _LINES] = None,
    pair: Annotated[str, _PAIR] = "en-pt",
    url: Annotated[str | None, _URL] = None,
    warmup: Annotated[
        float, typer.Option(min=0.0, help="seconds of load before the measurement")
    ] = 3.0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Measure throughput and latency with clients that send one sentence after the other."""
    with _errors_shown():
        counts = parse_clients(clients)
        language, _ = split_pair(pair)
        sentences = built_in_sentences(language) if source is None else read_lines(source)
        with running_server(url) as base_url:
            runs = [
                uvloop.run(run_load(base_url, pair, sentences, count, warmup, duration))
                for count in counts
            ]
    reports = with_ratios(runs)
    _show({"pair": pair, "runs": reports}, _load_table(reports), as_json)
    if any(report.errors or not report.sentences for report in reports):
        raise typer.Exit(1)


@app.command()
def attention(  # noqa: PLR0913 - one parameter is one flag
    clients: Annotated[int, typer.Option(min=1, help="clients that translate")] = 16,
    tokens: Annotated[
        int,
        typer.Option(min=2, help="smallest number of tokens of the text sent for attention"),
    ] = 100,
    rounds: Annotated[
        int,
        typer.Option(
            min=1, help="rounds; each is a window without attention, then a window with it"
        ),
    ] = 3,
    duration: Annotated[float, typer.Option(min=0.1, help="measured seconds per window")] = 10.0,
    source: Annotated[Path | None, _LINES] = None,
    pair: Annotated[str, _PAIR] = "en-pt",
    url: Annotated[str | None, _URL] = None,
    limit: Annotated[
        float,
        typer.Option(help="largest accepted ratio of p99 with attention to p99 without"),
    ] = 1.5,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Measure how much slower translations are while another client requests attention.

    This client requests all layers and heads of one text in a loop. Exits with 1 if the ratio of
    p99 is above --limit, or if a request fails while attention is requested.
    """
    with _errors_shown():
        language, _ = split_pair(pair)
        sentences = built_in_sentences(language) if source is None else read_lines(source)
        with running_server(url) as base_url:
            report = run_attention(base_url, pair, sentences, clients, tokens, rounds, duration)
    _show(report, _attention_table(report), as_json)
    failed = any(asked.errors for asked in report.asked)
    if failed or report.p99_ratio > limit or any(run.errors for run in report.beside):
        raise typer.Exit(1)


@app.command()
def mixed(  # noqa: PLR0913 - one parameter is one flag
    translating: Annotated[int, typer.Option(min=1, help="clients that translate")] = 4,
    short: Annotated[int, typer.Option(min=1, help="clients that embed short texts")] = 4,
    long: Annotated[int, typer.Option(min=1, help="clients that embed long texts")] = 2,
    asking: Annotated[int, typer.Option(min=0, help="clients that request attention")] = 1,
    tokens: Annotated[int, typer.Option(min=64, help="number of tokens of the longest text")] = 400,
    duration: Annotated[
        float, typer.Option(min=0.1, help="seconds of all windows together")
    ] = 60.0,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="rounds; each is a window without long texts, then a window with them; "
            "by default, a window lasts about 10 seconds",
        ),
    ] = None,
    source: Annotated[Path | None, _LINES] = None,
    pair: Annotated[str, _PAIR] = "en-pt",
    url: Annotated[str | None, _URL] = None,
    limit: Annotated[
        float, typer.Option(help="largest accepted ratio of p99 with long texts to p99 without")
    ] = 3.0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Measure how much slower short texts are embedded while other clients embed long texts.

    Other clients translate and request attention all the time. Windows without and with the clients
    that embed long texts alternate. Short texts have 8 to 30 tokens, long texts up to --tokens. A
    line on standard error reports the progress once a minute. Exits with 1 if the ratio of p99 of
    short texts is above --limit, or if a client gets an error.
    """
    clients = Clients(translating, short, long, asking)
    with _errors_shown():
        number = num_rounds(duration, rounds)
        language, _ = split_pair(pair)
        sentences = built_in_sentences(language) if source is None else read_lines(source)
        with running_server(url) as base_url:
            report = run_mixed(
                base_url, pair, sentences, clients, tokens, duration, number, _show_interval
            )
    _show(report, _mixed_table(report), as_json)
    if report.errors or report.p99_ratio > limit:
        raise typer.Exit(1)


@app.command()
def alignment(
    source: Annotated[Path, _LINES],
    pair: Annotated[str, _PAIR] = "en-pt",
    lines: Annotated[int, typer.Option(min=1, help="number of lines to use, from the first")] = 200,
    batch: Annotated[int, typer.Option(min=1, help="sentences per request")] = 32,
    url: Annotated[str | None, _URL] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Count how many numerals and words that a line shares with its translation are aligned.

    False friends are words that exist in both languages, but never translate each other. They are
    counted separately, and none of them should be aligned.
    """
    with _errors_shown():
        sentences = read_lines(source)[:lines]
        with running_server(url) as base_url:
            report = uvloop.run(run_alignment(base_url, pair, sentences, batch))
    _show(report, _alignment_table(report), as_json)


def _show(report: object, table: RenderableType, as_json: bool) -> None:
    if as_json:
        typer.echo(orjson.dumps(report).decode())
    else:
        Console().print(table)


def _quality_table(report: QualityReport) -> Table:
    table = Table(report.pair, "this server", "compared file", box=box.SIMPLE)
    theirs = report.compared
    table.add_row("BLEU", f"{report.scores.bleu:.2f}", f"{theirs.bleu:.2f}" if theirs else "-")
    table.add_row("chrF", f"{report.scores.chrf:.2f}", f"{theirs.chrf:.2f}" if theirs else "-")
    table.add_row("sentences", str(report.sentences), f"{report.equal} equal" if theirs else "-")
    table.add_row("seconds", f"{report.seconds:.2f}", "-")
    table.add_row("sentences/s", f"{report.sentences_per_second:.1f}", "-")
    table.caption = "BLEU {}\nchrF {}".format(*report.signatures)
    return table


def _consistency_table(report: ConsistencyReport) -> Table:
    table = Table(report.pair, "changed lines", "first of them", box=box.SIMPLE)
    table.caption = "A changed line gets another translation when it is sent alone."
    for way, lines in (
        (f"in lists of up to {LIST_SIZE}", report.lists_differ),
        (f"from {report.clients} clients", report.clients_differ),
    ):
        shown = ", ".join(map(str, lines[:SHOWN_LINES])) or "-"
        table.add_row(way, f"{len(lines)} of {report.sentences}", shown)
    return table


def _load_table(reports: Sequence[LoadReport]) -> Group:
    """Returns a table of 80 columns with one row per run, and a list of the errors."""
    table = Table(box=box.SIMPLE, padding=0, collapse_padding=True)
    headings = ["clients", "sentences/s", "ratio", "p50 ms", "p95 ms", "p99 ms", "rows/step"]
    for heading in [*headings, "padding %", "errors"]:
        table.add_column(heading, justify="right")
    notes = []
    for run in reports:
        padding = None if run.padding_share is None else 100 * run.padding_share
        latencies = [run.p50_ms, run.p95_ms, run.p99_ms]
        figures = [run.sentences_per_second, run.ratio, *latencies, run.mean_rows, padding]
        cells = [_figure(figure) for figure in figures]
        table.add_row(str(run.clients), *cells, str(sum(run.errors.values())))
        notes += [f"{run.clients} clients: {n} x {kind}" for kind, n in sorted(run.errors.items())]
        if not run.sentences:
            notes.append(f"{run.clients} clients: no sentence finished in {run.seconds:g} s")
    return Group(table, *map(escape, notes))


def _attention_table(report: AttentionReport) -> Table:
    table = Table(box=box.SIMPLE, title="translations; medians over the windows")
    for heading in ("", "p50 ms", "p99 ms", "sentences/s", "attention/s"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, runs in (("without attention", report.alone), ("with attention", report.beside)):
        medians = [
            median(getattr(run, figure) for run in runs)
            for figure in ("p50_ms", "p99_ms", "sentences_per_second")
        ]
        seconds = sum(run.seconds + WARMUP_SECONDS for run in runs)
        replies = sum(asked.replies for asked in report.asked) if runs is report.beside else 0
        table.add_row(name, *map(_figure, medians), _figure(replies / seconds))
    table.add_row("ratio", "", f"{report.p99_ratio:.2f}", "", "")
    source, target = report.tokens
    table.caption = (
        f"text for attention: {source} source tokens, {target} target tokens, "
        f"{report.values} values per reply"
    )
    return table


def _show_interval(each: Interval) -> None:
    p99s = f"{_figure(each.alone_p99_ms)} and {_figure(each.beside_p99_ms)} ms"
    typer.echo(
        f"{each.seconds:.0f} s: {each.requests} requests, p99 of short embeddings {p99s} "
        f"(without and with long embeddings), {each.errors} errors, {each.memory_mib:.0f} MiB",
        err=True,
    )


def _mixed_table(report: MixedReport) -> Group:
    """Returns a table with one row per kind of client, and a list of the errors."""
    table = Table(box=box.SIMPLE, padding=0, collapse_padding=True)
    pairs = [
        f"{name}\n{way}" for name in ("p50 ms", "p99 ms", "per s") for way in ("without", "with")
    ]
    for heading in ("", "clients", *pairs[:4], "p99\nratio", *pairs[4:]):
        table.add_column(heading, justify="left" if not heading else "right")
    for kind, beside in report.beside.items():
        alone = report.alone.get(kind)
        cells = [_figure(number) for number in _side_by_side(alone, beside)]
        table.add_row(kind, str(beside.clients), *cells)
    first, last = report.memory_mib
    table.caption = (
        f"{report.rounds} windows without long embeddings and {report.rounds} with them, in "
        f"{report.seconds:.0f} s; memory {first:.0f} to {last:.0f} MiB"
    )
    ratio = f"{report.p99_ratio:.2f} times"
    notes = [f"p99 of short embeddings is {ratio} as long with long embeddings as without them"]
    for kind, counts in report.errors.items():
        notes += [f"{kind}: {n} x {error}" for error, n in sorted(counts.items())]
    return Group(table, *map(escape, notes))


def _side_by_side(alone: KindFigures | None, beside: KindFigures) -> list[float | None]:
    """Returns p50, p99, the ratio of p99, and requests per second.

    Except for the ratio, there are two values: without and with long embeddings.
    """
    without = alone or replace(beside, p50_ms=None, p99_ms=None, per_second=0.0)
    ratio = None
    if without.p99_ms is not None and beside.p99_ms is not None:
        ratio = beside.p99_ms / without.p99_ms
    p50s, p99s = (without.p50_ms, beside.p50_ms), (without.p99_ms, beside.p99_ms)
    return [*p50s, *p99s, ratio, without.per_second, beside.per_second]


def _alignment_table(report: AlignmentReport) -> Table:
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


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


@contextmanager
def _errors_shown() -> Iterator[None]:
    """Prints the message of an error, and ends the command with status 1."""
    try:
        yield
    except (BenchError, ServerStartError, OSError) as error:
        Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from error
