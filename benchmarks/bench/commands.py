"""The command `regard bench`, which measures a server over HTTP.

Its subcommands are quality, consistency, fidelity, load, attention, mixed, bulk, overload,
alignment and detachment.
"""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import orjson
import typer
import uvloop
from rich.console import Console, RenderableType
from rich.markup import escape

from benchmarks.bench import tables
from benchmarks.bench.beside import run_attention, run_bulk
from benchmarks.bench.client import Address, BenchError
from benchmarks.bench.correctness import Scorer, run_alignment, run_consistency, run_detachment
from benchmarks.bench.fidelity import run_fidelity
from benchmarks.bench.load import parse_clients, run_load, with_ratios
from benchmarks.bench.mixed import Clients, Interval, num_rounds, run_mixed
from benchmarks.bench.overload import (
    SMALLEST_SHARE,
    OverloadRun,
    parse_numbers,
    run_overload,
)
from benchmarks.bench.texts import in_lists, read_lines, read_parallel, sentences_of, translate
from service.files.private_server import ServerStartError, running_server

_server = partial(running_server, variables={"REGARD_SHARE_SENTENCES": "false"})
"""Yields the given address of a running server, or the address of a new private server.

The commands send the same sentences again and again. If equal sentences are in progress together, a
server with default settings computes only one of them. A private server computes all of them.
"""

app = typer.Typer(
    name="bench",
    help="Measure a server through HTTP.",
    no_args_is_help=True,
    add_completion=False,  # the command `regard` has it
)

_LINES = typer.Option(exists=True, dir_okay=False, help="file with one sentence per line")
_PAIR = typer.Option(help="source and target language, such as en-pt")
_URL = typer.Option(
    envvar="REGARD_URL", help="address of a running server; without it, a server is started"
)
_JSON = typer.Option("--json", help="print one JSON object, not a table")
_SPLIT = typer.Option("--split/--no-split", help="let the server split lines into sentences")


def command(run: Callable[..., None]) -> Callable[..., None]:
    """Registers a command, which prints the message of an error and ends with status 1."""

    @wraps(run)
    def wrapped(*args: Any, **options: Any) -> None:
        try:
            run(*args, **options)
        except (BenchError, ServerStartError, OSError) as error:
            Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
            raise typer.Exit(1) from error

    return app.command()(wrapped)


@command
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
    clients: Annotated[int, typer.Option(min=1, help="requests in progress at a time")] = 1,
    split: Annotated[bool, _SPLIT] = False,
    output: Annotated[Path | None, typer.Option(help="file to write the translations to")] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Translate a file over HTTP and score it with sacreBLEU (BLEU 13a and chrF).

    By default the model translates each line as one sentence. With --split the server first splits
    each line into sentences, and the scores also depend on this splitting.
    """
    lists = in_lists(read_lines(source), batch)
    scorer = Scorer(read_parallel(source, reference))
    others = None if other is None else read_parallel(source, other)
    with _server(url) as base_url:
        address = Address.parse(base_url)
        began = perf_counter()
        translations = uvloop.run(translate(address, pair, lists, split, clients))
        seconds = perf_counter() - began
    report = scorer.report(pair, translations, seconds, others)
    _show(report, tables.quality_table(report), as_json)
    if output is not None:
        lines = [translation.replace("\n", " ") for translation in translations]
        output.write_text("\n".join([*lines, ""]), "utf-8")


@command
def consistency(
    source: Annotated[Path, _LINES],
    pair: Annotated[str, _PAIR] = "en-pt",
    clients: Annotated[int, typer.Option(min=1, help="clients that send at random times")] = 32,
    url: Annotated[str | None, _URL] = None,
    seed: Annotated[int, typer.Option(help="seed of the order of the lines and of the pauses")] = 0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Check that a text gets the same translation alone, in a list and during other requests.

    The model translates each line as one sentence. Exits with 1 if translations of a line differ.
    """
    sentences = read_lines(source)
    with _server(url) as base_url:
        report = uvloop.run(run_consistency(base_url, pair, sentences, clients, seed))
    _show(report, tables.consistency_table(report), as_json)
    if report.lists_differ or report.clients_differ:
        raise typer.Exit(1)


