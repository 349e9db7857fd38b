"""A histogram for what is counted many times a request: a binary search and two additions.

The client library's own walks through its buckets under a lock, six times as long; this one hands
its counts to the library when it is scraped. For one thread.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily


class Series:
    """The counts of one combination of labels.

    Args:
        bounds: The largest value of each bucket, ascending; what is beyond the last is counted too.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """Counts one value, or the same one several times."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def buckets(self) -> list[tuple[str, float]]:
        """(bound, how many values are no larger), the last bound being infinite."""
        names = [*map(str, map(float, self.bounds)), "+Inf"]
        return list(zip(names, map(float, accumulate(self.counts)), strict=True))


class Histogram:
    """All series of one name.

    Args:
        name: Of the metric.
        text: Its help text.
        labels: Names of its labels.
        bounds: As of a series.
        registry: Who asks for it.
    """

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
        self.bounds = bounds
        self.series: dict[tuple[str, ...], Series] = {}
        registry.register(self)

    def labels(self, *values: str) -> Series:
        """The series with these labels; it exists from now on."""
        if values not in self.series:
            self.series[values] = Series(self.bounds)
        return self.series[values]

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """Its name and text alone, for the registry."""
        yield HistogramMetricFamily(self.name, self.text, labels=self.label_names)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """All series as they are now."""
        family = HistogramMetricFamily(self.name, self.text, labels=self.label_names)
        for values, series in self.series.items():
            family.add_metric(values, series.buckets(), series.total)
        yield family
