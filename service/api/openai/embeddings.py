"""POST /v1/embeddings and /embeddings, and the dialect of all routes with the scope `embed`.

Source: https://platform.openai.com/docs/api-reference/embeddings.
"""

from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Any, Literal

import numpy as np
import orjson
from fastapi import APIRouter
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.context import HttpContext
from service.api.dialect import Dialect
from service.api.openai import models
from service.api.openai.errors import OPENAI_ERRORS, openai_shape
from service.api.request.handlers import route
from service.api.responses import gather, list_parts
from service.api.vectors import (
    EmbeddingType,
    NumberType,
    base64_of,
    converted,
    embed,
    embed_response,
)
from service.errors import InvalidRequestError
from service.models.text_reader import Input
from service.tasks.embedding.embedder import EmbedUsage
from service.tasks.embedding.inputs import (
    DIMENSIONS,
    EMBEDDER,
    EmbedParameters,
    EmbedQuery,
    Inputs,
    ModelName,
)
from service.tasks.parameters import Positive, example

router = APIRouter(tags=["embeddings"], responses=OPENAI_ERRORS)

EncodingFormat = Literal["float", "base64"]
EMBEDDING = "embedding", "embedding"
"""The `object` of a vector, and the field of its numbers."""


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

    TEI is Text Embeddings Inference, a server of Hugging Face. The clients of Voyage and Jina send
    the same body with `input_type` or `task`.
    """

    model_config = example(input=["The cat sat on the mat.", "A cat is sitting."])

    input: Inputs = Field(
        description="One text or a list. With REGARD_OPENAI_TOKEN_IDS, ids of the model's tokens "
        "are accepted too."
    )
    model: ModelName = EMBEDDER
    encoding_format: EncodingFormat = Field(
        "float", description="`float`, or `base64` of little-endian float32."
    )
    dimensions: Positive | None = DIMENSIONS
    user: Any = Field(None, description="Accepted and ignored.")
    input_type: str | None = Field(
        None, description="Purpose, such as `query` or `document`; it chooses the model's prompt."
    )
    task: str | None = Field(None, description="The same in Jina's words: `retrieval.query`.")
    output_dimension: Positive | None = Field(None, description="`dimensions` in Voyage's words.")
    output_dtype: NumberType = Field(
        "float", description="Voyage's type of numbers, as `embedding_types` in `/v2/embed`."
    )
    embedding_type: EmbeddingType = Field(
        "float", description="The same in Jina's words, or `base64`."
    )

    def query(self) -> EmbedQuery:
        dimensions, purpose = self.dimensions or self.output_dimension, self.input_type or self.task
        return EmbedQuery(self.input, "input", self, self.model, dimensions, purpose=purpose)


class EmbeddingBody(BaseModel):
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


def usage_of(num_tokens: int) -> dict[str, int]:
    return {"prompt_tokens": num_tokens, "total_tokens": num_tokens}


class EmbeddingsResponse(BaseModel):
    object: Literal["list"] = "list"
    data: list[EmbeddingBody]
    model: str
    usage: EmbeddingsUsage


@route(router.post, "/embeddings", EmbeddingsResponse, operation_id="embeddings_of_tei")
@route(router.post, "/v1/embeddings", EmbeddingsResponse)
async def embeddings(context: HttpContext, body: EmbeddingsRequest) -> Response:
    """Returns a vector for each text, in OpenAI's shape."""
    return await embed_in_shape(context, body, EMBEDDING)


async def embed_in_shape(
    context: HttpContext, body: EmbeddingsRequest, names: tuple[str, str]
) -> Response:
    """Returns the vectors. `names` has the `object` and the field of each vector."""
    if not context.services.settings.openai_token_ids:
        refuse_ids(body.input)
    found, usage = await embed(context, body.query())
    kind, encoding = body.output_dtype, body.encoding_format
    if body.embedding_type == "base64":
        encoding = "base64"
    elif body.embedding_type != "float":
        kind = body.embedding_type
    vectors = converted(found, kind)
    parts = embeddings_parts(vectors, context.model, usage, encoding, names)
    return embed_response(gather(parts), vectors.nbytes, usage, context)


def embeddings_parts(
    vectors: NDArray[Any],
    model: str,
    usage: EmbedUsage,
    encoding: EncodingFormat,
    names: tuple[str, str] = EMBEDDING,
) -> Iterator[bytes]:
    truncated = set(usage.truncated)
    kind, field = names

    def item(index: int, vector: NDArray[Any]) -> dict[str, Any]:
        value = base64_of(vector).decode() if encoding == "base64" else vector
        found = {"object": kind, "index": index, field: value}
        return found | {"truncated": True} if index in truncated else found

    yield b'{"object":"list","data":'
    yield from list_parts(starmap(item, enumerate(np.ascontiguousarray(vectors))))
    tokens = usage_of(sum(usage.num_tokens))
    yield b"," + orjson.dumps({"model": model, "usage": tokens})[1:]


DIALECT = Dialect(
    (router, models.router),
    tasks=dict.fromkeys(("/embeddings", "/v1/embeddings"), "embed"),
    prefixes=("/v1/",),
    error_shape=openai_shape,
    scope="embed",
)
