"""Admission by expected wait, in simulated overloads."""

import random
import time
from collections.abc import Callable, Iterator

import pytest

from benchmarks.capacity.virtual_time import Clock, virtual_time
from service.items import TRANSLATE
from service.scheduling import forecast
from service.scheduling.forecast import MAX_STRETCH, MIN_SAMPLES, Pace
from service.scheduling.scheduler import Scheduler
from tests.unit.scheduling import MODELS, FakeWorker, sentences
from tests.unit.simulation import Simulation

SECONDS = 60.0


@pytest.fixture
def clock() -> Iterator[Clock]:
    random.seed(0)
    with virtual_time(Clock()) as clock:
        yield clock


def steady() -> float:
    return 1.0


def noise() -> float:
    """Steps take between a third and three times as long."""
    return random.lognormvariate(0, 0.5)


def pauses() -> float:
    """Each hundredth step takes ten times as long, because something else uses the processor."""
    return 10.0 if random.random() < 0.01 else 1.0


def goodput(
    clock: Clock, factor: float, deadline: float, disturbance: Callable[[], float] = steady
) -> Simulation:
    simulation = Simulation(clock, disturbance)
    simulation.offer(factor * simulation.capacity, SECONDS, deadline)
    return simulation


@pytest.mark.parametrize("disturbance", [steady, noise, pauses])
@pytest.mark.parametrize("deadline", [2.0, 20.0])
def test_goodput_stays_when_three_times_the_capacity_is_offered(
    clock: Clock, deadline: float, disturbance: Callable[[], float]
) -> None:
    """Few requests are late, also if the workers are irregular."""
    since = SECONDS / 3  # the first requests are admitted without a prediction
    at_capacity = len(goodput(clock, 1.0, deadline, disturbance).outcomes("ok", since))
    overload = goodput(clock, 3.0, deadline, disturbance)
    num_ok = len(overload.outcomes("ok", since))
    assert num_ok >= 0.9 * at_capacity
    assert len(overload.outcomes("late", since)) <= 0.01 * num_ok
    assert len(overload.outcomes("refused")) > at_capacity


def test_margin_follows_the_errors_of_predictions(clock: Clock) -> None:
    measured = forecast.Margin()
    before = measured.seconds_for(4.0)
    for number in range(1000):
        clock.now = number / 100
        measured.add(4.0, 4.0 if number % 50 else 6.0)
    assert measured.seconds_for(4.0) == pytest.approx(2.0 + forecast.RATE_ERROR * 4, abs=0.15)
    for number in range(6000):
        clock.now = 10 + number / 100
        measured.add(4.0, 4.0)
    assert measured.seconds_for(4.0) < before


def test_margin_counts_requests_that_were_close_to_their_limit_only() -> None:
    measured = forecast.Margin()
    assert not forecast.is_relevant(1.0, 100.0)
    assert forecast.is_relevant(1.0, 1.5)
    for _ in range(100):
        forecast.Prediction(measured, 1.0, 1.5).end(is_late=True)
    assert 0.5 < measured.seconds_for(1.0) < 0.7


def test_old_errors_of_predictions_are_forgotten_without_new_ones(clock: Clock) -> None:
    """A margin that refuses every request gets no new samples."""
    measured = forecast.Margin()
    before = measured.seconds_for(4.0)
    for number in range(1000):
        clock.now = number / 100
        measured.add(4.0, 8.0)
    assert measured.seconds_for(4.0) > 2 * before
    clock.now += 20 * forecast.MARGIN_SECONDS
    assert measured.seconds_for(4.0) == pytest.approx(before)


def test_margin_is_limited_by_the_predicted_time(clock: Clock) -> None:
    """After an overload of a slow model every tenth request was refused at half the capacity."""
    measured = forecast.Margin()
    for _ in range(1000):
        measured.add(0.3, 1.2)
    assert measured.seconds_for(0.3) == pytest.approx(forecast.MAX_MARGIN * 0.3)


def test_requests_that_give_no_sample_are_never_refused() -> None:
    assert forecast.RELEVANT_SHARE * (1 + forecast.MAX_MARGIN) <= 1


def test_nothing_is_refused_below_the_capacity(clock: Clock) -> None:
    simulation = goodput(clock, 0.7, 4.0)
    assert len(simulation.outcomes("ok")) == len(simulation.requests) > 100


