"""The capacity model: plans, arrivals, shared cores, calibration, and the figures of a trace."""

import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.capacity import calibration
from benchmarks.capacity.__main__ import app
from benchmarks.capacity.arrivals import BURST, DAY, Shape, day_trace, poisson, record
from benchmarks.capacity.costs import Costs, CostsError, ServerCosts, WorkerCosts
from benchmarks.capacity.plan import Demand, Supply, plan
from benchmarks.capacity.replay import send
from benchmarks.capacity.replicas import Figures, by_kind, capacity, point, simulate
from benchmarks.capacity.simulation import Outcome
from benchmarks.capacity.tables import comparison_table
from benchmarks.capacity.virtual_time import Clock, Processors
from tests.unit.bench_server import FakeTranslator, served

COSTS = Costs(
    WorkerCosts(encode_seconds=2e-3, step_seconds=1e-3, row_seconds=5e-4, tokens_per_call=24),
    ServerCosts(4e-3, 2e-3, 3e-3, 1e-3),
    sentences=((20, 22), (8, 9), (45, 50)),
)
"""Costs of a slow model: about 100 sentences/s."""


def test_plan_is_the_formula_of_the_documentation() -> None:
    """10^8 requests a day, three times as many at the peak, 2.24 CPU s for 1,000 sentences."""
    found = plan(Demand(1e8), Supply(2.24, cores=2, utilisation=0.6, price_per_core_hour=0.04))
    assert found.sentences_per_second == pytest.approx(3472, rel=1e-3)
    assert found.busy_cores == pytest.approx(7.78, rel=1e-3)
    assert found.machines == 7  # 7.78 / (0.6 * 2) = 6.48
    assert found.price_per_month == pytest.approx(7 * 2 * 730 * 0.04)
    assert found.price_per_million == pytest.approx(408.8 / (1e8 * 730 / 24 / 1e6))


def test_command_prints_a_plan_for_each_number_of_requests() -> None:
    words = ["plan", "--cpu-seconds-per-1000", "2", "--requests-per-day", "1e3,1e9"]
    found = CliRunner().invoke(app, words)
    rows = [line for line in found.stdout.splitlines() if line.startswith("| 1,000")]
    assert [row.split(" | ")[3] for row in rows] == ["1", "58"]


def test_bursts_share_the_cores() -> None:
    ends: dict[str, float] = {}
    clock = Clock()

    def end(name: str) -> None:
        ends[name] = clock.now

    cores = Processors(clock, 2)
    for name, seconds in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        cores.run(seconds, partial(end, name))
    clock.run_until(10)
    assert ends == {"a": pytest.approx(1.5), "b": pytest.approx(1.5), "c": pytest.approx(2.5)}


def test_load_above_the_capacity_is_refused_and_the_rest_is_in_time() -> None:
    rate = capacity(COSTS)
    trace = record(poisson(Shape(15, 2 * rate)), 3, 1)
    found = Figures.of(simulate(COSTS, trace, 1.0))
    assert 0.35 < found.refused < 0.6
    assert found.failed < 0.01
    assert found.p99_ms < 1000


def test_more_machines_wait_less_at_the_same_utilisation() -> None:
    costs = replace(COSTS, capacity=capacity(COSTS))
    one, four = (point(costs, replicas, 0.8, 5.0, 2.0) for replicas in (1, 4))
    assert four.poisson.p99_ms < one.poisson.p99_ms
    assert one.poisson.requests == pytest.approx(0.8 * costs.capacity * 5, rel=0.1)
    assert one.bursty.p99_ms > one.poisson.p99_ms


def test_calibrated_cores_are_those_that_the_processes_used() -> None:
    level = calibration.Level(64, 500.0, 1.0, 2.0, 1000, 0, 10, 300, 9000, 2.0, 0.6, 0.2)
    assert level.busy_cores == pytest.approx(500 * 2.8 / 1000)
    refusals = replace(level, refused=100.0, main_seconds=0.7)
    found = calibration.costs_of([level], refusals, COSTS.sentences, 1e-4, 2, "here")
    assert found.num_cores == pytest.approx(1.4)
    assert found.server.refusal_seconds == pytest.approx(0.001)
    assert found.without_client().num_cores == 2


def test_fit_finds_the_costs_that_made_the_figures() -> None:
    generator = random.Random(1)
    columns = [[generator.uniform(1, 100) for _ in range(3)] for _ in range(8)]
    values = [2 * a + 0.5 * c for a, _, c in columns]
    assert calibration.fit(columns, values) == pytest.approx([2, 0, 0.5], abs=1e-9)


def test_costs_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "costs.json"
    COSTS.write(path)
    assert Costs.read(path) == COSTS
    path.write_text('{"sentences": []}')
    with pytest.raises(CostsError, match=r"calibrate"):
        Costs.read(path)


def test_replay_sends_the_trace_and_keeps_each_outcome() -> None:
    shape = Shape(0.5, 40, 0.0)
    with served(FakeTranslator()) as url:
        found = send(url, "en-pt", ["One.", "Two."], shape, 1.0)
    trace = day_trace(shape, 2)
    assert len(found.outcomes) == len(trace.moments) > 5
    assert {each.name for each in found.outcomes} == {"ok"}


def test_figures_of_each_kind_of_period_are_compared() -> None:
    shape = Shape(100, 10, burst_rate=50, calm_seconds=20, seed=2)
    trace = day_trace(shape, 1)
    outcomes = [
        Outcome(moment, "refused" if trace.kind_at(moment) == BURST else "ok", 0.01)
        for moment in trace.moments
    ]
    found = by_kind(outcomes, trace)
    assert found[BURST].refused == 1
    assert found[DAY].refused == 0
    rows = comparison_table(found, found).splitlines()
    assert any(row.startswith(f"| {BURST} |") and "100 | 100 | +0 %" in row for row in rows)
