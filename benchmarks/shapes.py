"""Section "shapes": translates in int8 with random weights in the shapes of OPUS-MT and NLLB-600M.

The contestants are Regard and CTranslate2, without HTTP. Each source and each target has 30 tokens.
"All at once" uses all cores. "Alone" translates one sentence after the other on one core.
"""

import json
import sys
from dataclasses import asdict, dataclass

from benchmarks import report
from benchmarks.engines import OURS, Contestant, Engine, ctranslate2_python
from benchmarks.environments import WORK, MissingError
from benchmarks.options import Options
from benchmarks.random_weights import CASES
from benchmarks.report import Result, Sample

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
                run = engine.run()
                figures = {
                    "sentences_per_second": case.sentences / run.seconds,
                    "cpu_seconds_per_1000": 1000 * run.cpu_seconds / case.sentences,
                }
                name = engine.contestant.name
                print(f"  round {turn} {case.name} {name}: {figures}", file=sys.stderr)
                result.samples.append(Sample(name, case.name, turn, figures))
    finally:
        for engine in engines:
            engine.stop()


def contestants(case: Case, options: Options, result: Result) -> list[Contestant]:
    """Describes Regard, and CTranslate2 with each batch size."""
    workers = 1 if case.is_alone else options.workers
    rows = 1 if case.is_alone else 64
    words = [case.shape, "--workers", workers, "--rows", rows, "--sentences", case.sentences]
    command = [sys.executable, "-m", "benchmarks.ours_shape", *map(str, words)]
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
    """Returns a table with a row for each case and contestant."""
    headings = ["case", "engine", "sentences/s", f"× best {PEER}", "CPU s per 1,000"]
    rows = []
    for case, name in report.cases(result):
        rate = report.spread(result, name, case, "sentences_per_second")
        cpu = report.spread(result, name, case, "cpu_seconds_per_1000")
        best = best_peer(result, case)
        quotient = report.ratio(result, name, case, "sentences_per_second", best) if best else None
        rows.append(
            [
                case,
                f"**{name}**" if name == OURS else name,
                report.ranged(rate),
                report.number(quotient),
                report.number(cpu.median if cpu else None),
            ]
        )
    return report.markdown(headings, rows)


def best_peer(result: Result, case: str) -> str | None:
    """Returns the peer with the highest median rate in a case; None if there is no peer."""
    rates = {
        name: spread.median
        for other, name in report.cases(result)
        if other == case and name != OURS
        if (spread := report.spread(result, name, case, "sentences_per_second"))
    }
    return max(rates, key=rates.__getitem__, default=None)
