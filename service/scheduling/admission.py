"""Limits the requests and tokens in progress, and estimates when there is room for more."""

import math
import time
from collections import deque
from dataclasses import dataclass

from service.errors import OverloadedError, RequestTooLargeError

MAX_RETRY_SECONDS = 60
WINDOW_SECONDS = 10.0


class Throughput:
    """Measures finished tokens per second over the last WINDOW_SECONDS."""

    def __init__(self) -> None:
        self.events: deque[tuple[float, int]] = deque()
        self.tokens = 0

    def add(self, tokens: int) -> None:
        """Counts the tokens of items that have just finished."""
        self.events.append((time.monotonic(), tokens))
        self.tokens += tokens
        self._forget()

    def seconds_for(self, tokens: int) -> int:
        """Estimates the seconds until `tokens` tokens are finished: from 1 to MAX_RETRY_SECONDS."""
        return min(MAX_RETRY_SECONDS, max(1, math.ceil(self.exact_seconds_for(tokens))))

    def exact_seconds_for(self, tokens: int) -> float:
        """Estimates the seconds until `tokens` tokens are finished; 0 if none finished lately."""
        self._forget()
        if not self.tokens:
            return 0.0
        span = max(1.0, time.monotonic() - self.events[0][0])
        return tokens * span / self.tokens

    def _forget(self) -> None:
        since = time.monotonic() - WINDOW_SECONDS
        while self.events and self.events[0][0] < since:
            self.tokens -= self.events.popleft()[1]


@dataclass(slots=True)
class Reservation:
    """The capacity that is counted for one request until `release` is called.

    Attributes:
        admission: The Admission whose counts include the reservation.
        tokens: Number of tokens counted for the request. It is an estimate until the request is
            tokenised.
    """

    admission: "Admission"
    tokens: int

    def release(self) -> None:
        """Gives the capacity back. A second call would give it back twice."""
        self.admission.requests -= 1
        self.admission.tokens -= self.tokens


class Admission:
    """Counts requests and tokens between admission and reply.

    Args:
        max_requests: Largest number of requests in progress; further requests are refused.
        max_tokens: Largest number of tokens in progress; further requests are refused.
    """

    def __init__(self, max_requests: int, max_tokens: int) -> None:
        self.max_requests = max_requests
        self.max_tokens = max_tokens
        self.requests = 0
        self.tokens = 0
        self.throughput = Throughput()

    @property
    def utilization(self) -> float:
        """Used share of the request limit or of the token limit, whichever share is larger."""
        return max(self.requests / self.max_requests, self.tokens / self.max_tokens)

    def reserve(self, tokens: int) -> Reservation:
        """Reserves capacity for a request of about `tokens` tokens.

        The check and the count are one step, before anything is computed. Requests that
        arrive at the same time can therefore not exceed the limits together.

        Raises:
            RequestTooLargeError: The request alone exceeds the token limit.
            OverloadedError: The requests in progress leave no room for this one.
        """
        self._check(1, tokens)
        self.requests += 1
        self.tokens += tokens
        return Reservation(self, tokens)

    def adjust(self, reservation: Reservation, tokens: int) -> None:
        """Replaces the estimated number of tokens of a request by the counted number.

        Raises:
            RequestTooLargeError: The request alone exceeds the token limit.
            OverloadedError: The requests in progress leave no room for this one.
        """
        self._check(0, tokens - reservation.tokens, total=tokens)
        self.tokens += tokens - reservation.tokens
        reservation.tokens = tokens

    def grow(self, reservation: Reservation, tokens: int) -> None:
        """Raises the count of an admitted request to `tokens`.

        Does nothing if the count is already that high. The limits are not checked.
        """
        more = max(0, tokens - reservation.tokens)
        self.tokens += more
        reservation.tokens += more

    def _check(self, requests: int, tokens: int, total: int | None = None) -> None:
        size = tokens if total is None else total
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
    """Returns the error for a request that would probably miss its deadline.

    Args:
        needed: Predicted time until the request is done, margin included, in seconds.
        seconds: Time that the request has left, in seconds.
    """
    excess = math.ceil(needed - seconds)
    return OverloadedError(
        f"the request and those before it would take up to {needed:.1f} s, but its deadline is in "
        f"{max(seconds, 0.0):.1f} s. Try again later, or allow more time.",
        min(MAX_RETRY_SECONDS, max(1, excess)),
        "deadline",
    )
