"""Checks at the start, and again and again, whether the state can be used."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from service.state.database import Database

logger = logging.getLogger("regard.state")

CHECK_SECONDS = 10.0
UNCHECKED = "its file is being opened"


class StateWatch:
    """Checks whether the state can be used.

    Args:
        database: The state.
        is_needed: Whether settings need the state. Without them, the file is not created.
        report: Called after each check with True if the state can be used, or else with False.

    Attributes:
        fault: The reason why the state cannot be used; "" if it can be used.
    """

    def __init__(
        self, database: Database, is_needed: bool, report: Callable[[bool], object]
    ) -> None:
        self.database = database
        self.is_needed = is_needed
        self.report = report
        self.fault = UNCHECKED if is_needed else ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Checks the state at once and every CHECK_SECONDS, until the context ends."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()

    async def _run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Checks the state now."""
        fault = await self.database.call(self.database.fault, self.is_needed)
        if fault and not self.database.failures.reason and fault != self.fault:
            folder = self.database.folder
            logger.warning("the state cannot be stored in %s, because %s", folder, fault)
        self.fault = fault
        self.report(not fault)
