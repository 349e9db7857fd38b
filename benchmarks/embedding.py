"""Section "embed": embeds a file of sentences without HTTP, all at once and one at a time.

The contestants are Regard, sentence-transformers, OpenVINO and ONNX Runtime, each in several
settings. The section compares the vectors of each contestant with Regard's float32 vectors. It
reports the mean cosine, the least cosine and the largest difference of a component. With `--sts` it
also computes the cosine of the two sentences of each pair in a file. Then it reports Spearman's
correlation of these cosines with human scores.
"""

import csv
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import report
from benchmarks.contestants import (
    EMBEDDERS,
    chosen,
    embedder,
    find_embedding_model,
    our_embedder,
)
from benchmarks.files import write_work_file
from benchmarks.options import Options
from benchmarks.peers import vectors
from benchmarks.peers.protocol import read_lines
from benchmarks.processes import Engine, Prepare, running
from benchmarks.report import OURS, Result, Sample
from benchmarks.throughput import RATE, measure_engines

FLOAT32 = f"{OURS}-float32"
PEER = "sentence-transformers"
BEST = "best peer in bfloat16"
BATCHES = (32, 64, 128, 8)
TOLERANCE = 1e-5
"""Allowed difference of a component between Regard's float32 vectors and the peer's."""
SINGLES = 100
ALL, ONE = "all at once", "one at a time"

Vectors = NDArray[np.float64]


def measure(options: Options) -> Result:
    find_embedding_model(options)
    result = Result("embed", facts={"model": options.embedding_model})
    lines = [line for line in read_lines(str(options.source)) if line.strip()]
    result.facts["sentences"] = len(lines)
    everything, singles = contestants(options, ALL, write_lines("all", lines)), lines[:SINGLES]
    compare = partial(_compare, result)
    measure_engines(everything, ALL, len(lines), options, result, compare)
    if options.sts:
        _score(options, options.sts, result)
    one = contestants(options, ONE, write_lines("one", singles))
    measure_engines(one, ONE, len(singles), options, result)
    return result


def contestants(options: Options, case: str, source: Path) -> dict[str, Prepare]:
    """Returns Regard with `--dtype`, Regard in float32, and the chosen peers."""
    is_single = case == ONE
    found: dict[str, Prepare] = {
        name: partial(our_embedder, name, source, dtype, is_single)
        for name, dtype in ((OURS, options.dtype), (FLOAT32, "float32"))
    }
    peers: dict[str, Prepare] = {}
    for program, dtypes in EMBEDDERS.items():
        for dtype in dtypes:
            sizes = BATCHES[:1] if dtype == "float32" else BATCHES
            for size in (1,) if is_single else sizes:
                name = f"{program}-{dtype}" if is_single else f"{program}-{dtype}-{size}"
                peers[name] = partial(embedder, program, name, source, dtype, size)
    return found | chosen(peers, options)


def write_lines(name: str, lines: list[str]) -> Path:
    return write_work_file(f"embed-{name}.txt", "".join(f"{line}\n" for line in lines))


def _compare(result: Result, engines: list[Engine]) -> None:
    found = {engine.name: vectors.unpack(engine.outputs()) for engine in engines}
    for name, each in found.items():
        result.samples.append(Sample(name, ALL, 0, compared(each, found[FLOAT32])))


def compared(found: Vectors, ours: Vectors) -> dict[str, float]:
    """Returns the deviation of unit vectors (B, E) from Regard's float32 vectors."""
    cosines = (found * ours).sum(axis=1)
    return {
        "mean_cosine": float(cosines.mean()),
        "least_cosine": float(cosines.min()),
        "largest_difference": float(np.abs(found - ours).max()),
    }


def _score(options: Options, path: Path, result: Result) -> None:
    """Scores the measured contestants on the sentence pairs of `--sts`.

    The score is Spearman's correlation of the cosines with the human scores, times 100.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    human = np.array([float(row[2]) for row in rows])
    source = write_lines("sts", [" ".join(row[i].split()) for i in (0, 1) for row in rows])
    measured = {name for case, name in report.cases(result) if case == ALL}
    for name, prepare in contestants(options, ALL, source).items():
        if name in measured:
            with running(Engine, {name: prepare}, options, result) as (engine,):
                engine.run()
                embedded = vectors.unpack(engine.outputs())
            cosines = (embedded[: len(rows)] * embedded[len(rows) :]).sum(axis=1)
            result.scores[name] = 100 * spearman(cosines, human)


def spearman(a: Vectors, b: Vectors) -> float:
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def ranks(values: Vectors) -> Vectors:
    """Returns the rank of each value, from 0; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: Vectors = ends - (counts + 1) / 2
    return means[places]


def best_peer(result: Result, case: str) -> str:
    """Returns the name of the fastest bfloat16 peer in a case, or "" if there is none."""
    return report.best_of(result, case, RATE, *(f"{program}-bfloat16" for program in EMBEDDERS))


def table(result: Result, _options: Options) -> str:
    return "\n\n".join([_rows(result), *_verdict(result)])


def _verdict(result: Result) -> list[str]:
    for case, name in report.cases(result):
        if case == ALL and name.startswith(f"{PEER}-float32"):
            found = report.spread(result, name, case, "largest_difference")
            if found:
                outcome = "" if found.high < TOLERANCE else ": IT IS NOT"
                bound = f"must be below {TOLERANCE:.0e}{outcome}"
                return [f"{FLOAT32} and {name}: largest difference {found.high:.1e} ({bound})."]
    return []


def _rows(result: Result) -> str:
    columns: report.Columns = {
        "ms a sentence": "milliseconds",
        "CPU s per 1,000": "cpu_seconds_per_1000",
        "PSS MiB": "pss_mib",
        "mean cosine": (report.formatted(".5f"), "mean_cosine"),
        "least": (report.formatted(".5f"), "least_cosine"),
        "largest difference": (report.formatted(".1e"), "largest_difference"),
        "Spearman": (correlation, ""),
    }
    rows = report.comparison(result, RATE, lambda case: best_peer(result, case), columns)
    return report.markdown(["case", "engine", "sentences/s", f"× {BEST}", *columns], rows)


def correlation(result: Result, name: str, case: str, figure: str) -> str:
    return report.score(result, name, case, figure) if case == ALL else "–"
