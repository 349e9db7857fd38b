"""The work item of attention: one sentence pair, or one text."""

from dataclasses import dataclass
from typing import ClassVar

from model.inspection.query import AttentionJob
from service.ipc.channel import pickle_by_fields
from service.items.base import WorkItem

ATTENTION = "attention"


@dataclass(slots=True)
class AttentionItem(WorkItem):
    """A pair or text whose attention is captured.

    The value of the item's result is a list with one element for each query of the job: a
    `model.inspection.query.AttentionMaps` or a `model.inspection.results.AttentionTrace`.

    Attributes:
        model: Served name of the model.
        job: Token ids and queries.
        is_bulk: Whether the item waits in a bulk lane of `service.scheduling.lanes`.
        id: Number that the scheduler assigns.
    """

    kind: ClassVar[str] = ATTENTION

    model: str
    job: AttentionJob
    is_bulk: bool = False
    id: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.job.source) + len(self.job.target)


pickle_by_fields(AttentionItem)
