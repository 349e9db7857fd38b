"""Runs the benchmarks: `python -m benchmarks.run --source en.txt --reference pt.txt`.

`make bench` runs this command. The benchmarks have sections, such as `http`. Each section measures
one task and makes one table.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import embedding, environments, gpu, growth, http, report, throughput
from benchmarks import options as command_line
from benchmarks.environments import ROOT, WORK, MissingError
from benchmarks.options import Options
from benchmarks.report import Result

RESULTS = WORK / "results"


@dataclass(frozen=True)
class Section:
    """Functions that measure a section and make its table."""

    measure: Callable[[Options], Result]  # function that measures the section
    table: Callable[[Result, Options], str]  # function that formats its result
    has_picture: bool = False  # whether `benchmarks.plots` can plot the result


SECTIONS = {
    "offline": Section(throughput.measure_offline, throughput.offline_table),
    "generate": Section(throughput.measure_generate, lambda result, _: gpu.table(result)),
    "shapes": Section(throughput.measure_shapes, throughput.shapes_table),
    "shapes-http": Section(http.measure_shapes, http.shapes_table),
    "http": Section(http.measure_http, http.http_table, has_picture=True),
    "start": Section(http.measure_start, http.start_table),
    "growth": Section(growth.measure, growth.table, has_picture=True),
    "embed": Section(embedding.measure, embedding.table),
    "embed-http": Section(http.measure_embeddings, http.embeddings_table),
}


def main() -> None:
    options = command_line.parse()
    if options.write:
        check_markers(options.write, options.only)
    failed = False
    for name in options.only:
        print(f"== {name}", file=sys.stderr)
        try:
            result = SECTIONS[name].measure(options)
        except MissingError as error:
            print(f"{name} was not measured: {error}", file=sys.stderr)
            failed = True
            continue
        finish(name, result, options)
    if failed:
        raise SystemExit(1)


def finish(name: str, result: Result, options: Options) -> None:
    """Saves a section's result, prints its table, and writes the table to the file of `--write`."""
    result.facts = {**report.machine(), **result.facts, "rounds": options.rounds}
    saved = report.save(result, RESULTS)
    block = show(result, SECTIONS[name].table(result, options))
    print(f"\n## {name}\n\n{block}\n\n(all samples: {saved})", flush=True)
    folder = options.write.parent / "images" if options.write else RESULTS
    has_picture = SECTIONS[name].has_picture and draw(name, folder)
    if options.write:
        picture = f"\n\n![{name}](images/{name}.svg)" if has_picture else ""
        text = options.write.read_text("utf-8")
        options.write.write_text(report.replace_marked(text, name, block + picture), "utf-8")


def show(result: Result, table: str) -> str:
    notes = "".join(f"\n\nNote: {note}." for note in result.notes)
    return f"{table}\n\n{report.conditions(result.facts)}.{notes}"


def draw(name: str, folder: Path) -> bool:
    try:
        python = environments.peer_python("plots")
    except MissingError as error:
        print(f"{name} has no plot: {error}", file=sys.stderr)
        return False
    command = [python, "-m", "benchmarks.plots", str(RESULTS), str(folder.resolve()), name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} has no plot: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    else:
        print(f"(plot: {folder / name}.svg)")
    return done.returncode == 0


def check_markers(path: Path, names: tuple[str, ...]) -> None:
    """Checks, before anything is measured, that the tables can be written."""
    try:
        text = path.read_text("utf-8")
        for name in names:
            report.replace_marked(text, name, "")
    except (OSError, ValueError) as error:
        raise SystemExit(f"--write {path}: {error}") from error


if __name__ == "__main__":
    main()
