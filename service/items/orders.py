"""What a request has workers compute: sentences to translate, attention to show, texts to embed."""

from dataclasses import dataclass

from model.inspection.query import AttentionJob
from model.sequence import DecodingOptions


@dataclass(slots=True)
class Sentence:
    """What a request wants translated.

    Attributes:
        model: Served name.
        source: Ids, EOS included.
        options: How to search.
        first_id: What the target begins with; None where that is free.
        pair: Source and target where this is only the first of two legs; else None.
        second: Served name of the model of the second leg.
    """

    model: str
    source: list[int]
    options: DecodingOptions
    first_id: int | None = None
    pair: tuple[str, str] | None = None
    second: str = ""

    @property
    def price(self) -> int:
        """Source tokens that models read; the second leg is taken to be as long as the first."""
        return len(self.source) * (1 if self.pair is None else 2)


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What a request wants to know of the attention in a translation, or in a text.

    Attributes:
        model: Served name.
        job: Ids and queries.
    """

    model: str
    job: AttentionJob


@dataclass(slots=True)
class TextToEmbed:
    """What a request wants the vector of.

    Attributes:
        model: Served name.
        ids: Of its tokens, special ones included.
        is_per_token: Whether the vectors of the tokens are wanted in place of the text's.
        is_raw: Whether the model's closing Normalize is left out.
    """

    model: str
    ids: list[int]
    is_per_token: bool = False
    is_raw: bool = False
