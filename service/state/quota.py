"""The limit on the characters that the server translates for an API key in a calendar month."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from service.errors import QuotaExceededError
from service.state.database import Database


class Quota:
    """Counts the characters of each account in the current month (UTC).

    Each API key has an account. On a server without API keys, all clients share one account. All
    processes of the server share the counts. Without a limit nothing is counted.

    Args:
        database: Holds the counts.
        limit: Largest number of characters of an account in a month; 0 for no limit.
    """

    def __init__(self, database: Database, limit: int) -> None:
        self.database = database
        self.limit = limit

    @asynccontextmanager
    async def spent(self, account: str, number: int) -> AsyncIterator[None]:
        """Counts characters before the `with` block, and subtracts them again if the block fails.

        Raises:
            QuotaExceededError: The account would exceed the limit.
        """
        if not self.limit:
            yield
            return
        month = this_month()
        await asyncio.to_thread(self._spend, account, month, number)
        try:
            yield
        except BaseException:
            await asyncio.to_thread(self._add, account, month, -number)
            raise

    async def check(self, account: str, number: int) -> None:
        """Checks that an account may still use a number of characters, without counting them.

        Raises:
            QuotaExceededError: The account would exceed the limit.
        """
        if self.limit:
            self._refuse_over(await self.used(account), number)

    async def used(self, account: str) -> int:
        """Returns the number of characters that an account has used this month."""
        return await asyncio.to_thread(self._add, account, this_month(), 0)

    def _spend(self, account: str, month: str, number: int) -> None:
        self._refuse_over(self._add(account, month, number, self.limit), number)

    def _refuse_over(self, used: int, number: int) -> None:
        if used + number > self.limit:
            raise QuotaExceededError(
                f"{used} of {self.limit} characters of this month are used, and the request has "
                f"{number}; send fewer, wait for the next month, or raise REGARD_MONTHLY_CHARACTERS"
            )

    def _add(self, account: str, month: str, number: int, limit: float = float("inf")) -> int:
        """Adds characters to an account unless the sum would exceed the limit.

        Returns the number of characters before the addition.
        """
        with self.database.transaction() as connection:
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
    """Returns the current month in UTC, such as 2026-11."""
    return datetime.now(UTC).strftime("%Y-%m")
