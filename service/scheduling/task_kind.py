"""The description of a task kind: one row of the task table (`service.tasks.table`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from service.items.base import WorkItem
from service.metrics.definitions import TaskSeries
from service.scheduling.policies import Policy
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class TaskKind:
    """One kind of work for the workers.

    Attributes:
        item: Class of its work items; `item.kind` is the name of the kind.
        policy: Policy by which the scheduler counts and assigns its work.
        executor: Import path of its executor in the worker, `module:Class`. It is a path because
            an import of the class would load torch, and only workers may load torch.
        share: Takes the settings, and returns the share of a worker's time that the kind gets while
            other work waits. Returns None if the share is not limited, as for translation.
        series: Names of the kind's model calls and token counts in the metrics.
        lengths: Takes an item and the value of its result. Returns the number of source tokens and,
            for a translation, the number of target tokens. The attribute is None if the kind has no
            such counts.
    """

    item: type[WorkItem]
    policy: Policy
    executor: str
    share: Callable[[Settings], float | None]
    series: TaskSeries
    lengths: Callable[[Any, Any], tuple[int, ...]] | None

    @property
    def name(self) -> str:
        """Name of the kind in messages, metrics and logs."""
        return self.item.kind
