"""Renders all metrics as text for Prometheus, without delaying requests."""

import asyncio
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

SLICE_SECONDS = 0.001
"""Time after which a rendering lets other work run."""

BURST_SECONDS = 0.5
"""Rendering time that a burst of scrapes may take. Then SHARE limits the renderings."""

SHARE = 0.05
"""After a burst, renderings of one format take at most this share of the time. A rendering that
takes less than SLICE_SECONDS does not count."""

OPENMETRICS_END = b"# EOF\n"


class Exposition:
    """Renders the metrics of a registry for any number of scrapers.

    Scrapes that arrive during a rendering wait for its end. They all get the text of the next
    rendering. After each slice of a rendering, other work gets as much time as the slice took.

    Args:
        registry: Registry of the metrics.
        is_openmetrics: Whether the format is OpenMetrics, which has exemplars. The default is
            Prometheus' text format.
    """

    def __init__(self, registry: CollectorRegistry, is_openmetrics: bool = False) -> None:
        self.registry = registry
        self.is_openmetrics = is_openmetrics
        self.next: asyncio.Task[bytes] | None = None  # a rendering that has not begun
        self.last: asyncio.Task[bytes] | None = None
        self.debt_seconds = 0.0
        self.counted = time.perf_counter()

    async def text(self) -> bytes:
        """Returns all metrics, with values that are read after this call."""
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
            parts.append(render(_OneFamily(family)).removesuffix(end))
            if (seconds := time.perf_counter() - start) > SLICE_SECONDS:
                self.debt_seconds += seconds
                await asyncio.sleep(seconds)
                start = time.perf_counter()
        return b"".join([*parts, end])

    def wait_seconds(self) -> float:
        """Returns the time until the next rendering may begin; 0 if it may begin now."""
        now = time.perf_counter()
        self.debt_seconds = max(0.0, self.debt_seconds - SHARE * (now - self.counted))
        self.counted = now
        return max(0.0, (self.debt_seconds - BURST_SECONDS) / SHARE)


class _OneFamily(Collector):
    def __init__(self, family: Metric) -> None:
        self.family = family

    def collect(self) -> Iterator[Metric]:
        yield self.family
