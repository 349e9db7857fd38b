"""Loads models, one at a time, in background threads while the worker goes on computing."""

import os
import sys
import threading
import weakref
from collections.abc import Callable
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
Outcome = LoadedModel | Exception
"""A loaded model, or the error that prevented the load."""


def outcome_of(load: LoadOne) -> Outcome:
    # In `_run`, a variable would keep the error alive, and with it the weights that were read.
    try:
        return load()
    except Exception as error:
        return error


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

    def finished(self) -> list[tuple[str, Outcome]]:
        """Returns the loads that have ended since the last call; leaves out dropped loads.

        The strings are names of models.
        """
        found = []
        while not self.outcomes.empty():
            thread, outcome = self.outcomes.get()
            os.eventfd_read(self.arrivals)
            self.num_running -= 1
            if thread is self.current:
                found.append((thread.name, outcome))
                self.current = None
                self._begin_next()
            if not self.num_running:
                sys.setswitchinterval(USUAL_SWITCH_SECONDS)
        return found

    def _begin_next(self) -> None:
        if self.waiting and self.current is None:
            name = next(iter(self.waiting))
            arguments = (self.waiting.pop(name),)
            self.current = threading.Thread(None, self._run, name, arguments, daemon=True)
            self.num_running += 1
            sys.setswitchinterval(SWITCH_SECONDS)
            self.current.start()

    def _run(self, load: LoadOne) -> None:
        self.outcomes.put((threading.current_thread(), outcome_of(load)))
        os.eventfd_write(self.arrivals, 1)
