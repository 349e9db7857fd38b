"""The interface through which the scheduler and the workers use a work item."""

from typing import ClassVar, Protocol


class WorkItem(Protocol):
    """One unit of work, which is scheduled, computed, retried and aborted separately.

    Attributes:
        kind: Name of its task kind, a row of `service/tasks/table.py`.
        model: Served name of the model that computes it.
        is_bulk: Whether the item waits in the bulk lane. This is the queue for documents and for
            requests with many items.
        id: Number that the scheduler assigns, unique among all items; 0 until then.
    """

    kind: ClassVar[str]
    model: str
    is_bulk: bool
    id: int

    @property
    def num_tokens(self) -> int:
        """Number of tokens that the model reads."""

    @property
    def num_rows(self) -> int:
        """Number of rows that the item takes in a batch."""

    @property
    def num_legs(self) -> int:
        """Number of models that must still run, `model` included.

        The number is 2 if a second model continues from a pivot language to the target language.
        In all other cases, the number is 1.
        """
