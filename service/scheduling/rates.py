"""Limits the requests and the characters per minute of each API key."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from service.errors import RateLimitedError, RequestTooLargeError
from service.settings.keys import RateLimits

MINUTE = 60.0


@dataclass(slots=True)
class Bucket:
    """A token bucket, which refills from empty to full in one minute.

    Attributes:
        left: Number of units (requests or characters) that may be used at time `since`.
        since: Time of the last refill, by time.monotonic.
    """

    left: float
    since: float

    def refill(self, limit: int, now: float) -> None:
        """Adds the units for the time since the last refill."""
        self.left = min(limit, self.left + (now - self.since) * limit / MINUTE)
        self.since = now


class Rates:
    """Counts the requests and the characters of each account. Each API key has one account.

    The core, the part of the server that exists once, holds these counts. All HTTP processes
    therefore share them. Used units come back evenly. After a minute without requests, an account
    may use its whole limit at once.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.buckets: dict[tuple[str, str], Bucket] = {}

    def take(self, account: str, limits: RateLimits, characters: int) -> None:
        """Counts a request with a number of characters. A refused request does not count.

        Raises:
            RequestTooLargeError: The request alone has more characters than the limit.
            RateLimitedError: The account has too few requests or characters left.
        """
        now = self.clock()
        wanted = (("requests", limits.requests, 1), ("characters", limits.characters, characters))
        for unit, limit, number in wanted:
            if limit:
                self._check(account, unit, limit, number, now)
        for unit, limit, number in wanted:
            if limit:
                self.buckets[account, unit].left -= number

    def _check(self, account: str, unit: str, limit: int, number: int, now: float) -> None:
        if number > limit:
            raise RequestTooLargeError(
                f"the request has {number} {unit}; its key may send {limit} a minute. "
                "Send it in parts, or raise the limit in the file of keys."
            )
        bucket = self.buckets.setdefault((account, unit), Bucket(limit, now))
        bucket.refill(limit, now)
        if bucket.left < number:
            seconds = max(1, math.ceil((number - bucket.left) * MINUTE / limit))
            raise RateLimitedError(
                f"Slowdown: {limit} per 1 minute",  # LibreTranslate's text
                seconds,
                unit,
                f"the key may send {limit} {unit} a minute; try again in {seconds} s, "
                "or raise the limit in the file of keys",
            )
