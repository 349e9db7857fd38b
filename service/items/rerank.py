"""The work item of reranking: one pair of a query and a text."""

from dataclasses import dataclass
from typing import ClassVar

from service.ipc.channel import pickle_by_fields
from service.items.base import WorkItem

RERANK = "rerank"


@dataclass(slots=True)
class RerankItem(WorkItem):
    """A pair to score; the value of its result is the score, as the 4 bytes of a float32.

    Attributes:
        model: Served name of the model.
        ids: Token ids of the pair. If the model distinguishes segments, the ids of the second
            segment are marked: the vocabulary size is added to each id.
        is_bulk: Whether the scheduler queues the pair in its bulk lane, not the interactive lane.
        id: Id that the scheduler assigns.
    """

    kind: ClassVar[str] = RERANK

    model: str
    ids: list[int]
    is_bulk: bool = False
    id: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.ids)


pickle_by_fields(RerankItem)
