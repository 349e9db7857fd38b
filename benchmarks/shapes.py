"""Section "shapes": translates in int8 with random weights in the shapes of OPUS-MT and NLLB-600M.

The contestants are Regard and CTranslate2, without HTTP. Each source and each target has 30 tokens.
"All at once" uses all cores. "Alone" translates one sentence after the other on one core.
"""

import json
import sys
from dataclasses import asdict, dataclass

from benchmarks import report
from benchmarks.engines import Contestant, Engine, ctranslate2_python
from benchmarks.environments import WORK, MissingError
from benchmarks.options import Options
from benchmarks.random_weights import CASES
from benchmarks.report import OURS, Result

PEER = "ctranslate2"
BATCH_SIZES = (16, 32)


@dataclass(frozen=True)
class Case:
    """A shape, and the number of sentences of a run."""

    shape: str
    sentences: int
    is_alone: bool = False  # whether each sentence is translated alone, on one core

    @property
    def name(self) -> str:
        return f"{self.shape}, {'alone' if self.is_alone else 'all at once'}"


CHOSEN = (
    Case("opus-mt", 256),
    Case("opus-mt", 16, is_alone=True),
    Case("nllb-600m", 64),
    Case("nllb-600m", 4, is_alone=True),
)


def measure(options: Options) -> Result:
    """Measures each case with all contestants in turn, round by round."""
    result = Result("shapes")
    result.facts["tokens in and out"] = CASES[CHOSEN[0].shape].tokens
    for case in CHOSEN:
        _measure_case(case, options, result)
    return result


def _measure_case(case: Case, options: Options, result: Result) -> None:
    engines: list[Engine] = []
    try:
        for contestant in contestants(case, options, result):
            engines.append(Engine(contestant))
            engines[-1].run()
        for turn in range(1, options.rounds + 1):
            for engine in engines:
                name = engine.contestant.name
                result.add(name, case.name, turn, engine.figures(case.sentences))
    finally:
        for engine in engines:
            engine.stop()


def contestants(case: Case, options: Options, result: Result) -> list[Contestant]:
    """Describes Regard, and CTranslate2 with each batch size."""
    workers = 1 if case.is_alone else options.workers
    rows = 1 if case.is_alone else 64
    words = [case.shape, "--workers", workers, "--rows", rows, "--sentences", case.sentences]
    command = [sys.executable, "-m", "benchmarks.ours", "--shape", *map(str, words)]
    found = [Contestant(OURS, command, environment={"OMP_NUM_THREADS": "1"})]
    try:
        python = ctranslate2_python()
    except MissingError as error:
        result.notes.append(f"{PEER} was left out: {error}")
        return found
    shape, folder = json.dumps(asdict(CASES[case.shape])), WORK / "shapes" / f"{case.shape}-words"
    for size in (1,) if case.is_alone else BATCH_SIZES:
        words = [shape, folder, workers, size, case.sentences]
        module = [python, "-m", "benchmarks.peers.ctranslate2_shape"]
        found.append(Contestant(f"{PEER}-{size}", [*module, *map(str, words)]))
    return found


def table(result: Result, _options: Options) -> str:
    columns: report.Columns = {"CPU s per 1,000": "cpu_seconds_per_1000"}
    rate = "sentences_per_second"
    rows = report.comparison(result, rate, lambda case: best_peer(result, case), columns)
    headings = ["case", "engine", "sentences/s", f"× best {PEER}", *columns]
    return report.markdown(headings, rows)


def best_peer(result: Result, case: str) -> str:
    return report.best_of(result, case, "sentences_per_second", PEER)
