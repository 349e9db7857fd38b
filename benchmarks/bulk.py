"""Measures `regard bulk`: its output after kills, its rate and its memory.

    python -m benchmarks.bulk kills --source en.txt --rows 200000 --kills 20
    python -m benchmarks.bulk rate --source en.txt --rows 20000
    python -m benchmarks.bulk memory --source en.txt --sizes 10000,1000000

The rows are the lines of the source, repeated. Each repetition of a line leaves out different
words. Otherwise the engine could compute a sentence once for several equal rows.

- `kills` computes the rows twice: once without a break, and once with kills (`kill -9`) at random
  numbers of committed rows. The two outputs must have the same ids and texts.
- `rate` compares the command with the engine of the section "offline", on the same cores. The CPU
  seconds are those of the whole process tree, in the middle part of a job.
- `memory` prints the largest memory of the process tree for jobs of several sizes. The engine of
  these jobs has no model: it returns the texts in capitals.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from benchmarks import tree
from benchmarks.contestants import our_engine
from benchmarks.options import command_line
from benchmarks.processes import Contender, Contestant, Engine, ending
from service.bulk import commands
from service.bulk.folder import OutputFolder
from service.bulk.formats import Columns
from service.bulk.job import JobOptions
from service.bulk.rows import Outcome, Row
from service.settings import Settings

POLL_SECONDS = 0.1
STARTED_SHARE = 0.1
SAMPLE_SECONDS = 0.25
MEMORY_SECONDS = 1.0


class EchoEngine:
    """Returns the texts in capitals, without a model."""

    rows_in_flight = 1024

    def __init__(self, options: JobOptions, settings: Settings, cores: int) -> None:
        self.options = options

    async def start(self) -> None: ...

    async def compute(self, rows: Sequence[Row]) -> list[Outcome]:
        await asyncio.sleep(0)
        return [Outcome((row.text or "").upper()) for row in rows]

    async def stop(self) -> None: ...

    def cpu_seconds(self) -> float:
        return time.process_time()


def write_rows(source: Path, target: Path, num_rows: int, words: int) -> list[str]:
    """Writes rows to `target`, and returns them.

    If `words` is above 0, each line is first cut to that many words.
    """
    lines = [line.split() for line in source.read_text("utf-8").splitlines() if line.strip()]
    kept = [variants(line[:words] if words else line) for line in lines]
    rows = [next(kept[number % len(lines)]) for number in range(num_rows)]
    target.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return rows


def variants(words: Sequence[str]) -> Iterator[str]:
    """Yields variants of a line without end.

    The variants are first the whole line, then the line without one of its words, then the line
    without two of its words. After all combinations, the same variants follow again.
    """
    while True:
        yield " ".join(words)
        for number in (1, 2):
            for left_out in combinations(range(len(words)), number):
                yield " ".join(word for i, word in enumerate(words) if i not in left_out)


def start(args: argparse.Namespace, rows: Path, output: Path, *more: str) -> Contender:
    command = [sys.executable, "-m", "benchmarks.bulk", "job", "--source", str(rows)]
    options = ["--output", str(output), "--cpus", str(args.cpus), "--pair", args.pair]
    return Contender(Contestant("bulk", [*command, *options, *more]))


def run_job(args: argparse.Namespace) -> None:
    """Runs a job in this process, as `regard bulk` does."""
    engine = EchoEngine if args.echo else None
    layout = commands.Layout([args.source], args.output, cpus=args.cpus, engine=engine)
    source, _, target = args.pair.partition("-")
    wanted = {"result": "translation", "source": source, "target": target}
    commands.compute(layout, Columns(), wanted)


def num_done(folder: OutputFolder) -> int:
    """Returns the number of committed rows; 0 if no job has begun."""
    with contextlib.suppress(FileNotFoundError):
        if manifest := folder.manifest():
            return int(manifest["job"]["rows"])
        job = folder.recorded()
        if job is not None:
            return folder.num_rows_done(job)
    return 0


def outputs(folder: Path) -> Iterator[tuple[int, str]]:
    for path in sorted(folder.glob("part-*.jsonl")):
        for line in path.open("rb"):
            fields = json.loads(line)
            yield fields["id"], fields["translation"]


def kills(args: argparse.Namespace, folder: Path) -> None:
    """Compares the output of a job with kills and the output of a job without kills."""
    rows, whole, broken = folder / "rows.txt", folder / "whole", folder / "broken"
    write_rows(args.source, rows, args.rows, args.words)
    points = sorted(random.Random(1).sample(range(args.rows), args.kills))
    started = time.monotonic()
    command = start(args, rows, broken)
    for number, point in enumerate(points, 1):
        while (done := num_done(OutputFolder(broken))) < point:
            time.sleep(POLL_SECONDS)
        command.process.kill()
        command.process.wait()
        print(f"kill {number} at {done} rows, {time.monotonic() - started:.0f} s", flush=True)
        command = start(args, rows, broken)
    assert command.process.wait() == 0
    assert start(args, rows, whole).process.wait() == 0
    compare(args.rows, whole, broken)


def compare(num_rows: int, whole: Path, broken: Path) -> None:
    first, second = list(outputs(whole)), list(outputs(broken))
    manifest = json.loads((broken / "_manifest.json").read_bytes())
    figures = {
        "ids in": num_rows,
        "ids out": len(second),
        "ids in order, each once": [id for id, _ in second] == [*range(num_rows)],
        "texts that differ": sum(a != b for a, b in zip(first, second, strict=True)),
        "recomputed share": manifest["recomputed_share"],
        "runs": manifest["num_runs"],
        "failed rows": manifest["failed_rows"],
        "CPU s per million": manifest["cpu_seconds_per_million"],
    }
    print(json.dumps(figures, indent=1))


def rate(args: argparse.Namespace, folder: Path) -> None:
    """Compares the command with the offline engine, in turns."""
    rows = folder / "rows.txt"
    write_rows(args.source, rows, args.rows, args.words)
    words = ["--source", rows, "--pair", args.pair, "--workers", args.cpus]
    with ending() as started:
        started.append(engine := Engine(our_engine("offline", *words)))
        engine.run()  # warm-up
        for turn in range(args.rounds):
            found = engine.figures(args.rows)
            show(turn, "offline", found["sentences_per_second"], found["cpu_seconds_per_1000"])
            show(turn, "bulk", *steady(args, rows, folder / f"out{turn}"))


def steady(args: argparse.Namespace, rows: Path, output: Path) -> tuple[float, float]:
    """Runs a job; returns rows a second and CPU seconds of 1,000 rows, in its middle part.

    The CPU seconds are sampled every SAMPLE_SECONDS. A sample counts if rows have been committed
    since the sample before, because the rows of a group are committed together. The part begins
    with the first such sample after STARTED_SHARE of the rows are committed. It ends with the last
    one before all rows are committed: later samples include the CPU seconds in which the device
    workers have started.
    """
    folder, command = OutputFolder(output), start(args, rows, output)
    samples = list[tuple[int, float, float]]()
    last_done = 0
    while command.process.poll() is None:
        now, cpu = time.monotonic(), tree.cpu_seconds(command.pid)
        done = num_done(folder)
        if STARTED_SHARE * args.rows <= done < args.rows and done != last_done:
            samples.append((done, now, cpu))
        last_done = done
        time.sleep(SAMPLE_SECONDS)
    assert command.process.wait() == 0
    assert len(samples) > 1, "the job is too short; raise --rows"
    (first, begun, used), (last, ended, cpu) = samples[0], samples[-1]
    return (last - first) / (ended - begun), 1000 * (cpu - used) / (last - first)


def show(turn: int, name: str, rate: float, cpu_per_1000: float) -> None:
    figures = f"{rate:.0f} rows/s, {cpu_per_1000:.3f} CPU s per 1,000 rows"
    print(f"round {turn + 1} {name}: {figures}", flush=True)


def memory(args: argparse.Namespace, folder: Path) -> None:
    """Prints the largest memory of jobs of different sizes."""
    for size in map(int, args.sizes.split(",")):
        rows = folder / f"rows{size}.txt"
        write_rows(args.source, rows, size, args.words)
        command = start(args, rows, folder / f"out{size}", "--echo")
        peaks: dict[str, float] = {"all": 0.0, "command": 0.0}
        begun = time.monotonic()
        while command.process.poll() is None:
            time.sleep(MEMORY_SECONDS)
            with contextlib.suppress(OSError, KeyError):
                peaks["all"] = max(peaks["all"], command.memory().pss)
                peaks["command"] = max(peaks["command"], tree.resident_mib(command.pid))
        assert command.process.returncode == 0
        shown = ", ".join(f"{name} {peak:.0f} MiB" for name, peak in peaks.items())
        print(f"{size} rows in {time.monotonic() - begun:.0f} s: {shown}", flush=True)


PARTS = {"kills": kills, "rate": rate, "memory": memory}


def main() -> None:
    parser = command_line("bulk", __doc__)
    add = parser.add_argument
    add("part", choices=[*PARTS, "job"])
    add("--source", type=Path, required=True, help="file with one sentence a line")
    add("--pair", default="en-pt", help="source and target language")
    add("--rows", type=int, default=20_000, help="number of rows")
    add("--words", type=int, default=0, help="words of each line that are kept; 0 keeps all")
    add("--kills", type=int, default=20, help="number of kills")
    add("--rounds", type=int, default=3, help="number of turns")
    add("--sizes", default="10000,1000000", help="numbers of rows of the jobs, for `memory`")
    add("--cpus", type=int, default=2, help="number of cores")
    add("--output", type=Path, help="output folder of a job")
    add("--echo", action="store_true", help="a job returns the texts in capitals")
    args = parser.parse_args()
    if args.part == "job":
        run_job(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        PARTS[args.part](args, Path(folder))


if __name__ == "__main__":
    main()
