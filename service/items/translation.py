"""The work item of a translation: one sentence."""

from dataclasses import dataclass
from typing import ClassVar

from model.sequence import DecodingOptions, Hypothesis
from service.ipc.channel import pickle_by_fields

TRANSLATE = "translate"


@dataclass(slots=True)
class TranslationItem:
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
        """Number of source tokens."""
        return len(self.source)

    @property
    def num_rows(self) -> int:
        """Number of rows in the batch: one for each hypothesis of the beam."""
        return self.options.beam_size


for _cls in (DecodingOptions, Hypothesis, TranslationItem):
    pickle_by_fields(_cls)
