"""Sections without HTTP: "offline" and "shapes".

Section "offline" translates a file of sentences with each engine, by default on all cores. Section
"shapes" translates in int8 with random weights in the shapes of OPUS-MT and NLLB-600M. Each source
and each target has 30 tokens. "All at once" uses all cores. "Alone" translates one sentence after
the other on one core.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from benchmarks import report
from benchmarks.contestants import (
    bergamot,
    chosen,
    ctranslate2,
    fxtranslate,
    our_shape,
    our_translator,
)
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines
from benchmarks.processes import Engine, Prepare, running
from benchmarks.random_weights import CASES
from benchmarks.report import OURS, Result

RATE = "sentences_per_second"


def measure_engines(
    prepares: Mapping[str, Prepare],
    case: str,
    num_sentences: int,
    options: Options,
    result: Result,
    on_end: Callable[[list[Engine]], None] = lambda engines: None,
) -> None:
    """Measures all engines in turn, round by round. Each engine first runs once as a warm-up."""
    with running(Engine, prepares, options, result) as engines:
        for engine in engines:
            engine.run()
        for turn in range(1, options.rounds + 1):
            for engine in engines:
                result.add(engine.name, case, turn, engine.figures(num_sentences))
        on_end(engines)


def measure_offline(options: Options) -> Result:
    result = Result("offline")
    lines, references = read_lines(str(options.source)), read_lines(str(options.reference))
    result.facts["sentences"] = len(lines)

    def score(engines: list[Engine]) -> None:
        for engine in engines:
            result.scores[engine.name] = report.bleu(engine.outputs(), references)

    peers = {"bergamot": bergamot, "fxtranslate": fxtranslate}
    prepares = {OURS: our_translator, **chosen(peers, options)}
    measure_engines(prepares, "offline", len(lines), options, result, score)
    return result


def offline_table(result: Result, options: Options) -> str:
    against = options.against or "bergamot"
    columns: report.Columns = {
        "CPU s per 1,000": "cpu_seconds_per_1000",
        "PSS MiB": "pss_mib",
        "BLEU": (report.score, ""),
    }
    rows = report.comparison(result, RATE, lambda _: against, columns)
    headings = ["engine", "sentences/s", f"× {against}", *columns]
    return report.markdown(headings, [row[1:] for row in rows])


@dataclass(frozen=True)
class Case:
    """A shape of random weights, and the number of sentences of a run."""

    shape: str
    sentences: int
    is_alone: bool = False  # whether each sentence is translated alone, on one core

    @property
    def name(self) -> str:
        return f"{self.shape}, {'alone' if self.is_alone else 'all at once'}"

    def prepares(self, options: Options) -> dict[str, Prepare]:
        workers, rows = (1, 1) if self.is_alone else (options.workers, 64)
        sizes = (CASES[self.shape], self.sentences, workers)
        batches = (1,) if self.is_alone else (16, 32)
        peers = {f"ctranslate2-{size}": partial(ctranslate2, *sizes, size) for size in batches}
        return {OURS: partial(our_shape, *sizes, rows), **peers}


SHAPES = (
    Case("opus-mt", 256),
    Case("opus-mt", 16, is_alone=True),
    Case("nllb-600m", 64),
    Case("nllb-600m", 4, is_alone=True),
)


def measure_shapes(options: Options) -> Result:
    result = Result("shapes", facts={"tokens in and out": CASES[SHAPES[0].shape].tokens})
    for case in SHAPES:
        measure_engines(case.prepares(options), case.name, case.sentences, options, result)
    return result


def shapes_table(result: Result, _options: Options) -> str:
    columns: report.Columns = {"CPU s per 1,000": "cpu_seconds_per_1000"}

    def against(case: str) -> str:
        return report.best_of(result, case, RATE, "ctranslate2")

    rows = report.comparison(result, RATE, against, columns)
    headings = ["case", "engine", "sentences/s", "× best ctranslate2", *columns]
    return report.markdown(headings, rows)
