"""Schemas of OpenAI's requests and responses, with additional fields of Regard.

Source: https://platform.openai.com/docs/api-reference/embeddings.
"""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.api.request.inputs import EmbedParameters, Inputs, ModelName
from service.errors import InvalidRequestError
from service.models.served import ModelState
from service.models.text_reader import Input
from service.tasks.embedding.query import EmbedQuery
from service.tasks.parameters import Positive

EncodingFormat = Literal["float", "base64"]


def refuse_ids(inputs: Sequence[Input]) -> None:
    if not all(isinstance(each, str) for each in inputs):
        raise InvalidRequestError(
            "Invalid request: input has token ids. OpenAI's clients make them with tiktoken, and "
            "this model has another vocabulary. Send texts; in LangChain, set "
            "check_embedding_ctx_length=False. If the ids are the model's own, send them to "
            "/embed, or set REGARD_OPENAI_TOKEN_IDS=true.",
            param="input",
        )


class EmbeddingsRequest(EmbedParameters):
    """The body of `POST /v1/embeddings`, in OpenAI's shape, with parameters of TEI in addition.

    TEI is Text Embeddings Inference, a server of Hugging Face.

    As at OpenAI, an input that is too long is refused by default. `truncate` is false by default
    because OpenAI's client libraries do not show the header that reports truncation.
    """

    model_config = ConfigDict(
        json_schema_extra={"example": {"input": ["The cat sat on the mat.", "A cat is sitting."]}}
    )

    input: Inputs = Field(
        description="One text or a list. With REGARD_OPENAI_TOKEN_IDS, ids of the model's tokens "
        "are accepted too."
    )
    model: ModelName = Field(
        None, description="Name as in /v1/models; by default the first embedding model."
    )
    encoding_format: EncodingFormat = Field(
        "float", description="`float`, or `base64` of little-endian float32."
    )
    dimensions: Positive | None = Field(
        None,
        description="Number of values to keep from the start of each vector; by default all.",
    )
    user: Any = Field(None, description="Accepted and ignored.")
    truncate: bool = Field(
        False,
        description="Truncate inputs over the limit of the model. `truncated` marks these inputs, "
        "and X-Truncated-Inputs counts them. If `truncate` is false, the server refuses them.",
    )

    def query(self) -> EmbedQuery:
        return EmbedQuery(self.input, "input", self.reading, self.model, self.dimensions)


class EmbeddingBody(BaseModel):
    """The vector of one input."""

    object: Literal["embedding"] = "embedding"
    index: int = Field(description="Index of the input.")
    embedding: list[float] | str = Field(description="Numbers, or one base64 text.")
    truncated: Literal[True] | None = Field(
        None, description="Present only if the input was longer than the limit of the model."
    )


class EmbeddingsUsage(BaseModel):
    """Tokens that the model has read, special tokens and prompts included."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """One vector for each input, in the order of the inputs."""

    object: Literal["list"] = "list"
    data: list[EmbeddingBody]
    model: str
    usage: EmbeddingsUsage


class AttentionSizeBody(BaseModel):
    """The numbers of layers and heads of one kind of attention of a model."""

    layers: int
    heads: int = Field(description="Number of heads of each layer.")


class AlignmentBody(BaseModel):
    """The cross-attention that aligns words by default."""

    layer: int
    head: int | Literal["mean"] = Field(description="`mean` is the mean over the layer's heads.")
    shift: int = Field(
        description="The token that a row of attention aligns. 0 is the token that the decoder "
        "predicts in the row's decode step. 1 is the token that the decoder reads in this step."
    )


class ServedBody(BaseModel):
    """The fields of every served model, in OpenAI's shape with additional fields of Regard."""

    id: str
    state: ModelState = Field(description="`loading` until the model is loaded, then `ready`.")
    object: Literal["model"] = "model"
    created: int = Field(description="Start of the server, in Unix seconds.")
    owned_by: str = "regard"
    alias_of: str | None = Field(
        None, description="Name of the model for which `id` is an alias; else null."
    )
    revision: str = Field(
        description="First digits of the sha256 sum of the weights. For a remote model, they come "
        "from the sha256 sum of its name and address."
    )
    device: str | None = Field(description="Null while the model loads.")
    devices: list[str] = Field(
        description="Devices of the workers that have loaded the model, such as several GPUs."
    )
    dtype: str | None = Field(description="Null while the model loads.")


class ModelBody(ServedBody):
    """A translation model, in OpenAI's shape with additional fields of Regard."""

    task: Literal["translate"] = "translate"
    source: str | None = Field(description="Source language; null for a model of several pairs.")
    target: str | None = Field(description="Target language; null for a model of several pairs.")
    sources: list[str] = Field(description="Source languages.")
    targets: list[str] = Field(
        description="Target languages; a text is not translated to its own language."
    )
    attention: dict[str, AttentionSizeBody] | None = Field(
        description="Kinds of attention that can be inspected: encoder, decoder, cross. Null while "
        "the model loads, and empty for a remote model."
    )
    alignment: AlignmentBody | None = Field(
        description="The attention that aligns words by default. Null while the model loads, and "
        "for a remote model."
    )


class EmbedderBody(ServedBody):
    """An embedding model, in OpenAI's shape with additional fields of Regard."""

    task: Literal["embed"] = "embed"
    dimensions: int = Field(description="Number of values of a vector.")
    max_tokens: int = Field(
        description="Maximum number of tokens of a text, special tokens included. Longer texts are "
        "truncated or refused."
    )
    prompts: list[str] = Field(description="Names of the prompts that may precede a text.")
    attention: dict[str, AttentionSizeBody] | None = Field(
        description="Kinds of attention that can be inspected: encoder. Null while the model loads."
    )


class OtherBody(ServedBody):
    """A model that neither translates nor embeds."""

    task: str = Field(description="Task that the model was made for.")


class ChangingBody(BaseModel):
    """A model that is not served: it is being loaded or unloaded, or its loading failed."""

    id: str
    state: ModelState
    object: Literal["model"] = "model"
    created: int = Field(description="Start of the server, in Unix seconds.")
    owned_by: str = "regard"
    error: str | None = Field(
        None,
        description="The reason why loading failed, or null. Only requests with an admin key get "
        "the reason, because it may name files of the server.",
    )


AnyModelBody = ModelBody | EmbedderBody | OtherBody | ChangingBody


class ModelList(BaseModel):
    """The response of `GET /v1/models`."""

    object: Literal["list"] = "list"
    data: list[AnyModelBody]
