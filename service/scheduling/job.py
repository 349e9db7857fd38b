"""A job is a work item that the scheduler has admitted, together with the state of the item.

A submission is a group of work items that are admitted together, such as the texts of a request.
"""

import math
import time
from dataclasses import dataclass, field
from typing import Protocol

from service.items.base import WorkItem
from service.items.result import Result


class Receiver(Protocol):
    """Receives the results of the jobs of one submission.

    Attributes:
        is_closed: Whether the receiver takes no more results.
    """

    is_closed: bool

    def finish(self, index: int, result: Result) -> None:
        """Takes the result of the item at `index` of the submission."""

    def fail(self, error: Exception) -> None:
        """Takes the error of an item; the other items of the submission are cancelled."""


@dataclass(eq=False, slots=True)
class Job:
    """One work item between admission and result.

    Attributes:
        item: The item, as the worker receives it.
        receiver: The submission that the item belongs to.
        index: Index of the item in its submission.
        bucket: Length bucket in which the job waits; 0 if its task kind has only one bucket.
        cost: Amount of a worker's capacity that the job takes, in the unit of its task kind.
        client: Identity of the client: a hash of its API key, or its address.
        deadline: Time by time.perf_counter at which the submission fails.
        created: Time of the submission, by time.perf_counter.
        dispatched: Time of the last dispatch to a worker, by time.perf_counter; 0 before the first.
        attempts: Number of times that the job has been dispatched.
        occupancy: Rows in use by all jobs of the kind and model right after the last dispatch. If
            the policy does not count rows, the number of tokens of these jobs is used instead.
        id: Id of the item.
        kind: Name of the task kind.
        model: Served name of the model.
        tokens: Number of tokens of the item.
        rows: Number of rows that the item takes in a batch; 1 for most task kinds.
        work: Number of row-tokens of the job, which is tokens times rows.
    """

    item: WorkItem
    receiver: Receiver
    index: int
    bucket: int
    cost: int
    client: str = ""
    deadline: float = math.inf
    created: float = field(default_factory=time.perf_counter)
    dispatched: float = 0.0
    attempts: int = 0
    occupancy: int = 0

    id: int = field(init=False)
    kind: str = field(init=False)
    model: str = field(init=False)
    tokens: int = field(init=False)
    rows: int = field(init=False)
    work: int = field(init=False)

    def __post_init__(self) -> None:
        item = self.item
        self.id, self.kind, self.model = item.id, item.kind, item.model
        self.tokens, self.rows = item.num_tokens, item.num_rows
        self.work = self.tokens * self.rows
