"""Models that a worker loads in a thread beside its work, one after the other."""

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
"""How long a thread may keep Python to itself while another wants it. A step of the work gives it
up and wants it again at every operation; with the usual time, each of them would wait so long."""

LoadOne = Callable[[], LoadedModel]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of loading a model.

    Attributes:
        name: Of the model.
        loaded: What computes with it, or why there is nothing.
        seconds: That it took.
    """

    name: str
    loaded: LoadedModel | Exception
    seconds: float


def load_timed(name: str, load: LoadOne, expected: type[Exception] = Exception) -> Outcome:
    """Loads a model; an expected error is an outcome, too."""
    start = time.perf_counter()
    try:
        loaded: LoadedModel | Exception = load()
    except expected as error:
        loaded = error
    return Outcome(name, loaded, time.perf_counter() - start)


class BackgroundLoads:
    """Loads that are under way. All methods are for the thread of the worker."""

    def __init__(self) -> None:
        self.threads: dict[int, str] = {}  # models by the number of their load
        self.wanted: dict[str, int] = {}  # the other way, less what was dropped
        self.numbers = itertools.count()
        self.turn = threading.Lock()
        self.outcomes: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
        # A byte in it for each outcome, so that a worker without work can wait for one.
        self.arrivals, self.arriving = os.pipe()
        self.is_closed = False
        self.closing = threading.Lock()

    def fileno(self) -> int:
        """A descriptor that can be read from when a load has come to its end."""
        return self.arrivals

    def begin(self, name: str, load: LoadOne) -> None:
        """Loads a model after those before it. The process may end without waiting for it."""
        number = next(self.numbers)
        self.threads[number] = name
        self.wanted[name] = number
        sys.setswitchinterval(SWITCH_SECONDS)
        threading.Thread(target=self._run, args=(number, name, load), daemon=True).start()

    def drop(self, name: str) -> bool:
        """Nobody wants a model any more; False where it is not being loaded."""
        return self.wanted.pop(name, None) is not None

    def finished(self) -> list[Outcome]:
        """What has come to its end since the last call, less what was dropped."""
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
        """Ends; a load under way has nobody to tell."""
        with self.closing:
            self.is_closed = True
            os.close(self.arrivals)
            os.close(self.arriving)

    def _run(self, number: int, name: str, load: LoadOne) -> None:
        with self.turn:
            outcome = load_timed(name, load)
        with self.closing:
            if not self.is_closed:
                self.outcomes.put((number, outcome))
                del outcome  # for the worker to give its memory back, where it is an error
                os.write(self.arriving, b"\0")
