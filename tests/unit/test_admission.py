from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import OverloadedError, RequestTooLargeError
from service.scheduling import admission
from service.scheduling.admission import MAX_RETRY_SECONDS, WINDOW_SECONDS, Admission, Throughput


class Clock:
    """Stands in for the time module; a test says what time it is."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(admission, "time", clock)
    return clock


def test_place_is_held_while_the_request_lasts() -> None:
    places = Admission(max_requests=2, max_tokens=100)
    with places.reserve(30):
        assert (places.requests, places.tokens) == (1, 30)
        with places.reserve(40):
            assert (places.requests, places.tokens) == (2, 70)
        assert (places.requests, places.tokens) == (1, 30)
    assert (places.requests, places.tokens) == (0, 0)


def test_place_is_given_back_after_an_error() -> None:
    places = Admission(1, 100)

    def fail() -> None:
        with places.reserve(30) as reservation:
            places.adjust(reservation, 50)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (places.requests, places.tokens) == (0, 0)


def test_one_request_more_than_the_limit_is_refused() -> None:
    places = Admission(1, 100)
    with places.reserve(1):
        with pytest.raises(OverloadedError, match="1 requests are waiting; the limit is 1") as told:
            places.reserve(1).__enter__()
        assert told.value.limit == "requests"
        assert told.value.retry_after_seconds == 1
    assert (places.requests, places.tokens) == (0, 0)


def test_tokens_up_to_the_limit_are_taken_and_no_more() -> None:
    places = Admission(10, 100)
    with places.reserve(60), places.reserve(40):
        with pytest.raises(OverloadedError, match="100 tokens are waiting; with 1 more") as told:
            places.reserve(1).__enter__()
        assert told.value.limit == "tokens"


def test_request_over_the_limit_by_itself_is_too_large_and_not_told_to_wait() -> None:
    places = Admission(10, 100)
    with pytest.raises(RequestTooLargeError, match="about 101 tokens; the limit is 100") as told:
        places.reserve(101).__enter__()
    assert told.value.retry_after_seconds is None


def test_estimate_is_replaced_by_the_real_number() -> None:
    places = Admission(2, 100)
    with places.reserve(80) as reservation:
        places.adjust(reservation, 10)
        assert places.tokens == 10
        with places.reserve(60) as other:
            with pytest.raises(OverloadedError, match="with 35 more"):
                places.adjust(other, 95)
            assert places.tokens == 70
            with pytest.raises(RequestTooLargeError, match="about 101 tokens"):
                places.adjust(other, 101)
            places.adjust(other, 90)
            assert places.tokens == 100
    assert places.tokens == 0


def test_smaller_number_is_taken_although_all_is_full() -> None:
    places = Admission(1, 100)
    with places.reserve(100) as reservation:
        places.adjust(reservation, 99)
        assert places.tokens == 99


@given(st.lists(st.tuples(st.sampled_from(["in", "out", "adjust"]), st.integers(0, 60))))
def test_counts_never_pass_the_limits_and_end_at_zero(steps: list[tuple[str, int]]) -> None:
    places = Admission(5, 100)
    held = []
    for step, tokens in steps:
        try:
            if step == "in":
                stack = ExitStack()
                held.append((stack, stack.enter_context(places.reserve(tokens))))
            elif step == "adjust" and held:
                places.adjust(held[tokens % len(held)][1], tokens)
            elif held:
                held.pop(tokens % len(held))[0].close()
        except OverloadedError:
            assert places.requests == 5 or places.tokens + tokens > 100 or step == "adjust"
        assert places.requests == len(held)
        assert places.tokens == sum(reservation.tokens for _, reservation in held) <= 100
    for stack, _ in held:
        stack.close()
    assert (places.requests, places.tokens) == (0, 0)


def test_time_to_come_back_follows_the_throughput(clock: Clock) -> None:
    throughput = Throughput()
    assert throughput.seconds_for(10_000) == 1  # nothing is known yet
    for _ in range(5):
        throughput.add(100)
        clock.now += 1
    assert throughput.seconds_for(1000) == 10  # 100 a second
    assert throughput.seconds_for(1001) == 11
    assert throughput.seconds_for(0) == 1
    assert throughput.seconds_for(10**9) == MAX_RETRY_SECONDS


def test_throughput_of_long_ago_says_nothing(clock: Clock) -> None:
    """After an idle hour, one old event made every refused client wait for a minute."""
    throughput = Throughput()
    throughput.add(1000)
    clock.now += 3600
    assert throughput.seconds_for(1000) == 1
    assert throughput.tokens == 0


def test_events_are_kept_for_the_window_only(clock: Clock) -> None:
    throughput = Throughput()
    for _ in range(100):
        throughput.add(10)
        clock.now += 1
    assert len(throughput.events) == WINDOW_SECONDS + 1
    assert throughput.tokens == 10 * len(throughput.events)
