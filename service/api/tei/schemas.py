"""Schemas of the requests and responses of TEI (Text Embeddings Inference).

Source: TEI, router/src/http/types.rs at 265deb2ad692067eeda77a746b3975b46ba53920.
"""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from model.tokenization.pairs import Direction
from service.api.request.inputs import EmbedParameters, Inputs, ModelName, lower
from service.models.text_reader import Input
from service.tasks.embedding.query import EmbedQuery
from service.tasks.parameters import ListOf, Parameters, Positive, not_empty, refuse


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


class ScoreParameters(Parameters):
    """The parameters that `/rerank` and `/predict` have in common."""

    raw_scores: bool = Field(False, description="Return logits instead of scores from 0 to 1.")
    truncate: bool = Field(
        False,
        description="Cut inputs that are too long for the model. If false, a request with such an "
        "input is refused.",
    )
    truncation_direction: Annotated[Direction, BeforeValidator(lower)] = Field(
        "right", description="End at which texts are truncated."
    )
    model: ModelName = Field(
        None, description="Name as in /v1/models; by default the first cross-encoder."
    )


class EmbedAllRequest(EmbedParameters):
    """The body of `POST /embed_all`, in TEI's shape.

    The request asks for a vector for each token. These vectors are neither pooled nor scaled.
    """

    model_config = ConfigDict(json_schema_extra={"example": {"inputs": "The cat sat on the mat."}})

    inputs: Inputs = Field(
        description="One input or a list of inputs. An input is a text or a list of token ids."
    )
    model: ModelName = Field(
        None, description="Name as in /v1/models; by default the first embedding model."
    )

    def query(self) -> EmbedQuery:
        return EmbedQuery(self.inputs, "inputs", self.reading, self.model, is_per_token=True)


class EmbedRequest(EmbedAllRequest):
    """The body of `POST /embed`, in TEI's shape: it requests a vector for each input."""

    normalize: bool = Field(True, description="Scale each vector to length 1.")
    dimensions: Positive | None = Field(
        None, description="Number of leading values to keep of each vector; by default all."
    )

    def query(self) -> EmbedQuery:
        return EmbedQuery(
            self.inputs, "inputs", self.reading, self.model, self.dimensions, self.normalize
        )


class SimilarityInputs(BaseModel):
    """A sentence, and the sentences to compare it with."""

    source_sentence: Annotated[str, BeforeValidator(check_text)] = Field(
        json_schema_extra=not_empty
    )
    sentences: Annotated[ListOf[str], BeforeValidator(check_text)] = Field(
        json_schema_extra=not_empty
    )


def check_pair(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, dict):
        refuse(
            f"{info.field_name} parameter must be an object with source_sentence (a text) and "
            f"sentences (a list of texts), not {type(value).__name__}"
        )
    return value


class SimilarityRequest(Parameters):
    """The body of `POST /similarity`, in TEI's shape."""

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
        None, description="Name as in /v1/models; by default the first embedding model."
    )

    def query(self) -> EmbedQuery:
        texts: list[Input] = [self.inputs.source_sentence, *self.inputs.sentences]
        parameters = self.parameters or EmbedParameters.model_validate({})
        return EmbedQuery(texts, "inputs", parameters.reading, self.model)


EmbedResponse = list[list[float]]  # a vector for each input
EmbedAllResponse = list[list[list[float]]]  # a vector for each token of each input
SimilarityResponse = list[float]  # cosine of the source sentence with each of `sentences`
