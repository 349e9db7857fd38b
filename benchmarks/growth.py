"""Section "growth": measures how Regard's cost grows with source length, clients, and models.

A measurement lasts at most 3 s, and there are half as many rounds as in other sections. That is
enough for the shape of a curve.
"""

import itertools
import random
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import report
from benchmarks.contestants import our_server
from benchmarks.files import find_pair
from benchmarks.http import Requests, run, start_and_load
from benchmarks.load import Shape, translate_bodies
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines
from benchmarks.processes import Server, ready_server, running
from benchmarks.report import OURS, Result
from model.checkpoints.load import ModelFiles, find_models, load_vocabularies

LENGTHS = (5, 10, 20, 40, 80, 120, 160, 320, 500)
CLIENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MODELS = (1, 2, 4, 8)
LANGUAGES = ("aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh", "ii", "jj", "kk", "ll")
TEXTS = 64
BUSY_CLIENTS = 32
MAX_SECONDS = 3.0
WARMUP_SECONDS = 1.0
SENTENCE_END = re.compile(r"[.!?…:;]+")


def measure(options: Options) -> Result:
    options = replace(options, seconds=min(options.seconds, MAX_SECONDS))
    rounds = max(1, options.rounds // 2)
    result = Result("growth", facts={"seconds a point": options.seconds, "turns": rounds})
    with running(ready_server, {OURS: our_server}, options, result) as (server,):
        for turn in range(1, rounds + 1):
            by_length(server, options, turn, result)
            by_clients(server, options, turn, result)
    for turn in range(1, rounds + 1):
        by_models(options, turn, result)
    return result


def by_length(server: Server, options: Options, turn: int, result: Result) -> None:
    """Measures each source length: the latency with one client, and the rate with many clients.

    Punctuation that ends sentences is removed, so each source is a single sentence.
    """
    tokenizer = load_vocabularies(find_pair(options.models, options.pair)).source
    words = SENTENCE_END.sub(" ", " ".join(read_lines(str(options.source)))).split()
    for length in LENGTHS:
        texts = texts_of(length, words, lambda text: len(tokenizer.encode(text)), TEXTS)
        bodies = translate_bodies(texts, options.pair)
        alone = _run(server, bodies, 1, options)
        busy = _run(server, bodies, BUSY_CLIENTS, options)
        figures = {
            "tokens": sum(len(tokenizer.encode(text)) for text in texts) / len(texts),
            "pss_mib": busy["pss_mib"],
            "requests_per_second": busy["requests_per_second"],
        }
        figures["tokens_per_second"] = figures["tokens"] * figures["requests_per_second"]
        for name, point in (("alone_p50_ms", alone), ("busy_p50_ms", busy)):
            if "p50_ms" in point:
                figures[name] = point["p50_ms"]
        result.add("length", str(length), turn, figures)


def by_clients(server: Server, options: Options, turn: int, result: Result) -> None:
    """Measures the sentences of `options.source` with each number of clients in CLIENTS."""
    bodies = translate_bodies(read_lines(str(options.source)), options.pair)
    for clients in CLIENTS:
        figures = _run(server, bodies, clients, options)
        result.add("clients", str(clients), turn, figures)


def by_models(options: Options, turn: int, result: Result) -> None:
    """Measures a new server for each number of models, with requests to all of its models."""
    lines = read_lines(str(options.source))
    shape = Shape(clients=BUSY_CLIENTS, seconds=options.seconds, warmup=WARMUP_SECONDS)
    for count in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            pairs = link_models(find_models(options.models), count, Path(folder))
            named = zip(itertools.cycle(pairs), lines, strict=False)
            bodies = [translate_bodies([line], pair)[0] for pair, line in named]
            figures = start_and_load(replace(options, models=folder), bodies, shape)
        result.add("models", str(count), turn, figures)


def link_models(models: Sequence[ModelFiles], count: int, folder: Path) -> list[str]:
    """Makes model folders out of links to the models, and returns their language pairs.

    Several folders may link to the same model. Each folder has an invented language pair of its
    own. The server loads the weights anew for each pair, even from one file. Memory therefore grows
    as with different models.
    """
    pairs: list[str] = []
    codes = itertools.permutations(LANGUAGES, 2)
    for files, (source, target) in zip(itertools.cycle(models), codes, strict=False):
        if len(pairs) == count:
            break
        model_folder = folder / f"{source}{target}"
        model_folder.mkdir()
        suffix = files.weights.name.split(".", 2)[2]
        (model_folder / f"model.{source}{target}.{suffix}").symlink_to(files.weights)
        others = [files.shortlist, *files.weights.parent.glob("config*.yml")]
        others += {files.source_vocab, files.target_vocab}
        for path in filter(None, others):
            (model_folder / path.name).symlink_to(path)
        pairs.append(f"{source}-{target}")
    return pairs


def texts_of(
    length: int, words: Sequence[str], count_tokens: Callable[[str], int], num_texts: int
) -> list[str]:
    """Makes texts of whole words. Each text starts at a random word of the running text."""
    generator = random.Random(length)
    counts = {word: count_tokens(word) for word in set(words)}
    starts = [generator.randrange(len(words)) for _ in range(num_texts)]
    return [_cut(length, [*words[start:], *words[:start]], counts) for start in starts]


def _cut(length: int, words: Sequence[str], counts: dict[str, int]) -> str:
    """Joins words up to the length, and leaves out each word that does not fit."""
    taken: list[str] = []
    total = misses = 0
    for word in itertools.cycle(words):
        if total == length or misses == len(words):
            break
        fits = total + counts[word] <= length
        misses = 0 if fits else misses + 1
        if fits:
            taken.append(word)
            total += counts[word]
    return " ".join(taken)


def _run(server: Server, bodies: Sequence[str], clients: int, options: Options) -> dict[str, float]:
    return run(server, Requests(bodies), Shape(clients, options.seconds, WARMUP_SECONDS))


TABLES = {
    "length": {
        "tokens": "source tokens",
        "alone_p50_ms": "p50 ms, 1 client",
        "busy_p50_ms": f"p50 ms, {BUSY_CLIENTS} clients",
        "requests_per_second": "requests/s",
        "tokens_per_second": "source tokens/s",
        "pss_mib": "PSS MiB",
    },
    "clients": {
        "requests_per_second": "requests/s",
        "p50_ms": "p50 ms",
        "p99_ms": "p99 ms",
        "cpu_seconds_per_1000": "CPU s per 1,000",
        "rss_mib": "RSS MiB",
        "pss_mib": "PSS MiB",
        "errors": "errors",
    },
    "models": {
        "ready_seconds": "ready after s",
        "idle_rss_mib": "idle, RSS MiB",
        "idle_pss_mib": "idle, PSS MiB",
        "loaded_pss_mib": "after load, PSS MiB",
        "requests_per_second": "requests/s",
        "p50_ms": "p50 ms",
        "p99_ms": "p99 ms",
    },
}


def table(result: Result, _options: Options) -> str:
    return "\n\n".join(_table(result, name, figures) for name, figures in TABLES.items())


def _table(result: Result, name: str, figures: dict[str, str]) -> str:
    rows = []
    for case, contestant in report.cases(result):
        if contestant == name:
            rows.append([case, *(report.median(result, name, case, each) for each in figures)])
    return report.markdown([name, *figures.values()], rows)
