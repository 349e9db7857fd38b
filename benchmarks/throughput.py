"""Section "offline": translates a file of sentences with each engine, without HTTP.

A section is a part of the benchmark that `--only` selects by its name. By default, each engine uses
all cores.
"""

import sys
from collections.abc import Callable, Mapping

from benchmarks import report
from benchmarks.engines import OURS, PEERS, Contestant, Engine, ours
from benchmarks.environments import MissingError
from benchmarks.options import Options
from benchmarks.peers.protocol import read_lines
from benchmarks.report import Result, Sample

CASE = "offline"


def measure(options: Options) -> Result:
    """Measures all engines in turn, round by round. Each engine first runs once as a warm-up."""
    result = Result("offline")
    engines = start_all(options, result)
    lines = read_lines(str(options.source))
    result.facts["sentences"] = len(lines)
    try:
        for engine in engines:
            engine.run()
        for turn in range(1, options.rounds + 1):
            for engine in engines:
                result.samples.append(_turn(engine, turn, len(lines)))
        references = read_lines(str(options.reference))
        for engine in engines:
            if engine.contestant.has_text:
                name = engine.contestant.name
                result.scores[name] = report.bleu(engine.outputs(), references)
    finally:
        for engine in engines:
            engine.stop()
    return result


def _turn(engine: Engine, turn: int, num_sentences: int) -> Sample:
    run = engine.run()
    memory = engine.memory()
    figures = {
        "sentences_per_second": num_sentences / run.seconds,
        "cpu_seconds_per_1000": 1000 * run.cpu_seconds / num_sentences,
        "pss_mib": memory.pss,
    }
    print(f"  round {turn} {engine.contestant.name}: {figures}", file=sys.stderr)
    return Sample(engine.contestant.name, CASE, turn, figures)


def start_all(options: Options, result: Result) -> list[Engine]:
    """Starts Regard and the chosen peers; adds a note for each peer that cannot start."""
    engines = [Engine(ours(options))]
    for name, prepare in chosen(PEERS, options).items():
        try:
            engines.append(Engine(prepare(options)))
        except MissingError as error:
            result.notes.append(f"{name} was left out: {error}")
    return engines


def chosen(
    peers: Mapping[str, Callable[[Options], Contestant]], options: Options
) -> dict[str, Callable[[Options], Contestant]]:
    """Returns the peers whose names start with a word of `--peers`; `all` chooses every peer."""
    return {
        name: prepare
        for name, prepare in peers.items()
        if any(word == "all" or name.startswith(word) for word in options.peers)
    }


def table(result: Result, options: Options) -> str:
    """Returns a table with a row for each contestant."""
    against = options.against or "bergamot"
    headings = ["engine", "sentences/s", f"× {against}", "CPU s per 1,000", "PSS MiB", "BLEU"]
    rows = []
    for case, name in report.cases(result):
        cpu = report.spread(result, name, case, "cpu_seconds_per_1000")
        memory = report.spread(result, name, case, "pss_mib")
        quotient = report.ratio(result, name, case, "sentences_per_second", against)
        rows.append(
            [
                f"**{name}**" if name == OURS else name,
                report.ranged(report.spread(result, name, case, "sentences_per_second")),
                report.number(quotient),
                report.number(cpu.median if cpu else None),
                report.number(memory.median if memory else None),
                f"{result.scores[name]:.2f}" if name in result.scores else "–",
            ]
        )
    return report.markdown(headings, rows)
