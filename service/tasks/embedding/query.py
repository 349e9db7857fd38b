"""A request for embeddings, independent of HTTP.

The schemas of the embedding routes import this module. Schemas must be imported fast, so this
module does not import numpy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.models.text_reader import Direction, Input


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """Options of how a model reads the inputs of a request.

    Attributes:
        truncate: Whether inputs that are too long for the model are cut, and not refused.
        truncation_direction: Side on which a long input is cut: the start or the end.
        prompt_name: Name of the prompt in front of each text; None for the model's default.
    """

    truncate: bool = True
    truncation_direction: Direction = "right"
    prompt_name: str | None = None


@dataclass(frozen=True, slots=True)
class EmbedQuery:
    """A request for the vectors of some inputs.

    Attributes:
        param: Name of the inputs in the client's request, for error messages.
        model: Served name; None for the first embedding model.
        dimensions: Number of values to keep from the start of each vector; None keeps all.
        is_normalized: Whether vectors are scaled to length 1.
        is_per_token: Whether each token gets a vector, which is neither pooled nor scaled.
    """

    inputs: Sequence[Input]
    param: str
    reading: ReadingOptions = ReadingOptions()
    model: str | None = None
    dimensions: int | None = None
    is_normalized: bool = True
    is_per_token: bool = False