def test_burst_that_fits_is_admitted_after_single_requests(clock: Clock) -> None:
    """The measured rate of single requests is far below the rate of full batches."""
    simulation = Simulation(clock)
    simulation.offer(0.5, 60, 10)
    burst = [simulation.send(10.0) for _ in range(64)]
    simulation.clock.run_until(simulation.clock.now + 20)
    assert {request.outcome for request in burst} == {"ok"}
    assert max(request.seconds for request in burst) > 2.0


def test_long_list_is_refused_if_it_takes_longer_than_its_deadline(clock: Clock) -> None:
    simulation = Simulation(clock)
    simulation.offer(2 * simulation.capacity, 20, 10)
    count = int(20 * simulation.capacity)
    running = simulation.send(100.0)
    assert (simulation.send(10.0, count).outcome, running.outcome) == ("refused", "")
    assert simulation.send(40.0, count).outcome == ""


def test_idle_server_admits_every_request(clock: Clock) -> None:
    simulation = goodput(clock, 0.5, 10.0)
    simulation.clock.run_until(simulation.clock.now + 10)
    assert simulation.send(0.1).outcome == ""


def test_waiting_request_that_would_be_late_is_not_computed(clock: Clock) -> None:
    """The workers become ten times slower while requests wait."""
    simulation = Simulation(clock)
    simulation.offer(3 * simulation.capacity, 20, 5)
    before = simulation.num_computed
    waiting = [simulation.send(5.0) for _ in range(64)]
    simulation.slowness = 10.0
    simulation.clock.run_until(simulation.clock.now + 30)
    assert any(request.outcome == "late" and request.seconds < 4.9 for request in waiting)
    assert simulation.num_computed - before < 64


def test_pace_predicts_after_a_few_samples() -> None:
    pace = Pace()
    for number in range(MIN_SAMPLES):
        assert pace.seconds_for(100, 10) == 0
        pace.add(work=50, seconds=0.5, occupancy=10, now=float(number))
    assert pace.seconds_for(100, 10) == pytest.approx(1.0)


def test_pace_remembers_the_rate_of_the_fullest_batches() -> None:
    """Before, a burst on a model whose large batches are not more efficient was admitted again and
    again, and was late."""
    pace = Pace()
    for number in range(MIN_SAMPLES):
        pace.add(work=500, seconds=5.0, occupancy=40, now=float(number))
    for number in range(30):
        pace.add(work=50, seconds=0.5, occupancy=4, now=60.0 + number)
    assert pace.seconds_for(100, 4) == pytest.approx(1.0)
    assert pace.seconds_for(400, 40) == pytest.approx(4.0)
    assert pace.is_known(40)
    assert not pace.is_known(100)
    assert pace.seconds_for(1000, 100) == pytest.approx(0.8)


def test_pace_assumes_larger_batches_to_be_more_efficient() -> None:
    pace = Pace()
    for number in range(MIN_SAMPLES):
        pace.add(work=50, seconds=0.5, occupancy=10, now=float(number))
    assert pace.seconds_for(200, 10 * MAX_STRETCH) == pytest.approx(2.0)
    assert pace.seconds_for(400, 20 * MAX_STRETCH) == pytest.approx(2.0)


def test_pace_follows_a_change_within_seconds() -> None:
    pace = Pace()
    for number in range(100):
        pace.add(work=50, seconds=0.5, occupancy=10, now=number / 10)
    for number in range(60):
        pace.add(work=50, seconds=1.0, occupancy=10, now=10 + number / 10)
    assert pace.seconds_for(100, 10) == pytest.approx(2.0, rel=0.1)


async def test_prediction_of_one_model_is_not_compared_with_the_time_of_two(
    scheduler: Scheduler,
) -> None:
    FakeWorker(scheduler)
    for model in MODELS:
        for _ in range(100):
            scheduler.queues[TRANSLATE][model].pace.add(10.0, 5.0, 4.0, time.perf_counter())
    items = [sentences(1, model=model)[0] for model in MODELS]
    soon = time.perf_counter() + 10.0
    begun = [scheduler.submit([item], soon) for item in items]
    one = scheduler.submit(sentences(2), soon)
    two = scheduler.submit([sentences(1, model=model)[0] for model in MODELS], soon)
    assert one.prediction is not None
    far = scheduler.submit(sentences(2, first=9), time.perf_counter() + 1000.0)
    assert two.prediction is None
    assert far.prediction is None  # it is never close to its limit
    for submission in (*begun, one, two, far):
        submission.close()
