"""The largest number of connections of a process."""

import asyncio
import logging
import resource

import pytest

from service.http_server import pool
from service.http_server.pool import ConnectionPool, raise_descriptors
from service.settings import Settings


@pytest.mark.parametrize(("hard", "expected"), [(100, 1), (200, 72)])
def test_warning_names_the_allowed_connections(
    hard: int, expected: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with caplog.at_level(logging.WARNING, "regard.http"):
        assert raise_descriptors(1000) == expected
    assert f"{hard}, allows only {expected};" in caplog.text


class BusyConnection:
    """A connection whose request is in progress; it counts how often the pool looks at it."""

    def __init__(self) -> None:
        self.num_looks = 0

    @property
    def idle_since(self) -> float | None:
        self.num_looks += 1
        return None

    def check(self, now: float) -> None:
        pass

    def close(self) -> None:
        raise AssertionError("a busy connection was closed")


def test_full_pool_searches_seldom_for_idle_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.model_validate({"max_connections": 1})
    connections, busy = ConnectionPool(settings), BusyConnection()

    async def refuse(count: int) -> None:
        loop = asyncio.get_running_loop()
        connections.add(busy, loop)
        assert not any(connections.add(BusyConnection(), loop) for _ in range(count))

    monkeypatch.setattr(pool, "SEARCH_SECONDS", 60.0)
    asyncio.run(refuse(20))
    assert busy.num_looks == 1
    connections.next_search = 0.0
    asyncio.run(refuse(20))
    assert busy.num_looks == 2
