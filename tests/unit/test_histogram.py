"""Ours against the client library's own, as they are scraped."""

import random

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as Theirs

from service.metrics.histogram import Histogram

BOUNDS = (0.0, 0.05, 0.1, 1.0, 2.5, 1024.0)


def lines(registry: CollectorRegistry) -> list[str]:
    return [
        line for line in generate_latest(registry).decode().splitlines() if "_created" not in line
    ]


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
            ours.labels(*labels).observe(value)
            theirs.labels(*labels).observe(value)
    assert lines(ours_registry) == lines(theirs_registry)


def test_a_series_is_there_at_zero_once_it_was_named() -> None:
    registry = CollectorRegistry()
    histogram = Histogram("rows", "Rows.", ("model",), BOUNDS, registry)
    assert not [line for line in lines(registry) if not line.startswith("#")]
    histogram.labels("en-pt")
    assert 'rows_count{model="en-pt"} 0.0' in lines(registry)
    assert histogram.labels("en-pt") is histogram.labels("en-pt")


def test_a_name_is_taken_once() -> None:
    registry = CollectorRegistry()
    Histogram("rows", "Rows.", (), BOUNDS, registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Histogram("rows", "Rows.", (), BOUNDS, registry)
