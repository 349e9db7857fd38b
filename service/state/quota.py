"""Limits the characters that the server translates for an API key in a calendar month."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from service.errors import QuotaExceededError, UnavailableError
from service.state.database import Database


class Quota:
    """Counts the characters of each account in the current month (UTC).

    Each API key has an account. On a server without API keys, all clients share one account. All
    processes of the server share the counts. Without a limit nothing is counted. If the database
    cannot be used, counting and reading raise UnavailableError, because a translation whose
    characters are not counted would exceed the limit.

    Args:
        database: Holds the counts.
        limit: Largest number of characters of an account in a month; 0 means no limit.
    """

    def __init__(self, database: Database, limit: int) -> None:
        self.database = database
        self.limit = limit

    def spent(self, account: str, number: int) -> "Spending":
        """Returns a context manager that counts characters unless its block fails."""
        return Spending(self, account, number)

    async def check(self, account: str, number: int) -> None:
        """Checks that an account may still use a number of characters, without counting them."""
        if self.limit:
            self.refuse_over(await self.used(account), number)

    async def used(self, account: str) -> int:
        """Returns the number of characters that an account has used this month."""
        return await self.database.call(self.add, account, this_month(), 0)

    def refuse_over(self, used: int, number: int) -> None:
        """Refuses a request of `number` characters if `used` + `number` exceeds the limit."""
        if used + number > self.limit:
            raise QuotaExceededError(
                f"{used} of {self.limit} characters of this month are used, and the request has "
                f"{number}; send fewer, wait for the next month, or raise REGARD_MONTHLY_CHARACTERS"
            )

    def add(self, account: str, month: str, number: int, limit: float = float("inf")) -> int:
        """Adds characters to an account unless the sum would exceed the limit.

        Returns:
            The number of characters before the addition.
        """
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


class Spending:
    """Counts characters of an account when a block begins; subtracts them if the block fails.

    Args:
        quota: Holds the counts. If it has no limit, nothing is counted.
        account: The account.
        number: Number of characters.
    """

    __slots__ = ("account", "month", "number", "quota")

    def __init__(self, quota: Quota, account: str, number: int) -> None:
        self.quota = quota
        self.account = account
        self.number = number
        self.month = ""

    async def __aenter__(self) -> None:
        """Counts the characters."""
        if self.quota.limit:
            self.month = this_month()
            spending = asyncio.ensure_future(self.quota.database.call(self._spend))
            try:
                await asyncio.shield(spending)
            except asyncio.CancelledError as error:  # the thread goes on
                await asyncio.wait([spending])
                if spending.exception() is None:
                    await self.__aexit__(type(error))
                raise

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Subtracts the characters if the block failed."""
        if self.month and kind is not None:
            with suppress(UnavailableError):  # the block's own error is raised
                await self.quota.database.call(
                    self.quota.add, self.account, self.month, -self.number
                )

    def _spend(self) -> None:
        used = self.quota.add(self.account, self.month, self.number, self.quota.limit)
        self.quota.refuse_over(used, self.number)


def this_month() -> str:
    """Returns the current month in UTC, such as 2026-11."""
    return datetime.now(UTC).strftime("%Y-%m")
