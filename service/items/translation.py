"""The work item of a translation: one sentence."""

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import ClassVar

from model.sequence import DecodingOptions, Hypothesis
from service.ipc.channel import pickle_by_fields
from service.items.base import WorkItem

TRANSLATE = "translate"

_values = attrgetter(*[each.name for each in fields(DecodingOptions)])
"""Returns the values of all options as a tuple, which is hashed faster than DecodingOptions."""


@dataclass(slots=True, eq=False)
class TranslationItem(WorkItem):
    """A sentence to translate; the value of its result is a list of `Hypothesis`, best first.

    Attributes:
        model: Served name of the model.
        source: Token ids, EOS included.
        options: Options of decoding, such as the beam size.
        first_id: Id of the token that the target begins with; None if the model chooses it.
        is_bulk: Whether the sentence waits in the bulk lane, which has less priority than the lane
            of interactive requests.
        num_legs: Number of models that must still run, `model` included: 2 if another model then
            translates the result, else 1.
        id: Number that the scheduler assigns.
    """

    kind: ClassVar[str] = TRANSLATE

    model: str
    source: list[int]
    options: DecodingOptions
    first_id: int | None = None
    is_bulk: bool = False
    num_legs: int = 1
    id: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.source)

    @property
    def num_rows(self) -> int:
        return self.options.beam_size

    @property
    def key(self) -> tuple[object, ...]:
        return self.model, self.first_id, _values(self.options), tuple(self.source)

    @property
    def is_small(self) -> bool:
        return not self.options.return_attention


for _cls in (DecodingOptions, Hypothesis, TranslationItem):
    pickle_by_fields(_cls)
