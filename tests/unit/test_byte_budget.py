"""The budget of buffered bytes: transfers that fit, are refused, or are given up."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from service.errors import OverloadedError
from service.http_server import byte_budget
from service.http_server.byte_budget import RESERVE_BYTES, ByteBudget, UnreadReply
from tests.unit.worker_bench import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(byte_budget, "time", found)
    return found


def nothing() -> None:
    """Gives nothing up."""


def test_bytes_over_the_budget_are_refused(clock: Clock) -> None:
    budget = ByteBudget(100)
    first, _ = budget.reserve(60, nothing), budget.reserve(40, nothing)
    with pytest.raises(OverloadedError, match=r"100 bytes .* 1 more .* limit of 100") as caught:
        budget.reserve(1, nothing)
    assert caught.value.retry_after_seconds == 2
    first.release()
    assert budget.used == 40
    budget.reserve(60, nothing)


def test_released_bytes_are_returned_once(clock: Clock) -> None:
    budget = ByteBudget(100)
    reservation = budget.reserve(60, nothing)
    for _ in range(2):
        reservation.release()
        assert budget.used == 0
    assert not budget.transfers


def test_anything_fits_into_an_empty_budget(clock: Clock) -> None:
    """A document and its form are a little larger than the limit of a document."""
    budget = ByteBudget(100)
    budget.reserve(101, nothing)
    with pytest.raises(OverloadedError):
        budget.reserve(1, nothing)


def test_longest_stalled_transfers_are_given_up_until_the_bytes_fit(clock: Clock) -> None:
    budget, given_up = ByteBudget(100), list[str]()
    budget.reserve(40, lambda: given_up.append("first"))
    clock.now += 1
    second = budget.reserve(40, lambda: given_up.append("second"))
    budget.reserve(20, lambda: given_up.append("third"))
    clock.now += 1.5
    with pytest.raises(OverloadedError):
        budget.reserve(50, nothing)  # only the first one has stalled
    assert given_up == ["first"]
    clock.now += 1
    second.mark_progress()
    budget.reserve(60, nothing)
    assert given_up == ["first", "third"]
    assert budget.used == 100


def test_complete_transfer_is_not_given_up(clock: Clock) -> None:
    budget = ByteBudget(100)
    reservation = budget.reserve(100, lambda: pytest.fail("given up"))
    reservation.settle()
    clock.now += 100
    with pytest.raises(OverloadedError):
        budget.reserve(1, nothing)


def test_reservation_grows(clock: Clock) -> None:
    budget = ByteBudget(100)
    reservation, other = budget.reserve(10, nothing), budget.reserve(10, nothing)
    reservation.grow(90)
    assert (reservation.size, budget.used) == (90, 100)
    with pytest.raises(OverloadedError):
        other.grow(11)
    reservation.resize(200)  # a reply that is computed already cannot be refused
    assert budget.used == 210


def test_large_bodies_leave_room_for_smaller_ones(clock: Clock) -> None:
    budget = ByteBudget(8 * RESERVE_BYTES)
    for _ in range(2):
        budget.reserve(3 * RESERVE_BYTES, nothing)
    with pytest.raises(OverloadedError, match=f"limit of {7 * RESERVE_BYTES}"):
        budget.reserve(RESERVE_BYTES + 1, nothing)
    for _ in range(2):
        budget.reserve(RESERVE_BYTES, nothing)
    with pytest.raises(OverloadedError, match=f"limit of {8 * RESERVE_BYTES}"):
        budget.reserve(1, nothing)


def test_body_of_the_whole_budget_grows_alone(clock: Clock) -> None:
    budget = ByteBudget(8 * RESERVE_BYTES)
    body = budget.reserve(RESERVE_BYTES, nothing)
    body.grow(8 * RESERVE_BYTES)
    assert budget.used == 8 * RESERVE_BYTES


def test_share_is_a_part_of_the_whole(clock: Clock) -> None:
    whole, given_up = ByteBudget(100), list[str]()
    share = ByteBudget(25, whole)
    first = share.reserve(20, lambda: given_up.append("share"))
    with pytest.raises(OverloadedError, match="without a key .* limit of 25"):
        share.reserve(6, nothing)
    assert (share.used, whole.used) == (20, 20)
    whole.reserve(80, lambda: given_up.append("whole"))
    with pytest.raises(OverloadedError, match=r"limit of 100"):
        share.reserve(5, nothing)
    clock.now += 2.5
    share.reserve(25, nothing)  # its own transfers give way first
    assert given_up == ["share", "whole"]
    first.release()
    assert (share.used, whole.used) == (25, 25)


def test_values_of_a_reply_are_reserved_until_they_are_written(clock: Clock) -> None:
    """A client that reads slowly keeps the values and the unread bytes in memory."""
    budget, given_up = ByteBudget(100), list[str]()
    budget.reserve(40, lambda: given_up.append("stalled"))
    clock.now += 3
    transport = SimpleNamespace(get_write_buffer_size=lambda: 5, abort=nothing)
    unread = UnreadReply(cast("asyncio.Transport", transport), budget)
    unread.hold(80)
    assert (given_up, budget.used) == (["stalled"], 80)
    unread.pause()
    assert budget.used == 85
    unread.resume()
    assert budget.used == 80
    unread.let_go(80)
    unread.resume()
    assert budget.used == 0
