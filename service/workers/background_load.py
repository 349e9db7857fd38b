"""Loads models, one at a time, in background threads while the worker goes on computing."""

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from service.workers.loading import LoadedModel

USUAL_SWITCH_SECONDS = 0.005
SWITCH_SECONDS = 0.0005
"""Values of Python's switch interval: the usual one, and the one while a model is loaded.

A thread may hold the interpreter lock for this time while another thread waits for the lock. The
main thread releases the lock in every operation of a step. With the usual interval, the main thread
would then wait up to 5 ms for the loading thread after each operation.
"""

LoadOne = Callable[[], LoadedModel]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A model that was loaded in `seconds`, or the error that prevented the load."""

    name: str
    loaded: LoadedModel | Exception
    seconds: float


def load_timed(
    name: str, load: LoadOne, expected: tuple[type[Exception], ...] = (Exception,)
) -> Outcome:
    """Loads a model; catches errors of the types in `expected`."""
    start = time.perf_counter()
    try:
        loaded: LoadedModel | Exception = load()
    except expected as error:
        loaded = error
    return Outcome(name, loaded, time.perf_counter() - start)


class BackgroundLoads:
    """The loads in progress. Public methods must be called from the worker's main thread."""

    def __init__(self) -> None:
        self.threads: dict[int, str] = {}  # number of a load -> name of its model
        self.wanted: dict[str, int] = {}  # name of a model -> number of its load, if not dropped
        self.numbers = itertools.count()
        self.current: int | None = None  # number of the load in progress, unless it was dropped
        self.turn = threading.Condition()
        self.outcomes: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
        # The pipe holds a byte for each outcome, so that an idle worker can wait for an outcome.
        self.arrivals, self.arriving = os.pipe()
        self.is_closed = False
        self.closing = threading.Lock()

    def fileno(self) -> int:
        """Returns a descriptor that becomes readable when a load ends."""
        return self.arrivals

    def begin(self, name: str, load: LoadOne) -> None:
        """Begins to load a model. One is loaded at a time, and the process can end meanwhile."""
        number = next(self.numbers)
        self.threads[number] = name
        self.wanted[name] = number
        sys.setswitchinterval(SWITCH_SECONDS)
        threading.Thread(target=self._run, args=(number, name, load), daemon=True).start()

    def drop(self, name: str) -> bool:
        """Makes `finished` leave out the load of a model, and returns whether there was one.

        The next load does not wait for a dropped load, whose thread may hang.
        """
        number = self.wanted.pop(name, None)
        if number is not None:
            self._end_turn(number)
        return number is not None

    def finished(self) -> list[Outcome]:
        """Returns the loads that have ended since the last call; leaves out dropped loads."""
        found = []
        while not self.outcomes.empty():
            number, outcome = self.outcomes.get()
            os.read(self.arrivals, 1)
            del self.threads[number]
            if self.wanted.get(outcome.name) == number:
                del self.wanted[outcome.name]
                found.append(outcome)
            if not self.threads:
                sys.setswitchinterval(USUAL_SWITCH_SECONDS)
        return found

    def close(self) -> None:
        with self.closing:
            self.is_closed = True
            os.close(self.arrivals)
            os.close(self.arriving)

    def _end_turn(self, number: int) -> None:
        with self.turn:
            if self.current == number:
                self.current = None
                self.turn.notify_all()

    def _run(self, number: int, name: str, load: LoadOne) -> None:
        with self.turn:
            self.turn.wait_for(lambda: self.current is None)
            if self.wanted.get(name) == number:
                self.current = number
        if self.current == number:
            outcome = load_timed(name, load)
            self._end_turn(number)
        else:  # the load was dropped before its turn
            outcome = Outcome(name, LookupError(name), 0.0)
        with self.closing:
            if not self.is_closed:
                self.outcomes.put((number, outcome))
                del outcome  # the frames of an error hold memory
                os.write(self.arriving, b"\0")
