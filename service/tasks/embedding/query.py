"""A request for embeddings, independent of HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.models.text_reader import Direction, Input


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """Options of how a model reads the inputs of a request."""

    truncate: bool = True  # inputs that are too long; otherwise they are refused
    truncation_direction: Direction = "right"
    prompt_name: str | None = None  # None for the model's default


@dataclass(frozen=True, slots=True)
class EmbedQuery:
    """A request for the vectors of some inputs."""

    inputs: Sequence[Input]
    param: str  # name of the inputs in the client's request, for error messages
    reading: ReadingOptions = ReadingOptions()
    model: str | None = None  # None for the first embedding model
    dimensions: int | None = None  # number of values to keep of each vector; None keeps all
    is_normalized: bool = True  # scales vectors to length 1
    is_per_token: bool = False  # one vector for each token, neither pooled nor scaled
