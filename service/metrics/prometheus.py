"""Adds to Prometheus' client library a fast histogram and a rendering that delays no requests.

An observation of our histogram is a binary search and two additions. In the library's, it takes six
times as long. Our histogram passes its counts to the library when /metrics is scraped. Only one
thread may use it.

An exemplar is one observation in a bucket, together with the trace id of the observed request.
Only the OpenMetrics format has exemplars.
"""

import asyncio
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Exemplar, HistogramMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

Bucket = tuple[str, float] | tuple[str, float, Exemplar]

SLICE_SECONDS = 0.001
"""Time after which a rendering lets other work run."""

BURST_SECONDS = 0.5
"""Rendering time that a burst of scrapes may take. Then SHARE limits the renderings."""

SHARE = 0.05
"""Largest share of the time that renderings of more than SLICE_SECONDS take after a burst."""

OPENMETRICS_END = b"# EOF\n"


class Series:
    """The counts of one combination of label values; `bounds` are ascending and inclusive.

    One more bucket takes all larger values.
    """

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.exemplars: dict[int, Exemplar] = {}

    def buckets(self) -> list[Bucket]:
        """Returns each bound with the number of values up to it, and the exemplar if any."""
        names = [*map(str, map(float, self.bounds)), "+Inf"]
        found: list[Bucket] = [*zip(names, map(float, accumulate(self.counts)), strict=True)]
        for index, exemplar in self.exemplars.items():
            found[index] = (*found[index][:2], exemplar)
        return found


def observe(samples: Sequence[tuple[Series, float]], count: int = 1, trace_id: str = "") -> None:
    """Counts each value in its series `count` times, as exemplars if there is a trace id."""
    for series, value in samples:
        series.counts[bisect_left(series.bounds, value)] += count
        series.total += value * count
    if trace_id:
        for series, value in samples:
            exemplar = Exemplar({"trace_id": trace_id}, value, time.time())
            series.exemplars[bisect_left(series.bounds, value)] = exemplar


class Histogram:
    """A histogram metric with one series for each combination of label values."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self.name = name
        self.text = text
        self.label_names = labels
        # The series by label values. A series is created when it is first looked up.
        self.series = defaultdict[tuple[str, ...], Series](lambda: Series(bounds))
        registry.register(self)

    def labels(self, *values: str) -> Series:
        return self.series[values]

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self.name, self.text, labels=self.label_names)
        for values, series in self.series.items():
            family.add_metric(values, series.buckets(), series.total)
        yield family


class Amounts(Collector):
    """Amounts that are added to the library's metrics when they are collected.

    The keys of `waiting` are a metric and the values of its labels. The library takes ten times as
    long to add an amount. This collector must be the first one of its registry.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.waiting = defaultdict[tuple[Any, ...], float](float)
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        while self.waiting:
            (metric, *labels), amount = self.waiting.popitem()
            metric.labels(*labels).inc(amount)
        return ()


class Exposition:
    """Renders the metrics of a registry for any number of scrapers.

    Scrapes that arrive during a rendering wait for its end. They all get the text of the next
    rendering. After each slice of a rendering, other work gets as much time as the slice took.
    OpenMetrics has exemplars; Prometheus' text format has none.
    """

    def __init__(self, registry: CollectorRegistry, is_openmetrics: bool = False) -> None:
        self.registry = registry
        self.is_openmetrics = is_openmetrics
        self.next: asyncio.Task[bytes] | None = None  # a rendering that has not begun
        self.last: asyncio.Task[bytes] | None = None
        self.debt_seconds = 0.0
        self.counted = time.perf_counter()

    async def text(self) -> bytes:
        if self.next is None:
            self.next = asyncio.create_task(self._render(self.last))
        return await asyncio.shield(self.next)

    async def _render(self, last: asyncio.Task[bytes] | None) -> bytes:
        if last is not None and not last.done():
            await asyncio.wait([last])
        await asyncio.sleep(self.wait_seconds())
        self.last, self.next = self.next, None
        render = openmetrics.generate_latest if self.is_openmetrics else generate_latest
        end = OPENMETRICS_END if self.is_openmetrics else b""
        parts = []
        start = time.perf_counter()
        for family in self.registry.collect():
            one = SimpleNamespace(collect=lambda family=family: [family])
            parts.append(render(one).removesuffix(end))
            if (seconds := time.perf_counter() - start) > SLICE_SECONDS:
                self.debt_seconds += seconds
                await asyncio.sleep(seconds)
                start = time.perf_counter()
        return b"".join([*parts, end])

    def wait_seconds(self) -> float:
        now = time.perf_counter()
        self.debt_seconds = max(0.0, self.debt_seconds - SHARE * (now - self.counted))
        self.counted = now
        return max(0.0, (self.debt_seconds - BURST_SECONDS) / SHARE)
