"""Inputs to embed or to score, and their options, as the routes of TEI and OpenAI accept them.

TEI is Text Embeddings Inference, a server of Hugging Face. These routes ignore unknown fields, as
TEI does. The checks that depend on the model follow in `service.tasks.embedding.limits`.

Source: TEI, router/src/http/types.rs at 265deb2ad692067eeda77a746b3975b46ba53920;
https://platform.openai.com/docs/api-reference/embeddings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo

from service.models.text_reader import Direction, Input
from service.tasks.parameters import NOT_EMPTY, ListOf, Parameters, Positive, refuse


def as_inputs(value: Any, info: ValidationInfo) -> list[Input]:
    """Returns a list of one or more inputs. A pydantic union would check each token id twice."""
    name = str(info.field_name)
    if isinstance(value, str) or (isinstance(value, list) and value and type(value[0]) is int):
        if fault := _fault_of(value):
            refuse(f"{name} parameter {fault}")
        return [value]
    if value == []:
        refuse(f"{name} parameter is an empty list; send one text or more")
    if not isinstance(value, list):
        refuse(f"{name} parameter must be a text, a list of token ids, or a list of these")
    if not _are_valid(value):
        place = _first_fault(value)
        refuse(f"{name}[{place}] parameter {_fault_of(value[place])}")
    return value


def _are_valid(inputs: list[Any]) -> bool:
    # A Python loop over 400,000 texts would block other requests for a third of a second.
    types = set(map(type, inputs))
    if not types <= {str, list}:
        return False
    if list not in types:
        return True
    if [] in inputs:
        return False
    ids = [*chain.from_iterable([each for each in inputs if type(each) is list])]
    return set(map(type, ids)) == {int} and min(ids) >= 0


def _first_fault(inputs: list[Any]) -> int:
    low, high = 0, len(inputs)
    while high - low > 1:
        middle = (low + high) // 2
        if _are_valid(inputs[low:middle]):
            low = middle
        else:
            high = middle
    return low


def _fault_of(value: Any) -> str:
    if value == []:
        return "is an empty list; send a text or token ids, or leave it out"
    if isinstance(value, str):
        return ""
    if not isinstance(value, list) or set(map(type, value)) != {int}:
        return "must be a text or a list of token ids"
    if min(value) < 0:
        return f"has the token id {min(value)}; ids begin at 0"
    return ""


def check_name(value: Any, info: ValidationInfo) -> Any:
    if value == "":
        refuse(
            f"{info.field_name} parameter is empty; name a model of /v1/models, or leave it out "
            "for the default"
        )
    return value


def check_list(value: Any, info: ValidationInfo) -> Any:
    if value == []:
        refuse(f"{info.field_name} parameter is an empty list; send one text or more")
    return value


def check_text(value: Any, info: ValidationInfo) -> Any:
    check_list(value, info)
    if value == "":
        refuse(f"{info.field_name} parameter is empty; send a text")
    if isinstance(value, list) and "" in value:
        where = f"{info.field_name}[{value.index('')}]"
        refuse(f"{where} parameter is empty; send a text, or leave it out")
    return value


CheckedText = Annotated[str, BeforeValidator(check_text), NOT_EMPTY]
CheckedTexts = Annotated[ListOf[str], BeforeValidator(check_text), NOT_EMPTY]
CheckedList = Annotated[ListOf[str], BeforeValidator(check_list), NOT_EMPTY]
"""A list that is not empty; its texts may be empty."""


def lower(value: Any) -> Any:
    """Accepts `Right` from older clients of TEI."""
    return value.lower() if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
Several = Annotated[list[str | TokenIds], Field(min_length=1)]

Inputs = Annotated[
    list[Input], PlainValidator(as_inputs, json_schema_input_type=str | TokenIds | Several)
]

ModelName = Annotated[str | None, BeforeValidator(check_name)]

EMBEDDER: Any = Field(
    None, description="Name as in /v1/models; by default the first embedding model."
)
DIMENSIONS: Any = Field(
    None, description="Number of leading values to keep of each vector; by default all."
)

TRUNCATE = "If false, a request with such an input is refused. By default, REGARD_TRUNCATE decides."


class EmbedParameters(Parameters):
    """The options that decide how a model reads the inputs."""

    truncate: bool | None = Field(
        None,
        description="Cut inputs that are too long for the model, and count them in "
        f"X-Truncated-Inputs. {TRUNCATE}",
    )
    truncation_direction: Annotated[Direction, BeforeValidator(lower)] = Field(
        "right", description="End at which the input is truncated."
    )
    prompt_name: str | None = Field(
        None, description="Name of the model's prompt that is put before each text."
    )


DEFAULT_PARAMETERS = EmbedParameters.model_validate({})


@dataclass(frozen=True, slots=True)
class EmbedQuery:
    """A request for the vectors of some inputs."""

    inputs: Sequence[Input]
    param: str  # name of the inputs in the client's request, for error messages
    reading: EmbedParameters
    model: str | None = None  # None for the first embedding model
    dimensions: int | None = None  # number of values to keep of each vector; None keeps all
    is_normalized: bool = True  # scales vectors to length 1
    is_per_token: bool = False  # one vector for each token, neither pooled nor scaled
    purpose: str | None = None  # such as `search_query`; chooses a prompt if none is named


class ScoreParameters(Parameters):
    """The parameters that all routes with scores of pairs have in common."""

    raw_scores: bool | None = Field(
        False, description="Return logits instead of scores from 0 to 1."
    )
    truncate: bool | None = Field(
        None, description=f"Cut inputs that are too long for the model. {TRUNCATE}"
    )
    truncation_direction: Annotated[Direction, BeforeValidator(lower)] = Field(
        "right", description="End at which texts are truncated."
    )
    max_tokens_per_doc: Positive | None = Field(
        None, description="Number of tokens to which each document is cut, beside the query."
    )
    model: ModelName = Field(
        None,
        description="Name as in /v1/models; by default the first cross-encoder, or else the first "
        "ColBERT model.",
    )
