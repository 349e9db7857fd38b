"""The quota of characters: the limit, the month, and failures."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from service.errors import QuotaExceededError, UnavailableError
from service.state import quota as quota_module
from service.state.database import Database
from service.state.quota import Quota, this_month


async def spend(quota: Quota, account: str, *numbers: int) -> None:
    for number in numbers:
        async with quota.spent(account, number):
            pass


@pytest.fixture
def quota(tmp_path: Path) -> Quota:
    return Quota(Database(str(tmp_path / "new" / "folder")), 10)


def used(quota: Quota, account: str = "a") -> int:
    return asyncio.run(quota.used(account))


def test_characters_up_to_the_limit_are_counted_by_account(quota: Quota) -> None:
    asyncio.run(spend(quota, "a", 6, 0, 4))
    asyncio.run(spend(quota, "b", 1))
    assert (used(quota), used(quota, "b"), used(quota, "c")) == (10, 1, 0)


def test_refused_request_counts_nothing(quota: Quota) -> None:
    asyncio.run(spend(quota, "a", 6))
    with pytest.raises(QuotaExceededError, match=r"6 of 10 characters .* the request has 5"):
        asyncio.run(spend(quota, "a", 5))
    assert used(quota) == 6


def test_failed_request_counts_nothing(quota: Quota) -> None:
    async def fail() -> None:
        async with quota.spent("a", 5):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(fail())
    assert used(quota) == 0


def test_month_begins_with_nothing(quota: Quota, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(spend(quota, "a", 10))
    monkeypatch.setattr(quota_module, "this_month", lambda: "2000-01")
    assert used(quota) == 0
    asyncio.run(spend(quota, "a", 10))
    assert len(this_month()) == len("2000-01")


def test_without_a_limit_nothing_is_stored(tmp_path: Path) -> None:
    asyncio.run(spend(Quota(Database(str(tmp_path)), 0), "a", 10**9))
    assert not [*tmp_path.iterdir()]


def test_state_that_fails_later_keeps_the_error_of_the_request(
    quota: Quota, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise UnavailableError("no state")

    async def run() -> None:
        async with quota.spent("a", 5):
            monkeypatch.setattr(quota, "add", fail)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())


def test_reader_does_not_wait_for_a_writer(quota: Quota) -> None:
    asyncio.run(spend(quota, "a", 3))
    other = Database(str(quota.database.folder))
    with other.transaction() as connection:
        connection.execute("UPDATE usage SET characters = 9")
        assert used(quota) == 3


async def test_cancelled_request_is_not_charged(
    quota: Quota, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client has gone while a thread waits for the file."""
    begun, released = threading.Event(), threading.Event()
    add = quota.add

    def slow(*args: Any) -> int:
        begun.set()
        released.wait()
        return add(*args)

    monkeypatch.setattr(quota, "add", slow)
    task = asyncio.create_task(spend(quota, "a", 4))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    released.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await quota.used("a") == 0
