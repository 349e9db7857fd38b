"""The command: `python -m benchmarks.run --source en.txt --reference pt.txt`, or `make bench`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import http, report, throughput
from benchmarks import options as command_line
from benchmarks.environments import WORK, MissingError
from benchmarks.options import Options
from benchmarks.report import Result


@dataclass(frozen=True)
class Section:
    """How a section is measured and shown."""

    measure: Callable[[Options], Result]
    table: Callable[[Result, Options], str]


SECTIONS = {
    "offline": Section(throughput.measure, throughput.table),
    "http": Section(http.measure, http.table),
}


def main() -> None:
    """Runs the sections, prints their tables, and writes them where they are wanted."""
    options = command_line.parse()
    for name in options.only:
        print(f"== {name}", file=sys.stderr)
        try:
            result = SECTIONS[name].measure(options)
        except MissingError as error:
            print(f"{name} was left out: {error}", file=sys.stderr)
            continue
        result.facts = {**report.machine(), **result.facts, "rounds": options.rounds}
        saved = report.save(result, WORK / "results")
        block = show(result, SECTIONS[name].table(result, options))
        print(f"\n## {name}\n\n{block}\n\n(all samples: {saved})", flush=True)
        if options.write:
            write(options.write, name, block)


def show(result: Result, table: str) -> str:
    """A table, the conditions below it, and what was left out."""
    notes = "".join(f"\n\n{note}" for note in result.notes)
    return f"{table}\n\n{report.conditions(result.facts)}.{notes}"


def write(path: Path, name: str, block: str) -> None:
    """Puts a section's block between its markers in a Markdown file.

    Raises:
        SystemExit: The file has no such markers.
    """
    try:
        path.write_text(report.replace_marked(path.read_text("utf-8"), name, block), "utf-8")
    except ValueError as error:
        raise SystemExit(f"{path}: {error}") from error


if __name__ == "__main__":
    main()
