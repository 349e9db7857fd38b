"""Runs the benchmarks: `python -m benchmarks.run --source en.txt --reference pt.txt`.

`make bench` runs this command. The benchmarks have sections, such as `http`. Each section measures
one task and makes one table.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import embedding, http, report, throughput
from benchmarks import options as command_line
from benchmarks.environments import WORK, MissingError
from benchmarks.options import Options
from benchmarks.report import Result

RESULTS = WORK / "results"


Section = tuple[Callable[[Options], Result], Callable[[Result, Options], str]]
"""The function that measures a section, and the function that makes its table."""

SECTIONS: dict[str, Section] = {
    "offline": (throughput.measure_offline, throughput.offline_table),
    "shapes": (throughput.measure_shapes, throughput.shapes_table),
    "http": (http.measure_http, http.http_table),
    "embed": (embedding.measure, embedding.table),
    "embed-http": (http.measure_embeddings, http.embeddings_table),
}


def main() -> None:
    options = command_line.parse()
    if options.write:
        check_markers(options.write, options.only)
    failed = False
    for name in options.only:
        print(f"== {name}", file=sys.stderr)
        try:
            result = SECTIONS[name][0](options)
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
    block = show(result, SECTIONS[name][1](result, options))
    print(f"\n## {name}\n\n{block}\n\n(all samples: {saved})", flush=True)
    if options.write:
        text = options.write.read_text("utf-8")
        options.write.write_text(report.replace_marked(text, name, block), "utf-8")


def show(result: Result, table: str) -> str:
    notes = "".join(f"\n\nNote: {note}." for note in result.notes)
    return f"{table}\n\n{report.conditions(result.facts)}.{notes}"


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
