"""Limits the characters that the server translates for an API key in a calendar month."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from service.errors import QuotaExceededError, UnavailableError
from service.state.database import Database


class Quota:
    """Counts the characters of each account in the current month (UTC).

    Each API key has an account. On a server without API keys, all clients share one account.
    Without a limit (0) nothing is counted. If the database cannot be used, all methods raise
    UnavailableError, because a translation whose characters are not counted would exceed the limit.
    """

    def __init__(self, database: Database, limit: int) -> None:
        self.database = database
        self.limit = limit

    @asynccontextmanager
    async def spent(self, account: str, number: int) -> AsyncIterator[None]:
        """Counts characters unless the block of the context manager fails."""
        if not self.limit:
            yield
            return
        month = this_month()
        spending = asyncio.ensure_future(self.database.call(self._spend, account, month, number))
        try:
            await asyncio.shield(spending)
            yield
        except BaseException:
            await asyncio.wait([spending])  # after a cancellation, the thread goes on
            if spending.exception() is None:
                with suppress(UnavailableError):  # the block's own error is raised
                    await self.database.call(self.add, account, month, -number)
            raise

    def _spend(self, account: str, month: str, number: int) -> None:
        self.refuse_over(self.add(account, month, number, self.limit), number)

    async def check(self, account: str, number: int) -> None:
        if self.limit:
            self.refuse_over(await self.used(account), number)

    async def used(self, account: str) -> int:
        return await self.database.call(self.add, account, this_month(), 0)

    def refuse_over(self, used: int, number: int) -> None:
        if used + number > self.limit:
            raise QuotaExceededError(
                f"{used} of {self.limit} characters of this month are used, and the request has "
                f"{number}; send fewer, wait for the next month, or raise REGARD_MONTHLY_CHARACTERS"
            )

    def add(self, account: str, month: str, number: int, limit: float = float("inf")) -> int:
        """Adds characters within the limit; returns the number before the addition."""
        with self.database.transaction(has_writes=number != 0) as connection:
            found = connection.execute(
                "SELECT characters FROM usage WHERE (account, month) = (?, ?)", (account, month)
            ).fetchone()
            used: int = found[0] if found else 0
            if number and used + number <= limit:
                connection.execute(
                    "INSERT OR REPLACE INTO usage (account, month, characters) VALUES (?, ?, ?)",
                    (account, month, used + number),
                )
        return used


def this_month() -> str:
    return datetime.now(UTC).strftime("%Y-%m")
