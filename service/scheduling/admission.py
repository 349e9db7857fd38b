"""Limits the work in progress, and the requests and characters per minute of each API key."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from service.errors import OverloadedError, RateLimitedError, RequestTooLargeError
from service.settings.keys import RateLimits

MAX_RETRY_SECONDS = 60
WINDOW_SECONDS = 10.0
MINUTE = 60.0


def retry_seconds(seconds: float) -> int:
    """Returns the value of Retry-After: whole seconds, from 1 to MAX_RETRY_SECONDS."""
    return min(MAX_RETRY_SECONDS, max(1, math.ceil(seconds)))


class Throughput:
    """Measures finished tokens per second over the last WINDOW_SECONDS."""

    def __init__(self) -> None:
        self.events: deque[tuple[float, int]] = deque()
        self.tokens = 0

    def add(self, tokens: int) -> None:
        now = time.monotonic()
        self.events.append((now, tokens))
        self.tokens += tokens
        while self.events[0][0] < now - WINDOW_SECONDS:
            self.tokens -= self.events.popleft()[1]

    def seconds_for(self, tokens: int) -> int:
        return retry_seconds(self.exact_seconds_for(tokens))

    def exact_seconds_for(self, tokens: int) -> float:
        """Estimates the seconds until `tokens` tokens are finished; 0 if none finished lately."""
        self.add(0)
        if not self.tokens:
            return 0.0
        span = max(1.0, time.monotonic() - self.events[0][0])
        return tokens * span / self.tokens


@dataclass(eq=False)
class Admission:
    """Counts requests and tokens between admission and reply. Above the limits, it refuses."""

    max_requests: int
    max_tokens: int
    requests: int = 0
    tokens: int = 0
    throughput: Throughput = field(default_factory=Throughput)

    @property
    def utilization(self) -> float:
        """Used share of the request limit or of the token limit, whichever is larger."""
        return max(self.requests / self.max_requests, self.tokens / self.max_tokens)

    def admit(self, tokens: int) -> None:
        """Counts a request of about `tokens` tokens until `release` is called.

        The check and the count are one step, so requests that arrive at the same time cannot exceed
        the limits together.
        """
        self._check(1, tokens, tokens)
        self.requests += 1
        self.tokens += tokens

    def adjust(self, old: int, new: int) -> None:
        self._check(0, new - old, new)
        self.tokens += new - old

    def release(self, tokens: int) -> None:
        self.requests -= 1
        self.tokens -= tokens

    def _check(self, requests: int, tokens: int, size: int) -> None:
        if size > self.max_tokens:
            raise RequestTooLargeError(
                f"the request has about {size} tokens; the limit is {self.max_tokens}. "
                "Send it in parts, or raise REGARD_MAX_PENDING_TOKENS."
            )
        if self.requests + requests > self.max_requests:
            raise OverloadedError(
                f"{self.requests} requests are in progress; the limit is {self.max_requests}. "
                "Try again later.",
                self.throughput.seconds_for(self.tokens),
                "requests",
            )
        if tokens > 0 and self.tokens + tokens > self.max_tokens:
            raise OverloadedError(
                f"{self.tokens} tokens are in progress; with {tokens} more they would pass the "
                f"limit of {self.max_tokens}. Try again later.",
                self.throughput.seconds_for(self.tokens + tokens - self.max_tokens),
                "tokens",
            )


def late(needed: float, seconds: float) -> OverloadedError:
    return OverloadedError(
        f"the request and those before it would take up to {needed:.1f} s, but its deadline is in "
        f"{max(seconds, 0.0):.1f} s. Try again later, or allow more time.",
        retry_seconds(needed - seconds),
        "deadline",
    )


@dataclass(slots=True)
class Bucket:
    """A token bucket, which refills from empty to full in one minute."""

    left: float  # requests or characters that may be used at time `since`
    since: float  # last refill, by time.monotonic

    def refill(self, limit: int, now: float) -> None:
        self.left = min(limit, self.left + (now - self.since) * limit / MINUTE)
        self.since = now


class Rates:
    """Counts the requests and the characters of each account. Each API key has one account.

    The core holds these counts, so all HTTP processes share them. Used units come back evenly.
    After a minute without requests, an account may use its whole limit at once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.buckets: dict[tuple[str, str], Bucket] = {}

    def take(self, account: str, limits: RateLimits, characters: int) -> None:
        """Counts a request with a number of characters. A refused request does not count."""
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
