"""What clients of embeddings send and get, in the shapes of TEI and of OpenAI.

Fields that those servers do not know are ignored, as they do. What takes a model to be refused,
such as a length or a name of a prompt, is refused in `embed_limits`.

Source: TEI, router/src/http/types.rs at 265deb2ad692067eeda77a746b3975b46ba53920;
https://platform.openai.com/docs/api-reference/embeddings.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
)

from service.api.parameters import ListOf, Parameters, Whole, refuse

Input = str | list[int]
"""A text, or the ids of its tokens."""

Direction = Literal["left", "right"]
EncodingFormat = Literal["float", "base64"]


def as_inputs(value: Any, info: ValidationInfo) -> list[Input]:
    """A list of one input or several; by hand, for a union would look at each id twice."""
    name = str(info.field_name)
    if isinstance(value, str) or (isinstance(value, list) and value and type(value[0]) is int):
        if fault := _fault_of(value):
            refuse(f"{name} parameter {fault}")
        return [value]
    if value == []:
        refuse(f"{name} parameter is an empty list; send one text or more")
    if not isinstance(value, list):
        refuse(f"{name} parameter must be a text, a list of token ids, or a list of such")
    for place, member in enumerate(value):
        if fault := _fault_of(member):
            refuse(f"{name}[{place}] parameter {fault}")
    return value


def _fault_of(value: Any) -> str:
    """What is wrong with one input; "" for nothing."""
    if value in ("", []):
        return "is empty; send a text, or leave it out"
    if isinstance(value, str):
        return ""
    if not isinstance(value, list) or set(map(type, value)) != {int}:
        return "must be a text or a list of token ids"
    if min(value) < 0:
        return f"has the token id {min(value)}; ids begin at 0"
    return ""


def check_text(value: Any, info: ValidationInfo) -> Any:
    """Refuses a text, or a list with a text, that is empty."""
    if value == []:
        refuse(f"{info.field_name} parameter is an empty list; send one text or more")
    if value == "":
        refuse(f"{info.field_name} parameter is empty; send a text")
    if isinstance(value, list) and "" in value:
        where = f"{info.field_name}[{value.index('')}]"
        refuse(f"{where} parameter is empty; send a text, or leave it out")
    return value


def check_name(value: Any, info: ValidationInfo) -> Any:
    """Refuses an empty name."""
    if value == "":
        refuse(
            f"{info.field_name} parameter is empty; name a model of /v1/models, or leave it out "
            "for the first that embeds"
        )
    return value


def lower(value: Any) -> Any:
    """Right and right are the same: older clients of TEI write it so."""
    return value.lower() if isinstance(value, str) else value


Inputs = Annotated[
    list[Input], PlainValidator(as_inputs, json_schema_input_type=Input | list[Input])
]


ModelName = Annotated[str | None, BeforeValidator(check_name)]


class EmbedParameters(Parameters):
    """How inputs are read."""

    truncate: bool = Field(
        True,
        description="Cut what is longer than the model takes, and say so in X-Truncated-Inputs; "
        "false refuses it.",
    )
    truncation_direction: Annotated[Direction, BeforeValidator(lower)] = Field(
        "right", description="Which end is cut off."
    )
    prompt_name: str | None = Field(
        None, description="Which of the model's prompts is put before each text."
    )


class EmbedAllRequest(EmbedParameters):
    """`POST /embed_all`, in TEI's shape: a vector for each token, as it leaves the model."""

    model_config = ConfigDict(json_schema_extra={"example": {"inputs": "The cat sat on the mat."}})

    inputs: Inputs = Field(description="Text, or list of token ids, or list of such.")
    model: ModelName = Field(
        None, description="Name as in /v1/models; by default the first that embeds."
    )


class EmbedRequest(EmbedAllRequest):
    """`POST /embed`, in TEI's shape: a vector for each input."""

    normalize: bool = Field(True, description="Scale each vector to length 1.")
    dimensions: Whole | None = Field(
        None, ge=1, description="Only so many numbers of each vector, the first."
    )


class SimilarityInputs(BaseModel):
    """What is compared to what."""

    source_sentence: Annotated[str, BeforeValidator(check_text)]
    sentences: Annotated[ListOf[str], BeforeValidator(check_text)]


def check_pair(value: Any, info: ValidationInfo) -> Any:
    """Refuses what is no object, in words that say what it holds."""
    if not isinstance(value, dict):
        refuse(
            f"{info.field_name} parameter must be an object with source_sentence, a text, and "
            f"sentences, a list of texts, not {type(value).__name__}"
        )
    return value


class SimilarityRequest(Parameters):
    """`POST /similarity`, in TEI's shape."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "inputs": {
                    "source_sentence": "The cat sat on the mat.",
                    "sentences": ["A cat is sitting.", "The train is late."],
                }
            }
        }
    )

    inputs: Annotated[SimilarityInputs, BeforeValidator(check_pair)]
    parameters: EmbedParameters | None = None
    model: ModelName = Field(
        None, description="Name as in /v1/models; by default the first that embeds."
    )

    @property
    def reading(self) -> EmbedParameters:
        """How the sentences are read."""
        return self.parameters or EmbedParameters.model_validate({})

    @property
    def texts(self) -> list[Input]:
        """The source sentence, and then the others."""
        return [self.inputs.source_sentence, *self.inputs.sentences]


class EmbeddingsRequest(EmbedParameters):
    """`POST /v1/embeddings`, in OpenAI's shape, with the parameters of TEI beside.

    Too long an input is refused unless `truncate` says otherwise: OpenAI refuses it too, and the
    libraries that send this show nobody a header or a field that they do not know.
    """

    model_config = ConfigDict(
        json_schema_extra={"example": {"input": ["The cat sat on the mat.", "A cat is sitting."]}}
    )

    input: Inputs = Field(description="Text, or list of token ids, or list of such.")
    model: ModelName = Field(
        None, description="Name as in /v1/models; by default the first that embeds."
    )
    encoding_format: EncodingFormat = Field(
        "float", description="`base64` is that of little-endian float32."
    )
    dimensions: Whole | None = Field(
        None, ge=1, description="Only so many numbers of each vector, the first."
    )
    user: Any = Field(None, description="Accepted, and not looked at.")
    truncate: bool = Field(
        False,
        description="Cut what is longer than the model takes, and say so in `truncated` and "
        "X-Truncated-Inputs; false refuses it.",
    )


EmbedResponse = list[list[float]]
"""[input][number]"""

EmbedAllResponse = list[list[list[float]]]
"""[input][token][number]"""

SimilarityResponse = list[float]
"""The cosine with each of `sentences`."""


class EmbeddingBody(BaseModel):
    """The vector of one input."""

    object: Literal["embedding"] = "embedding"
    index: int = Field(description="Which input.")
    embedding: list[float] | str = Field(description="Numbers, or base64.")
    truncated: Literal[True] | None = Field(
        None, description="Only there where the input was longer than the model takes."
    )


class EmbeddingsUsage(BaseModel):
    """What was read: tokens of the model, special ones and prompts included."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """One vector for each input, in their order."""

    object: Literal["list"] = "list"
    data: list[EmbeddingBody]
    model: str
    usage: EmbeddingsUsage