@command
def fidelity(
    source: Annotated[Path | None, _LINES] = None,
    pair: Annotated[str, _PAIR] = "en-pt",
    mixed: Annotated[int, typer.Option(min=0, help="number of sentences with mixed spans")] = 1000,
    url: Annotated[str | None, _URL] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Count the placeholders that come back whole, by kind.

    Each kind is in four English sentences, which are translated to Portuguese. In addition, one to
    four placeholders are put at random places of sentences of a file or of built-in sentences.
    """
    sentences = sentences_of(source, pair)
    with _server(url) as base_url:
        report = uvloop.run(run_fidelity(base_url, pair, sentences, mixed))
    _show(report, tables.fidelity_table(report), as_json)


@command
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
    """Measure throughput and latency with clients that send one sentence after the other.

    Exits with 1 if a request fails, or if no sentence finishes in a run.
    """
    counts = parse_clients(clients)
    sentences = sentences_of(source, pair)
    with _server(url) as base_url:
        runs = [
            uvloop.run(run_load(base_url, pair, sentences, count, warmup, duration))
            for count in counts
        ]
    reports = with_ratios(runs)
    _show({"pair": pair, "runs": reports}, tables.load_table(reports), as_json)
    if any(report.errors or not report.sentences for report in reports):
        raise typer.Exit(1)


@command
def attention(  # noqa: PLR0913 - one parameter is one flag
    clients: Annotated[int, typer.Option(min=1, help="clients that translate")] = 16,
    tokens: Annotated[
        int, typer.Option(min=2, help="minimum number of tokens in the text sent for attention")
    ] = 100,
    knockouts: Annotated[
        int, typer.Option(min=0, help="knock-outs in each request; 0 asks for attention values")
    ] = 0,
    rounds: Annotated[
        int,
        typer.Option(
            min=1, help="rounds; each has two periods (windows): without attention, then with it"
        ),
    ] = 3,
    duration: Annotated[float, typer.Option(min=0.1, help="measured seconds per window")] = 10.0,
    source: Annotated[Path | None, _LINES] = None,
    pair: Annotated[str, _PAIR] = "en-pt",
    url: Annotated[str | None, _URL] = None,
    limit: Annotated[
        float,
        typer.Option(help="largest accepted ratio: p99 with attention, divided by p99 without it"),
    ] = 1.5,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Measure how much slower translations are while another client requests attention.

    This client requests the attention of all layers and heads for one text, in a loop. With
    --knockouts, it requests this number of knock-outs of the text instead. Each knock-out switches
    off one source word. Exits with 1 if the ratio of p99 is above --limit, or if a request fails
    while attention is requested.
    """
    sentences = sentences_of(source, pair)
    with _server(url) as base_url:
        report = run_attention(
            base_url, pair, sentences, clients, tokens, rounds, duration, knockouts
        )
    _show(report, tables.attention_table(report), as_json)
    failed = any(asked.errors for asked in report.asked)
    if failed or report.p99_ratio > limit or any(run.errors for run in report.beside):
        raise typer.Exit(1)


@command
def mixed(  # noqa: PLR0913 - one parameter is one flag
    translating: Annotated[int, typer.Option(min=0, help="clients that translate")] = 4,
    short: Annotated[int, typer.Option(min=1, help="clients that embed short texts")] = 4,
    long: Annotated[int, typer.Option(min=1, help="clients that embed long texts")] = 2,
    asking: Annotated[int, typer.Option(min=0, help="clients that request attention")] = 1,
    tokens: Annotated[int, typer.Option(min=64, help="number of tokens of the longest text")] = 400,
    long_model: Annotated[
        str | None, typer.Option(help="model for long texts; by default, the first embedding model")
    ] = None,
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
        float,
        typer.Option(help="largest accepted ratio of p99 with long texts to p99 without them"),
    ] = 3.0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Measure how much slower short texts are embedded while other clients embed long texts.

    Other clients translate and request attention all the time. The run has periods, called windows.
    Long texts are sent only in every second window. Short texts have 8 to 30 tokens, and long texts
    have up to --tokens. A line on standard error reports the progress about once a minute. Exits
    with 1 if the ratio of p99 of short texts is above --limit, or if a client gets an error.
    """
    clients = Clients(translating, short, long, asking, long_model)
    number = num_rounds(duration, rounds)
    sentences = sentences_of(source, pair)
    with _server(url) as base_url:
        report = run_mixed(
            base_url, pair, sentences, clients, tokens, duration, number, _show_interval
        )
    _show(report, tables.mixed_table(report), as_json)
    if report.errors or report.p99_ratio > limit:
        raise typer.Exit(1)


@command
def alignment(
    source: Annotated[Path, _LINES],
    pair: Annotated[str, _PAIR] = "en-pt",
    lines: Annotated[int, typer.Option(min=1, help="number of lines to use, from the first")] = 200,
    batch: Annotated[int, typer.Option(min=1, help="sentences per request")] = 32,
    url: Annotated[str | None, _URL] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Measure how many equal numerals and words of a line and its translation are aligned.

    False friends are words with the same spelling but different meanings in the two languages. The
    command counts false friends separately; none of them should be aligned.
    """
    sentences = read_lines(source)[:lines]
    with _server(url) as base_url:
        report = uvloop.run(run_alignment(base_url, pair, sentences, batch))
    _show(report, tables.alignment_table(report), as_json)


@command
def detachment(
    source: Annotated[Path, _LINES],
    reference: Annotated[Path, _LINES],
    pair: Annotated[str, _PAIR] = "en-pt",
    batch: Annotated[int, typer.Option(min=1, help="sentences per request")] = 32,
    url: Annotated[str | None, _URL] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Measure how well the detachment score distinguishes shuffled pairs of lines from true pairs.

    A true pair is a line of --source and the line of --reference with the same number. A shuffled
    pair has another line of --reference. A high score is a sign of an unrelated translation.
    """
    sentences, translations = read_lines(source), read_parallel(source, reference)
    with _server(url) as base_url:
        report = uvloop.run(run_detachment(base_url, pair, sentences, translations, batch))
    _show(report, tables.detachment_table(report), as_json)


@command
def bulk(  # noqa: PLR0913 - one parameter is one flag
    clients: Annotated[int, typer.Option(min=1, help="clients that send single sentences")] = 8,
    lists: Annotated[int, typer.Option(min=0, help="clients that send lists")] = 4,
    size: Annotated[int, typer.Option(min=1, help="sentences in a list")] = 2048,
    rounds: Annotated[
        int, typer.Option(min=1, help="rounds; each is a window without lists, then one with them")
    ] = 2,
    duration: Annotated[float, typer.Option(min=0.1, help="measured seconds per window")] = 15.0,
    source: Annotated[Path | None, _LINES] = None,
    pair: Annotated[str, _PAIR] = "en-pt",
    url: Annotated[str | None, _URL] = None,
    limit: Annotated[
        float, typer.Option(help="largest accepted ratio of p99 with lists to p99 without lists")
    ] = 3.0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Measure how much slower single sentences are while other clients send long lists.

    The run has periods, called windows. Lists are sent only in every second window. In these
    windows, one more client sends lists of 1000 sentences. Exits with 1 if the ratio of p99 is
    above --limit, or if a request with a single sentence fails.
    """
    sentences = sentences_of(source, pair)
    with _server(url) as base_url:
        report = uvloop.run(
            run_bulk(base_url, pair, sentences, clients, lists, size, rounds, duration)
        )
    _show(report, tables.bulk_table(report), as_json)
    if report.p99_ratio > limit or any(run.errors for run in report.beside):
        raise typer.Exit(1)


@command
def overload(
    offered: Annotated[
        str, typer.Option(help="request rates, as multiples of the capacity")
    ] = "0.5,1,2,3",
    deadlines: Annotated[str, typer.Option(help="deadlines of the requests in seconds")] = "1,5,60",
    rounds: Annotated[int, typer.Option(min=1, help="runs of each rate; medians are shown")] = 1,
    duration: Annotated[float, typer.Option(min=0.1, help="measured seconds of each run")] = 10.0,
    source: Annotated[Path | None, _LINES] = None,
    pair: Annotated[str, _PAIR] = "en-pt",
    url: Annotated[str | None, _URL] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Measure a server that receives more requests than it can compute.

    Requests are sent at fixed times, each with a deadline. The capacity is measured first. Goodput
    is the number of translations per second that arrive in time. Exits with 1 if,
    for any deadline, goodput at the highest offered rate is below 90 % of its largest value.
    """
    sentences = sentences_of(source, pair)
    factors, limits = parse_numbers(offered), parse_numbers(deadlines)
    with _server(url) as base_url:
        report = uvloop.run(
            run_overload(base_url, pair, sentences, factors, limits, rounds, duration, _show_run)
        )
    _show(report, tables.overload_table(report), as_json)
    worst = [run for run in report.runs if run.factor == max(factors)]
    if any(run.share_of_peak < SMALLEST_SHARE for run in worst):
        raise typer.Exit(1)


def _show_run(run: OverloadRun) -> None:
    typer.echo(
        f"deadline {run.deadline_seconds:g} s, {run.factor:g} x: "
        f"{run.in_time_per_second:.0f} in time per second, {run.refused} refused",
        err=True,
    )


def _show(report: object, table: RenderableType, as_json: bool) -> None:
    if as_json:
        typer.echo(orjson.dumps(report).decode())
    else:
        Console().print(table)


def _show_interval(each: Interval) -> None:
    p99s = f"{tables.figure(each.alone_p99_ms)} and {tables.figure(each.beside_p99_ms)} ms"
    typer.echo(
        f"{each.seconds:.0f} s: {each.requests} requests, p99 of short embeddings {p99s} "
        f"(without and with long embeddings), {each.errors} errors, {each.memory_mib:.0f} MiB",
        err=True,
    )
