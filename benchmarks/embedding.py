"""Section "embed": embeds a file of sentences without HTTP, all at once and one at a time.

The contestants are Regard, sentence-transformers and OpenVINO, each in several settings. The
section compares the vectors of each contestant with Regard's float32 vectors. It reports the mean
cosine, the least cosine and the largest difference of a component. With `--sts` it also computes
the cosine of the two sentences of each pair in a file. Then it reports Spearman's correlation of
these cosines with human scores.
"""

import csv
import sys
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import environments, report
from benchmarks.engines import Contestant, Engine, Prepare
from benchmarks.environments import WORK, MissingError
from benchmarks.options import Options
from benchmarks.peers import vectors
from benchmarks.peers.protocol import read_lines
from benchmarks.report import OURS, Result, Sample
from benchmarks.throughput import chosen
from model.checkpoints.families.sentence_transformers import EmbeddingFiles, find_embedding_models
from model.errors import CheckpointError

FLOAT32 = f"{OURS}-float32"
PEER = "sentence-transformers"
MODULES = {PEER: "sentence_transformers", "openvino": "openvino"}
"""The peers, and their modules in `benchmarks.peers`."""
BEST = "best peer in bfloat16"
BATCHES = (32, 64, 128)
TOLERANCE = 1e-5
"""Allowed difference of a component between Regard's float32 vectors and the peer's."""
SINGLES = 100
RATE = "sentences_per_second"
ALL, ONE = "all at once", "one at a time"

Vectors = NDArray[np.float64]


def measure(options: Options) -> Result:
    """Measures the cases ALL and ONE, and the quality of the vectors."""
    find_model(options)
    result = Result("embed", facts={"model": options.embedding_model})
    lines = [line for line in read_lines(str(options.source)) if line.strip()]
    result.facts["sentences"] = len(lines)
    sources = {ALL: write_lines("all", lines), ONE: write_lines("one", lines[:SINGLES])}
    for case, source in sources.items():
        _measure_case(options, case, source, result)
    return result


def _measure_case(options: Options, case: str, source: Path, result: Result) -> None:
    """Measures all engines in turn, round by round. Each engine first runs once as a warm-up."""
    engines = result.started(Engine, contestants(options, case, source), options)
    num_sentences = len(read_lines(str(source)))
    try:
        for engine in engines:
            engine.run()
        for turn in range(1, options.rounds + 1):
            for engine in engines:
                figures = engine.figures(num_sentences)
                result.add(engine.contestant.name, case, turn, figures)
        if case == ALL:
            _compare(engines, result)
    finally:
        for engine in engines:
            engine.stop()
    if case == ALL and options.sts:
        _score(options, [engine.contestant.name for engine in engines], result)


def contestants(options: Options, case: str, source: Path) -> dict[str, Prepare]:
    """Maps the name of each contestant to the function that prepares it.

    The contestants are Regard with `--dtype`, Regard in float32, and the peers that `--peers`
    chooses.
    """
    is_single = case == ONE
    found: dict[str, Prepare] = {
        name: partial(ours, source=source, name=name, dtype=dtype, is_single=is_single)
        for name, dtype in ((OURS, options.dtype), (FLOAT32, "float32"))
    }
    peers: dict[str, Prepare] = {}
    for dtype, sizes in (("bfloat16", BATCHES), ("float32", BATCHES[:1])):
        for program in MODULES:
            for size in (1,) if is_single else sizes:
                name = f"{program}-{dtype}" if is_single else f"{program}-{dtype}-{size}"
                peers[name] = partial(peer, program, source, name, dtype, size)
    return found | chosen(peers, options)


def ours(options: Options, source: Path, name: str, dtype: str, is_single: bool) -> Contestant:
    """Describes Regard with `--workers` processes, or with one process if `is_single` is True."""
    arguments = {
        "--source": str(source),
        "--embed": options.embedding_model,
        "--dtype": dtype,
        "--workers": "1" if is_single else str(options.workers),
    }
    words = [word for pair in arguments.items() for word in pair]
    command = [sys.executable, "-m", "benchmarks.ours", *words]
    environment = {"OMP_NUM_THREADS": "1"}
    return Contestant(name, [*command, *["--one"] * is_single], environment=environment)


def peer(
    program: str, source: Path, name: str, dtype: str, size: int, options: Options
) -> Contestant:
    """Describes a peer with `--workers` threads."""
    python = environments.peer_python(program, with_project_packages=True)
    arguments = source, find_model(options).folder, dtype, size, options.workers
    command = [python, "-m", f"benchmarks.peers.{MODULES[program]}", *map(str, arguments)]
    return Contestant(name, command, environment={"HF_HUB_OFFLINE": "1"})


def find_model(options: Options) -> EmbeddingFiles:
    """Finds the files of the embedding model."""
    try:
        return find_embedding_models(options.embedding_model)[0]
    except CheckpointError as error:
        raise MissingError(str(error)) from error


def write_lines(name: str, lines: list[str]) -> Path:
    """Writes a file of sentences that engines read, and returns its path."""
    path = WORK / "work" / f"embed-{name}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def _compare(engines: list[Engine], result: Result) -> None:
    found = {engine.contestant.name: vectors.unpack(engine.outputs()) for engine in engines}
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


def _score(options: Options, names: list[str], result: Result) -> None:
    """Scores the contestants in `names` on the sentence pairs of `--sts`.

    The score is Spearman's correlation of the cosines with the human scores, times 100.
    """
    assert options.sts
    with options.sts.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    source = write_lines("sts", [" ".join(row[i].split()) for i in (0, 1) for row in rows])
    for name, prepare in contestants(options, ALL, source).items():
        if name in names:
            engine = Engine(prepare(options))
            engine.run()
            embedded = vectors.unpack(engine.outputs())
            engine.stop()
            cosines = (embedded[: len(rows)] * embedded[len(rows) :]).sum(axis=1)
            scores = np.array([float(row[2]) for row in rows])
            result.scores[name] = 100 * spearman(cosines, scores)


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
    rates: dict[str, float] = {}
    for program in MODULES:
        name = report.best_of(result, case, RATE, f"{program}-bfloat16")
        if name and (rate := report.spread(result, name, case, RATE)):
            rates[name] = rate.median
    return max(rates, key=rates.__getitem__, default="")


def table(result: Result, _options: Options) -> str:
    """Returns a table with a row for each case and contestant.

    A line below it states whether Regard's float32 vectors differ from the peer's float32 vectors
    by less than TOLERANCE.
    """
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
        "mean cosine": (fixed, "mean_cosine"),
        "least": (fixed, "least_cosine"),
        "largest difference": (scientific, "largest_difference"),
        "Spearman": (correlation, ""),
    }
    rows = report.comparison(result, RATE, lambda case: best_peer(result, case), columns)
    return report.markdown(["case", "engine", "sentences/s", f"× {BEST}", *columns], rows)


def fixed(result: Result, name: str, case: str, figure: str) -> str:
    found = report.spread(result, name, case, figure)
    return f"{found.median:.5f}" if found else "–"


def scientific(result: Result, name: str, case: str, figure: str) -> str:
    found = report.spread(result, name, case, figure)
    return f"{found.median:.1e}" if found else "–"


def correlation(result: Result, name: str, case: str, _figure: str) -> str:
    return f"{result.scores[name]:.2f}" if case == ALL and name in result.scores else "–"
