"""The capacity model: plans, arrivals, shared cores, calibration, and the figures of a trace."""

import random
import signal
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.bench.load import End
from benchmarks.capacity import calibration
from benchmarks.capacity.__main__ import app
from benchmarks.capacity.arrivals import BURST, DAY, NIGHT, Shape, day_trace, poisson, record
from benchmarks.capacity.costs import Costs, CostsError, ServerCosts, WorkerCosts
from benchmarks.capacity.plan import Demand, Supply, plan
from benchmarks.capacity.replay import outcome_of, send, until_interrupted
from benchmarks.capacity.replicas import Figures, by_kind, closed_loop, point, simulate
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


def test_zones_that_are_left_serve_the_peak() -> None:
    demand = Demand(1e8)
    for zones in (2, 3, 4):
        found = plan(demand, Supply(2.24, zones=zones))
        assert found.machines % zones == 0
        assert found.machines * (zones - 1) / zones >= plan(demand, Supply(2.24)).machines - 1


def test_command_prints_a_plan_for_each_number_of_requests() -> None:
    words = ["plan", "--cpu-seconds-per-1000", "2", "--requests-per-day", "1e3,1e9"]
    found = CliRunner().invoke(app, words)
    rows = [line for line in found.stdout.splitlines() if line.startswith("| 1,000")]
    assert [row.split(" | ")[3] for row in rows] == ["1", "58"]


def test_equal_shapes_give_equal_traces() -> None:
    shape = Shape(600, 20, burst_rate=100, calm_seconds=60, seed=4)
    assert day_trace(shape, 10).moments == day_trace(shape, 10).moments
    assert day_trace(shape, 10).moments != day_trace(replace(shape, seed=5), 10).moments


def test_requests_arrive_at_the_rates_of_their_periods() -> None:
    shape = Shape(2000, 20, 0.5, burst_rate=100, burst_spread=0, calm_seconds=100, seed=1)
    trace = day_trace(shape, 10)
    counts = Counter(map(trace.kind_at, trace.moments))
    lengths = dict.fromkeys((NIGHT, DAY, BURST), 0.0)
    for period in trace.periods:
        lengths[period.kind] += period.end - period.begin
    assert sum(lengths.values()) == pytest.approx(2000)
    assert trace.moments == sorted(trace.moments)
    rates = {kind: counts[kind] / lengths[kind] for kind in counts}
    assert rates[BURST] == pytest.approx(100, rel=0.05)
    assert rates[NIGHT] < 16 < 24 < rates[DAY] < 30


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
    rate = closed_loop(COSTS, 128, 3.0).per_second
    trace = record(poisson(Shape(15, 2 * rate)), 3, 1)
    found = Figures.of(simulate(COSTS, trace, 1.0))
    assert 0.35 < found.refused < 0.6
    assert found.failed < 0.01
    assert found.p99_ms < 1000


def test_more_machines_wait_less_at_the_same_utilisation() -> None:
    costs = replace(COSTS, capacity=closed_loop(COSTS, 128, 3.0).per_second)
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


def test_no_cost_is_negative() -> None:
    columns = [[1.0, 2.0], [1.0, 3.0], [1.0, 5.0]]
    found = calibration.fit(columns, [3.0, 2.0, 1.0])
    assert min(found) >= 0
    assert found[0] > 0


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


@pytest.mark.parametrize(
    ("end", "name"),
    [
        (End(1.0, 3.0, None, 200), "ok"),
        (End(1.0, 3.0, "504", 504), "late"),
        (End(1.0, 3.0, "429 overloaded", 429), "refused"),
        (End(1.0, 3.0, "500", 500), "500"),
    ],
)
def test_outcomes_are_named(end: End, name: str) -> None:
    assert outcome_of(end) == Outcome(1.0, name, 2.0)
    assert outcome_of(End(1.0, 3.0, "closed")) == Outcome(1.0, "closed", 0.0)


def test_interrupted_trace_ends_early() -> None:
    sent = []
    for moment in until_interrupted([1.0, 2.0, 3.0]):
        sent.append(moment)
        if moment == 2.0:
            signal.raise_signal(signal.SIGINT)
    assert sent == [1.0, 2.0]


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
