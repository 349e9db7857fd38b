"""Divides a worker's time between translation (the foreground kind) and all other task kinds.

The task table (`service/tasks/table.py`) gives each kind its share, and lists the kinds by
priority. All kinds except the foreground kind are sliced: each step of an executor computes a small
part of the work. Each sliced kind has a credit: the time for which its slices may be computed while
other work waits. While a worker computes one kind, the credit of each kind below it in the table
grows. A batch of short texts may overdraw the credit, so that it ends without a pause.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from service.items import Done
from service.workers.executors import Executor, Turns

MAX_CREDIT_SECONDS = 0.005
"""Largest credit of a kind. Without this limit, a kind would collect credit while it has no work,
and could then delay other work for a long time."""

MAX_OVERDRAFT_SECONDS = 0.004
"""The credit of a kind may fall this far below 0 while a batch of short texts is in progress. The
time is paid back before the next batch begins. Without this overdraft, the texts would wait for
other work between two slices of their batch. The other work would gain nothing in the end."""

OnFailure = Callable[[str, Executor[Any, Any], Exception], None]
"""Receives a model's name, its executor and the error of a step."""


@dataclass(eq=False)
class TimeShare:
    """The executors of one task kind. Models whose texts are equally long take turns."""

    # Of the time while other work waits, above 0 and below 1; None for the foreground kind.
    share: float | None
    executors: dict[str, Executor[Any, Any]] = field(default_factory=dict)
    credit: float = 0.0  # seconds for which slices may be computed
    spent: float = 0.0  # seconds of the steps of the last `run`
    has_failed: bool = False  # whether a step of the last `run` failed
    turns: Turns = field(default_factory=Turns)

    def __bool__(self) -> bool:
        return any(self.executors.values())

    def earn(self, seconds: float) -> None:
        if self.share is not None:
            earned = seconds * self.share / (1 - self.share)
            self.credit = min(self.credit + earned, MAX_CREDIT_SECONDS)

    def run(self, is_beside: bool, on_failure: OnFailure) -> list[Done]:
        """Computes for the models that have work; returns the items that are done.

        The foreground kind computes one step of each model. A sliced kind computes one slice if
        there is no other work. If there is other work, a sliced kind computes slices until its
        credit is used up, it has no work left, or a slice fails. A batch of short texts in progress
        may use MAX_OVERDRAFT_SECONDS more.

        `is_beside` says whether there is other work. For a sliced kind, only work of the kinds
        before it in the task table counts.
        """
        done: list[Done] = []
        self.spent = 0.0
        self.has_failed = False
        if self.share is None:
            for name in [name for name, executor in self.executors.items() if executor]:
                done += self._step(name, is_beside, on_failure)
            return done
        if not is_beside:
            self.credit = 0.0
            return self._step(self._next(), is_beside, on_failure) if self else []
        while self._has_credit and self and not self.has_failed:
            before = self.spent
            done += self._step(self._next(), is_beside, on_failure)
            self.credit -= self.spent - before
        return done

    @property
    def _has_credit(self) -> bool:
        if self.credit > 0:
            return True
        amid = any(executor.is_amid_short_texts for executor in self.executors.values())
        return amid and self.credit > -MAX_OVERDRAFT_SECONDS

    def _next(self) -> str:
        """Returns the model that computes the next slice, and moves it to the end of the turns."""
        executor = self.turns.choose([each for each in self.executors.values() if each])
        name = next(name for name, each in self.executors.items() if each is executor)
        self.executors[name] = self.executors.pop(name)
        return name

    def _step(self, name: str, is_beside: bool, on_failure: OnFailure) -> list[Done]:
        executor = self.executors[name]
        others = [each for each in self.executors.values() if each is not executor]
        low_latency = is_beside or any(others)
        try:
            executor.timer.start()
            done = executor.step(low_latency)
            seconds = executor.timer.stop()
        except Exception as error:  # from this step, or from earlier work on a GPU
            seconds = executor.timer.abandon()
            self.has_failed = True
            on_failure(name, executor, error)
            done = []
        self.spent += seconds
        executor.cost = seconds or executor.cost  # seconds is 0 if the GPU has finished no step
        return done
