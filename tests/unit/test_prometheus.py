"""The rendering of metrics (shared by scrapers, in slices), and our histogram."""

import asyncio
import random
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter, disable_created_metrics, generate_latest
from prometheus_client import Histogram as Theirs
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from service.metrics import prometheus
from service.metrics.prometheus import Exposition, Histogram, observe


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


async def test_scrapes_at_the_same_time_share_one_rendering(
    rendered: Exposition, families: Families
) -> None:
    texts = await asyncio.gather(*(rendered.text() for _ in range(16)))
    assert families.count == 1
    assert len(set(texts)) == 1


async def test_scrape_during_a_rendering_gets_the_next_one(
    rendered: Exposition, families: Families, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that changed before the scrape must be in its text."""
    monkeypatch.setattr(prometheus, "SLICE_SECONDS", 0.0)
    first = asyncio.create_task(rendered.text())
    while not families.count:
        await asyncio.sleep(0)
    assert not first.done()  # other work runs between the families
    second = await rendered.text()
    assert b"b 1.0" in await first
    assert b"b 2.0" in second


async def test_scraper_that_goes_does_not_end_the_rendering_of_others(rendered: Exposition) -> None:
    tasks = [asyncio.create_task(rendered.text()) for _ in range(2)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    assert await tasks[1]


def test_renderings_wait_after_a_burst(
    rendered: Exposition, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        now = 0.0

        @classmethod
        def perf_counter(cls) -> float:
            return cls.now

    monkeypatch.setattr(prometheus, "time", Clock)
    monkeypatch.setattr(prometheus, "BURST_SECONDS", 0.5)
    rendered.counted = 0.0
    rendered.debt_seconds = 0.5
    assert rendered.wait_seconds() == 0
    rendered.debt_seconds = 0.6
    assert rendered.wait_seconds() == pytest.approx(2)
    Clock.now = 2.0
    assert rendered.wait_seconds() == pytest.approx(0)
    Clock.now = 100.0
    assert rendered.wait_seconds() == rendered.debt_seconds == 0


BOUNDS = (0.0, 0.05, 0.1, 1.0, 2.5, 1024.0)


def lines(registry: CollectorRegistry) -> list[str]:
    disable_created_metrics()
    return generate_latest(registry).decode().splitlines()


def test_a_scrape_is_that_of_the_librarys_own() -> None:
    ours_registry, theirs_registry = CollectorRegistry(), CollectorRegistry()
    ours = Histogram("rows", "Rows of a call.", ("model", "phase"), BOUNDS, ours_registry)
    theirs = Theirs(
        "rows", "Rows of a call.", ("model", "phase"), buckets=BOUNDS, registry=theirs_registry
    )
    chance = random.Random(3)
    values = [*BOUNDS, -1.0, 5000.0, *(chance.uniform(0, 3) for _ in range(50))]
    for labels in (("en-pt", "encode"), ("en-pt", "decode")):
        ours.labels(*labels)
        theirs.labels(*labels)
        for value in values:
            observe([(ours.labels(*labels), value)])
            theirs.labels(*labels).observe(value)
    assert lines(ours_registry) == lines(theirs_registry)
