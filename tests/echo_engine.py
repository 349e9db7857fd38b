"""An engine for tests of `regard bulk`: the translation of a text is the text in capitals.

The tests of the translator prove what the engine of a real job computes.
"""

import asyncio
from collections.abc import Sequence

from service.bulk.job import JobOptions
from service.bulk.rows import Outcome, Row
from service.settings import Settings

SECONDS = 0.01
SLOW_SECONDS = 0.3


class EchoEngine:
    """Computes rows without a model."""

    rows_in_flight = 50

    def __init__(self, options: JobOptions, settings: Settings, cores: int) -> None:
        self.options = options

    async def start(self) -> None:
        """Loads nothing."""

    async def compute(self, rows: Sequence[Row]) -> list[Outcome]:
        await asyncio.sleep(SECONDS)
        return [Outcome(None if row.text is None else row.text.upper(), row.error) for row in rows]

    async def stop(self) -> None:
        """Ends nothing."""

    def cpu_seconds(self) -> float:
        return 0.0


class RecordingEngine(EchoEngine):
    """Keeps the rows in the order in which they are computed."""

    def __init__(self, options: JobOptions, settings: Settings, cores: int) -> None:
        super().__init__(options, settings, cores)
        self.rows: list[Row] = []

    async def compute(self, rows: Sequence[Row]) -> list[Outcome]:
        self.rows += rows
        return await super().compute(rows)


class SlowEngine(EchoEngine):
    """Takes SLOW_SECONDS for each chunk, so that a test can kill its process before the end."""

    async def compute(self, rows: Sequence[Row]) -> list[Outcome]:
        await asyncio.sleep(SLOW_SECONDS)
        return await super().compute(rows)
