"""How much may be admitted and not yet answered, and when there will be room again."""

import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Self

from service.errors import OverloadedError, RequestTooLargeError

MAX_RETRY_SECONDS = 60
WINDOW_SECONDS = 10.0


class Throughput:
    """Tokens a second, over the last seconds."""

    def __init__(self) -> None:
        self.events: deque[tuple[float, int]] = deque()
        self.tokens = 0

    def add(self, tokens: int) -> None:
        """Counts tokens whose translation has just come."""
        self.events.append((time.monotonic(), tokens))
        self.tokens += tokens
        self._forget()

    def seconds_for(self, tokens: int) -> int:
        """How long that many tokens should take: 1 to MAX_RETRY_SECONDS."""
        self._forget()
        if not self.tokens:
            return 1
        span = max(1.0, time.monotonic() - self.events[0][0])
        return min(MAX_RETRY_SECONDS, max(1, math.ceil(tokens * span / self.tokens)))

    def _forget(self) -> None:
        since = time.monotonic() - WINDOW_SECONDS
        while self.events and self.events[0][0] < since:
            self.tokens -= self.events.popleft()[1]


@dataclass(slots=True)
class Reservation:
    """The place that one request holds while it lasts.

    Attributes:
        admission: Where it is held.
        tokens: What it is taken for: an estimate until it is tokenised.
    """

    admission: "Admission"
    tokens: int

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.admission.requests -= 1
        self.admission.tokens -= self.tokens


class Admission:
    """Counts requests and source tokens between admission and answer.

    Args:
        max_requests: More are refused.
        max_tokens: Likewise.
    """

    def __init__(self, max_requests: int, max_tokens: int) -> None:
        self.max_requests = max_requests
        self.max_tokens = max_tokens
        self.requests = 0
        self.tokens = 0
        self.throughput = Throughput()

    def reserve(self, tokens: int) -> Reservation:
        """Takes a place for a request of about so many tokens, to be held by `with`.

        It is taken at once, before anything is computed, so that a burst cannot pass the limit
        between the check and the count.

        Raises:
            RequestTooLargeError: The request alone is over the limit.
            OverloadedError: There is no room now.
        """
        self._check(1, tokens)
        self.requests += 1
        self.tokens += tokens
        return Reservation(self, tokens)

    def adjust(self, reservation: Reservation, tokens: int) -> None:
        """Replaces the estimate by the real number.

        Raises:
            RequestTooLargeError: The request alone is over the limit.
            OverloadedError: There is no room now.
        """
        self._check(0, tokens - reservation.tokens, total=tokens)
        self.tokens += tokens - reservation.tokens
        reservation.tokens = tokens

    def _check(self, requests: int, tokens: int, total: int | None = None) -> None:
        size = tokens if total is None else total
        if size > self.max_tokens:
            raise RequestTooLargeError(
                f"the request has about {size} tokens; the limit is {self.max_tokens}. "
                "Send it in parts, or raise REGARD_MAX_PENDING_TOKENS."
            )
        if self.requests + requests > self.max_requests:
            raise OverloadedError(
                f"{self.requests} requests are waiting; the limit is {self.max_requests}. "
                "Try again later.",
                self.throughput.seconds_for(self.tokens),
                "requests",
            )
        if tokens > 0 and self.tokens + tokens > self.max_tokens:
            raise OverloadedError(
                f"{self.tokens} tokens are waiting; with {tokens} more they would pass the limit "
                f"of {self.max_tokens}. Try again later.",
                self.throughput.seconds_for(self.tokens + tokens - self.max_tokens),
                "tokens",
            )
