"""The rendering of metrics: shared by scrapers, in slices, and for a share of the time."""

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from service.metrics import exposition
from service.metrics.exposition import Exposition


class Families(Collector):
    """Counts how often its two families are collected."""

    def __init__(self) -> None:
        self.count = 0

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily("a", "A.")

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.count += 1
        yield GaugeMetricFamily("a", "A.", value=self.count)
        yield GaugeMetricFamily("b", "B.", value=self.count)


@pytest.fixture
def families() -> Families:
    return Families()


@pytest.fixture
def rendered(families: Families) -> Exposition:
    registry = CollectorRegistry()
    registry.register(families)
    return Exposition(registry)


def test_text_is_that_of_the_client_library() -> None:
    registry = CollectorRegistry()
    for name in ("first", "second"):
        Counter(name, "Text.", ["label"], registry=registry).labels("x").inc()
    expected = generate_latest(registry)
    assert asyncio.run(Exposition(registry).text()) == expected


def test_scrapes_at_the_same_time_share_one_rendering(
    rendered: Exposition, families: Families
) -> None:
    async def scrape() -> list[bytes]:
        return await asyncio.gather(*(rendered.text() for _ in range(16)))

    texts = asyncio.run(scrape())
    assert families.count == 1
    assert len(set(texts)) == 1


def test_scrape_during_a_rendering_gets_the_next_one(
    rendered: Exposition, families: Families, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that changed before the scrape must be in its text."""
    monkeypatch.setattr(exposition, "SLICE_SECONDS", 0.0)

    async def scrape() -> None:
        first = asyncio.create_task(rendered.text())
        while not families.count:
            await asyncio.sleep(0)
        assert not first.done()  # other work runs between the families
        second = await rendered.text()
        assert b"b 1.0" in await first
        assert b"b 2.0" in second

    asyncio.run(scrape())


def test_scraper_that_goes_does_not_end_the_rendering_of_others(rendered: Exposition) -> None:
    async def scrape() -> None:
        tasks = [asyncio.create_task(rendered.text()) for _ in range(2)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        assert await tasks[1]

    asyncio.run(scrape())


def test_renderings_wait_after_a_burst(
    rendered: Exposition, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        now = 0.0

        @classmethod
        def perf_counter(cls) -> float:
            return cls.now

    monkeypatch.setattr(exposition, "time", Clock)
    monkeypatch.setattr(exposition, "BURST_SECONDS", 0.5)
    rendered.counted = 0.0
    rendered.debt_seconds = 0.5
    assert rendered.wait_seconds() == 0
    rendered.debt_seconds = 0.6
    assert rendered.wait_seconds() == pytest.approx(2)
    Clock.now = 2.0
    assert rendered.wait_seconds() == pytest.approx(0)
    Clock.now = 100.0
    assert rendered.wait_seconds() == rendered.debt_seconds == 0
