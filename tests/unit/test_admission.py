"""Admission: the limits on requests and tokens, and the time until there is room."""

import pytest

from service.errors import OverloadedError, RequestTooLargeError
from service.scheduling import admission as admission_module
from service.scheduling.admission import MAX_RETRY_SECONDS, Admission, Throughput
from tests.unit.worker_bench import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(admission_module, "time", clock)
    return clock


def test_estimate_is_replaced_by_the_counted_number() -> None:
    admission = Admission(2, 100)
    admission.admit(80)
    admission.adjust(80, 10)
    assert admission.tokens == 10
    admission.admit(60)
    with pytest.raises(OverloadedError, match="with 35 more"):
        admission.adjust(60, 95)
    assert admission.tokens == 70
    with pytest.raises(RequestTooLargeError, match="about 101 tokens"):
        admission.adjust(60, 101)
    admission.adjust(60, 90)
    assert admission.tokens == 100
    admission.release(10)
    admission.release(90)
    assert admission.tokens == 0


def test_time_until_a_retry_follows_the_throughput(clock: Clock) -> None:
    throughput = Throughput()
    assert throughput.seconds_for(10_000) == 1  # nothing has finished yet
    for _ in range(5):
        throughput.add(100)
        clock.now += 1
    assert throughput.seconds_for(1000) == 10  # 100 a second
    assert throughput.seconds_for(1001) == 11
    assert throughput.seconds_for(0) == 1
    assert throughput.seconds_for(10**9) == MAX_RETRY_SECONDS


def test_throughput_before_the_window_is_forgotten(clock: Clock) -> None:
    """Guards a fault: after an idle hour, one old event made refused clients wait for a minute."""
    throughput = Throughput()
    throughput.add(1000)
    clock.now += 3600
    assert throughput.seconds_for(1000) == 1
    assert throughput.tokens == 0
