"""Keeps the turns of an event loop short while more requests arrive than the process can handle.

A turn begins when the loop reads requests, and ends when each of them waits for something. If turns
get longer and longer, even admitted requests are answered too late. This module therefore refuses
some requests before their bodies are read, which takes much less time than a later refusal.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter, thread_time

from service.errors import OverloadedError
from service.http_server.byte_budget import SMALL_BYTES

TARGET_SECONDS = 0.02
"""The limit on the requests of a turn is chosen so that a turn takes about this time.

If the server has just refused requests because of another limit, such as a deadline, a longer turn
shows an overload.
"""

LONG_CPU_SECONDS = 0.1
"""A turn with more CPU seconds than this shows an overload, even if no request was refused.

A hundred clients that each wait for the response cause no such turn.
"""

PATIENCE_SECONDS = 0.2
"""Time for which all turns must be too long before requests are refused.

The overload ends when turns have refused nothing for this time.
"""

MIN_REQUESTS = 8  # smallest limit on the requests of a turn

SPARE = 1.25
"""During an overload, a client may send at most about SPARE * M requests in each turn.

M is the mean number of the client's useful requests in a turn. A request is useful if it is not
refused because of another limit after its body has been read. Such a late refusal takes several
times as long as an early one.
"""

SMOOTHING = 0.25  # weight of the last turn in the mean number of useful requests of a client


def first_values(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Returns headers by name. The first one of several headers with the same name counts."""
    return dict(headers[::-1])


def content_length(headers: Mapping[bytes, bytes]) -> int:
    """Returns the announced size of a body in bytes; 0 without a valid Content-Length."""
    announced = headers.get(b"content-length", b"0")
    return int(announced) if announced.isdigit() else 0


def account_of(address: str, headers: Mapping[bytes, bytes]) -> str:
    """Returns the name under which a request is counted.

    If many large bodies are refused, the short requests of the same address keep their share.
    """
    size = headers.get(b"content-length", b"0")
    is_small = len(size) < 6 and size.isdigit() and int(size) <= SMALL_BYTES
    return address if is_small and b"transfer-encoding" not in headers else address + " large"


@dataclass(slots=True)
class Turn:
    began: float
    cpu_began: float | None  # CPU time of the thread; None if not measured
    handled: dict[str, int] = field(default_factory=dict)
    num_refused: int = 0


@dataclass(eq=False)
class LoopLoad:
    """Measures the turns that have requests, and limits the number of requests in a turn."""

    clock: Callable[[], float] = perf_counter
    cpu_clock: Callable[[], float] = thread_time
    is_overloaded: bool = False  # whether turns have a limit
    limit: int = MIN_REQUESTS  # requests of a turn; each client may send an equal share of them
    turn_began: float = 0.0  # time at which the turn of the last request began, in seconds
    _turn: Turn | None = None  # the turn whose requests are being read
    _was_long: bool = False  # whether the last turn lasted more than LONG_CPU_SECONDS
    _num_clients: int = 1  # number of clients of the last turn
    # Number of requests refused because of other limits since the last turn, by client.
    _refused: Counter[str] = field(default_factory=Counter)
    # Mean number of useful requests of a turn, by client.
    _useful: dict[str, float] = field(default_factory=dict)
    # Time since which every turn calls for the other value of `is_overloaded`, or None.
    _changing_since: float | None = None

    def admits(self, client: str) -> bool:
        """Counts a request of this turn. Returns whether the turn has time left for the client."""
        turn = self._turn
        if turn is None:
            # Reading the CPU time takes a tenth of the time of a request. The time is therefore
            # read only in a turn that follows a long turn.
            cpu_began = self.cpu_clock() if self._was_long else None
            turn = self._turn = Turn(self.clock(), cpu_began)
            self.turn_began = turn.began
            asyncio.get_running_loop().call_soon(self._close)
        handled = turn.handled.get(client, 0)
        if self.is_overloaded and handled >= self._share(client):
            turn.num_refused += 1
            return False
        turn.handled[client] = handled + 1
        return True

    def _share(self, client: str) -> int:
        share = max(1, self.limit // self._num_clients)
        useful = self._useful.get(client)
        return share if useful is None else min(share, int(SPARE * useful) + 1)

    def add_refusal(self, client: str) -> None:
        """Counts a request that was refused because of another limit, such as its deadline."""
        self._refused[client] += 1

    def _close(self) -> None:
        turn, self._turn = self._turn, None
        assert turn is not None
        asyncio.get_running_loop().call_soon(self._end, turn)

    def _end(self, turn: Turn) -> None:
        now = self.clock()
        seconds = now - turn.began
        self._was_long = seconds > LONG_CPU_SECONDS
        if self.is_overloaded:  # the overload ends when no turn has refused anything for some time
            is_changing = not turn.num_refused
        elif seconds <= TARGET_SECONDS:  # such a turn shows no overload, so nothing is computed
            self._changing_since = None
            self._refused.clear()
            self._useful.clear()
            return
        else:
            is_changing = bool(self._refused) or (
                self._was_long  # the CPU time is at most the length of the turn
                and turn.cpu_began is not None
                and self.cpu_clock() - turn.cpu_began > LONG_CPU_SECONDS
            )
        if not is_changing:
            self._changing_since = None
        elif self._changing_since is None:
            self._changing_since = now
        elif now - self._changing_since > PATIENCE_SECONDS:
            self.is_overloaded = not self.is_overloaded
            self._changing_since = None
        num_handled = sum(turn.handled.values())
        self.limit = max(MIN_REQUESTS, int(TARGET_SECONDS * num_handled / max(seconds, 1e-9)))
        self._num_clients = max(1, len(turn.handled))
        self._useful = {
            client: self._smoothed(client, number) for client, number in turn.handled.items()
        }
        self._refused.clear()

    def _smoothed(self, client: str, handled: int) -> float:
        # Without refusals, more requests than have arrived might have been useful.
        refused = self._refused[client]
        number = max(0, handled - refused) if refused else self.limit
        before = self._useful.get(client, number)
        return before + SMOOTHING * (number - before)


def too_many() -> OverloadedError:
    return OverloadedError(
        "more requests arrive than the server can read. Try again later.", 1, "requests"
    )
