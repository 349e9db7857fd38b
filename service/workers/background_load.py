"""Loads models, one at a time, in background threads while the worker goes on computing."""

import os
import sys
import threading
import time
import weakref
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
    """The loads in progress. Its methods must be called from the worker's main thread."""

    def __init__(self) -> None:
        self.waiting: dict[str, LoadOne] = {}  # by the name of the model
        self.current: threading.Thread | None = None  # it has the name of its model
        self.num_running = 0  # threads, including those of dropped loads
        self.outcomes: SimpleQueue[tuple[threading.Thread, Outcome]] = SimpleQueue()
        # Counts the outcomes, so that an idle worker can wait for one.
        self.arrivals = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_SEMAPHORE)
        weakref.finalize(self, os.close, self.arrivals).atexit = False

    def fileno(self) -> int:
        """Returns a descriptor that becomes readable when a load ends."""
        return self.arrivals

    def begin(self, name: str, load: LoadOne) -> None:
        """Begins to load a model. One is loaded at a time, and the process can end meanwhile."""
        self.waiting[name] = load
        self._begin_next()

    def drop(self, name: str) -> bool:
        """Makes `finished` leave out the load of a model, and returns whether there was one.

        The next load does not wait for a dropped load, whose thread may hang.
        """
        if self.current is not None and self.current.name == name:
            self.current = None
            self._begin_next()
            return True
        return self.waiting.pop(name, None) is not None

    def finished(self) -> list[Outcome]:
        """Returns the loads that have ended since the last call; leaves out dropped loads."""
        found = []
        while not self.outcomes.empty():
            thread, outcome = self.outcomes.get()
            os.eventfd_read(self.arrivals)
            self.num_running -= 1
            if thread is self.current:
                found.append(outcome)
                self.current = None
                self._begin_next()
            if not self.num_running:
                sys.setswitchinterval(USUAL_SWITCH_SECONDS)
        return found

    def _begin_next(self) -> None:
        if self.waiting and self.current is None:
            name = next(iter(self.waiting))
            arguments = name, self.waiting.pop(name)
            self.current = threading.Thread(None, self._run, name, arguments, daemon=True)
            self.num_running += 1
            sys.setswitchinterval(SWITCH_SECONDS)
            self.current.start()

    def _run(self, name: str, load: LoadOne) -> None:
        self.outcomes.put((threading.current_thread(), load_timed(name, load)))
        os.eventfd_write(self.arrivals, 1)
