"""The work item of an embedding: one text."""

from dataclasses import dataclass
from typing import ClassVar

from service.ipc.channel import pickle_by_fields
from service.items.base import WorkItem

EMBED = "embed"


@dataclass(slots=True)
class EmbeddingItem(WorkItem):
    """A text to embed.

    The value of the item's result is the vector of the text, or the vectors of its tokens. The
    vectors are bytes of float32 numbers, one vector after the other. Pickling 384 floats as a list
    would take forty times as long as pickling their bytes.

    Attributes:
        model: Served name of the model.
        ids: Token ids, special tokens included.
        is_per_token: Whether the result has a vector for each token, not one vector for the text.
        is_raw: Whether the model's final Normalize module is left out. This module scales vectors
            to length 1.
        is_bulk: Whether the scheduler queues the text in its bulk lane, not the interactive lane.
        id: Id that the scheduler assigns.
    """

    kind: ClassVar[str] = EMBED

    model: str
    ids: list[int]
    is_per_token: bool = False
    is_raw: bool = False
    is_bulk: bool = False
    id: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.ids)


pickle_by_fields(EmbeddingItem)
