"""The limit of the requests of one turn of the event loop, in virtual time."""

import asyncio
import time

import pytest

from service.http_server.loop_load import (
    LONG_CPU_SECONDS,
    MIN_REQUESTS,
    PATIENCE_SECONDS,
    SPARE,
    TARGET_SECONDS,
    LoopLoad,
    account_of,
)

COST = 0.0005
"""CPU seconds that a turn spends on each request that it handles; refusals take no time."""


async def end_turn() -> None:
    """Lets the callbacks run that a turn has scheduled, and those that they schedule."""
    for _ in range(3):
        await asyncio.sleep(0)


class Turns:
    """Turns of an event loop with an equal number of requests from each client.

    Args:
        share: Share of a processor that the process has.
    """

    def __init__(self, share: float = 1.0) -> None:
        self.cpu = 0.0
        self.share = share
        self.load = LoopLoad(lambda: self.now, lambda: self.cpu)

    @property
    def now(self) -> float:
        return self.cpu / self.share

    async def run(self, *numbers: int, useful: int | None = None) -> list[int]:
        """Runs one turn with a number of requests of each client; returns the handled numbers.

        Args:
            numbers: Number of requests of each client.
            useful: Number of requests of the first client that are not refused for another limit.
                None means all requests.
        """
        handled = [0] * len(numbers)
        for client, number in enumerate(numbers):
            for _ in range(number):
                if self.load.admits(f"client {client}"):
                    handled[client] += 1
                    self.cpu += COST
        if useful is not None:
            for _ in range(useful, handled[0]):
                self.load.add_refusal("client 0")
        await end_turn()
        return handled

    async def overload(self) -> None:
        while not self.load.is_overloaded:
            assert self.now < 1.0
            assert await self.run(300) == [300]


@pytest.fixture
def turns() -> Turns:
    return Turns()


async def test_short_turns_have_no_limit(turns: Turns) -> None:
    fitting = int(LONG_CPU_SECONDS / COST) - 1
    for _ in range(1000):
        assert await turns.run(fitting) == [fitting]


async def test_cpu_time_is_not_read_in_turns_that_are_short() -> None:
    def cpu_clock() -> float:
        raise AssertionError

    load = LoopLoad(time.perf_counter, cpu_clock)
    for _ in range(10):
        assert load.admits("client")
        await end_turn()


async def test_turns_with_refusals_of_other_limits_are_limited_earlier(turns: Turns) -> None:
    too_many = int(TARGET_SECONDS / COST) + 2
    while turns.now < 10 * PATIENCE_SECONDS:  # a refusal in half of the turns
        assert await turns.run(too_many, useful=0) == [too_many]
        assert await turns.run(too_many) == [too_many]
    while not turns.load.is_overloaded:
        assert turns.now < 12 * PATIENCE_SECONDS
        await turns.run(too_many, useful=0)
    assert await turns.run(200) < [too_many]


async def test_process_that_has_little_of_a_processor_is_not_overloaded() -> None:
    turns = Turns(share=0.05)
    for _ in range(1000):
        assert await turns.run(64) == [64]


async def test_single_burst_is_handled(turns: Turns) -> None:
    assert await turns.run(5000) == [5000]
    assert await turns.run(10) == [10]
    assert await turns.run(5000) == [5000]


async def test_turns_of_a_lasting_overload_are_as_long_as_the_target(turns: Turns) -> None:
    await turns.overload()
    assert turns.now > PATIENCE_SECONDS
    before = turns.now
    for _ in range(50):
        (handled,) = await turns.run(200)
        assert handled <= TARGET_SECONDS / COST + 1
    assert turns.now - before == pytest.approx(50 * TARGET_SECONDS, rel=0.1)


async def test_clients_share_a_turn_evenly(turns: Turns) -> None:
    await turns.overload()
    await turns.run(200, 3)
    half = turns.load.limit // 2
    assert await turns.run(200, 3) == [half, 3]
    assert half >= TARGET_SECONDS / COST / 2 - 1


async def test_client_has_little_more_than_the_requests_that_are_not_refused_afterwards(
    turns: Turns,
) -> None:
    await turns.overload()
    for useful in (10, 20, 0):
        for _ in range(30):
            await turns.run(200, useful=useful)
        (handled,) = await turns.run(200, useful=useful)
        assert handled == pytest.approx(SPARE * useful + 1, abs=1)


async def test_refusals_of_a_client_take_nothing_from_another(turns: Turns) -> None:
    await turns.overload()
    for _ in range(30):
        await turns.run(200, 15, useful=0)
    assert await turns.run(200, 15, useful=0) == [1, 15]


@pytest.mark.parametrize(
    ("header", "is_large"),
    [
        ((b"content-length", b"16384"), False),
        ((b"content-length", b"16385"), True),
        ((b"content-length", b"1400000"), True),
        ((b"content-length", b"x"), True),  # only other servers than uvicorn pass it on
        ((b"transfer-encoding", b"chunked"), True),
        ((b"accept", b"*/*"), False),
    ],
)
async def test_large_bodies_take_no_place_of_short_requests(
    header: tuple[bytes, bytes], is_large: bool, turns: Turns
) -> None:
    await turns.overload()
    while turns.load.admits(account_of("client 0", {header[0]: header[1]})):
        pass
    assert turns.load.admits("client 0") == is_large


async def test_some_requests_are_handled_however_slow_they_are(turns: Turns) -> None:
    await turns.overload()
    assert turns.load.admits("client 0")
    turns.cpu += 60.0
    await end_turn()
    assert await turns.run(50) == [MIN_REQUESTS]


async def test_limit_ends_with_the_overload(turns: Turns) -> None:
    await turns.overload()
    await turns.run(200)
    while turns.load.is_overloaded:
        assert await turns.run(30) == [30]
    assert await turns.run(200) == [200]


async def test_overload_ends_when_few_requests_arrive_in_bursts(turns: Turns) -> None:
    """Single requests made the limit so low that each small burst was refused in part."""
    await turns.overload()
    for _ in range(30):
        await turns.run(200, useful=1)
    began = turns.now
    while turns.load.is_overloaded:
        assert turns.now - began < 3 * PATIENCE_SECONDS
        for number in (1, 1, 2, 1, 5):
            await turns.run(number)
            turns.cpu += 0.002  # until the next requests arrive


async def test_turn_began_with_its_first_request() -> None:
    now = 1.0
    load = LoopLoad(lambda: now, lambda: 0.0)
    load.admits("client")
    now = 1.5
    load.admits("client")
    assert load.turn_began == 1.0
    await end_turn()
    load.admits("client")
    assert load.turn_began == 1.5
