"""Divides a worker's time between one foreground kind and kinds computed in slices.

Every second of work on one kind earns some time for each sliced kind that comes later in the task
table (`service/tasks/table.py`). Slices of a kind are computed while the kind has time left. The
task table also sets the share of each kind.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from service.items.result import Done
from service.workers.executors.base import Executor

MAX_CREDIT_SECONDS = 0.005
"""Most time that a kind may save up; without the limit, an idle kind would save up a long turn."""

OnFailure = Callable[[str, Executor[Any], Exception], None]
"""Receives a model's name, its executor and the error of a step."""


class TimeShare:
    """The executors of one task kind; their models take turns.

    Args:
        share: Share of the time while other work waits, above 0 and below 1. None for the
            foreground kind, whose executors are stepped at every `run`.
    """

    def __init__(self, share: float | None) -> None:
        self.share = share
        self.executors: dict[str, Executor[Any]] = {}
        self.credit = 0.0  # seconds

    def __len__(self) -> int:
        return sum(map(len, self.executors.values()))

    def __bool__(self) -> bool:
        return any(self.executors.values())

    def busy(self) -> list[str]:
        """Returns the models that have work, in the order of their turns."""
        return [name for name, executor in self.executors.items() if executor]

    def earn(self, seconds: float) -> None:
        """Adds this kind's share of the time that other work has taken."""
        if self.share is not None:
            earned = seconds * self.share / (1 - self.share)
            self.credit = min(self.credit + earned, MAX_CREDIT_SECONDS)

    def run(self, is_beside: bool, on_failure: OnFailure) -> list[Done]:
        """Computes one step of each model or, beside other work, slices while there is time left.

        The foreground kind computes one step of each model also beside other work.

        Args:
            is_beside: Whether there is other work.
            on_failure: Called for each executor whose step failed.

        Returns:
            The items that are done.
        """
        done: list[Done] = []
        if self.share is None or not is_beside:
            self.credit = 0.0
            for name in self.busy():
                done += self._step(name, is_beside, on_failure)
            return done
        while self.credit > 0 and (names := self.busy()):
            # The model goes to the end of the order. The credit often lasts for one slice only, and
            # otherwise the first model would receive every slice.
            self.executors[names[0]] = self.executors.pop(names[0])
            start = time.perf_counter()
            done += self._step(names[0], is_beside, on_failure)
            self.credit -= time.perf_counter() - start
        return done

    def _step(self, name: str, is_beside: bool, on_failure: OnFailure) -> Sequence[Done]:
        executor = self.executors[name]
        others = [each for each in self.executors.values() if each is not executor]
        low_latency = is_beside or any(others)
        try:
            return executor.step(low_latency)
        except Exception as error:
            on_failure(name, executor, error)
            return []
