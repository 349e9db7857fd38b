"""The routes of Cohere's API, versions 1 and 2: rerank and embed.

The rerank routes of Jina, Voyage, vLLM and Infinity are the same (`service.api.ranking`).

Source: https://docs.cohere.com/reference/embed; https://docs.cohere.com/v1/reference/embed;
https://docs.cohere.com/reference/rerank.
"""

from typing import Any, Literal

from fastapi import APIRouter
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api import vectors
from service.api.context import HttpContext
from service.api.dialect import Dialect
from service.api.errors import responses_of, status_of
from service.api.openai.errors import STATUSES
from service.api.ranking import DocumentsRequest, DocumentsResponse, meta_of, rank_documents
from service.api.request.handlers import route
from service.errors import InvalidRequestError, ServiceError
from service.items import EMBED, RERANK
from service.tasks.context import RequestContext
from service.tasks.embedding.embedder import Vectors
from service.tasks.embedding.inputs import (
    DIMENSIONS,
    EMBEDDER,
    EmbedParameters,
    EmbedQuery,
    ModelName,
)
from service.tasks.parameters import ListOf, Parameters, Positive, example


class CohereErrorBody(BaseModel):
    model_config = example(
        id="5f2c6f0e8d7b4a53", message="Invalid request: missing query parameter"
    )

    id: str = Field(description="Id of the request, as in X-Request-Id.")
    message: str = Field(description="The fault, with the value, the limit and the remedy.")


COHERE_ERRORS = responses_of(CohereErrorBody, 400, 401, 403, 404, 413, 429, 500, 503, 504)


def cohere_shape(error: ServiceError, context: RequestContext) -> tuple[int, dict[str, Any]]:
    return status_of(error, STATUSES), {"id": context.request_id, "message": error.joined}


ranking = APIRouter(tags=["reranking"], responses=COHERE_ERRORS)
embedding = APIRouter(tags=["embeddings"], responses=COHERE_ERRORS)


@route(ranking.post, "/v1/rerank", DocumentsResponse, operation_id="rerank_of_cohere_1")
@route(ranking.post, "/v2/rerank", DocumentsResponse)
async def rerank_documents(context: HttpContext, body: DocumentsRequest) -> dict[str, Any]:
    """Returns documents in the order of their relevance to a query, best first."""
    return await rank_documents(context, body)


DIRECTIONS: dict[str | None, dict[str, Any]] = {
    None: {},
    "NONE": {"truncate": False},
    "START": {"truncate": True, "truncation_direction": "left"},
    "END": {"truncate": True},
}
"""The options of EmbedParameters for each value of Cohere's `truncate`."""


class CohereEmbedRequest(Parameters):
    model_config = example(texts=["The cat sat on the mat."], input_type="search_document")

    texts: ListOf[str] | None = Field(None, description="Texts to embed.")
    inputs: ListOf[dict[str, Any]] | None = Field(
        None, description="Inputs of version 2 in place of `texts`; only text is accepted."
    )
    images: Any = Field(None, description="Refused: no model reads images.")
    model: ModelName = EMBEDDER
    input_type: str | None = Field(
        None,
        description="Purpose, such as `search_query` or `search_document`; it chooses the model's "
        "prompt.",
    )
    embedding_types: ListOf[vectors.EmbeddingType] | None = Field(
        None, description="Types of numbers; by default `float`."
    )
    output_dimension: Positive | None = DIMENSIONS
    truncate: Literal["NONE", "START", "END"] | None = Field(
        None, description="End at which a long text is cut; by default REGARD_TRUNCATE decides."
    )

    def query(self) -> EmbedQuery:
        texts = self.texts or [_text_of(*each) for each in enumerate(self.inputs or [])]
        if self.images or not texts:
            fault = "images are not supported" if self.images else "missing texts parameter"
            raise InvalidRequestError(f"Invalid request: {fault}; send texts", param="texts")
        reading = EmbedParameters.model_validate(DIRECTIONS[self.truncate])
        return EmbedQuery(
            texts, "texts", reading, self.model, self.output_dimension, purpose=self.input_type
        )


def _text_of(place: int, member: dict[str, Any]) -> str:
    content = member.get("content")
    parts = content if isinstance(content, list) else []
    given = [part.get("text") for part in parts if isinstance(part, dict)]
    texts = [text for text in given if isinstance(text, str)]
    if not texts or len(texts) < len(parts):
        raise InvalidRequestError(
            f"Invalid request: inputs[{place}] needs content, a list of objects with text",
            param="inputs",
        )
    return "\n".join(texts)


class CohereEmbedResponse(BaseModel):
    """The vectors of each type; in version 1 without `embedding_types`, one list of vectors."""

    id: str
    response_type: Literal["embeddings_by_type", "embeddings_floats"]
    embeddings: dict[vectors.EmbeddingType, list[list[float]] | list[str]] | list[list[float]]
    texts: list[str]
    meta: dict[str, Any]


@route(
    embedding.post,
    "/v1/embed",
    CohereEmbedResponse,
    name="embed_texts",
    operation_id="embed_of_cohere_1",
)
async def embed_texts_1(context: HttpContext, body: CohereEmbedRequest) -> Response:
    """Returns a vector for each text, in one or several types of numbers."""
    return await embed_types(context, body, is_plain=body.embedding_types is None)


@route(embedding.post, "/v2/embed", CohereEmbedResponse)
async def embed_texts(context: HttpContext, body: CohereEmbedRequest) -> Response:
    """Returns a vector for each text, in one or several types of numbers."""
    return await embed_types(context, body, is_plain=False)


async def embed_types(context: HttpContext, body: CohereEmbedRequest, is_plain: bool) -> Response:
    query = body.query()
    found, usage = await vectors.embed(context, query)
    tokens = sum(usage.num_tokens)
    types: dict[vectors.EmbeddingType, None] = dict.fromkeys(body.embedding_types or ["float"])
    reply: dict[str, Any] = {
        "id": context.request_id,
        "response_type": "embeddings_floats" if is_plain else "embeddings_by_type",
        "embeddings": found if is_plain else {name: encoded(found, name) for name in types},
        "texts": [*query.inputs],
        "meta": meta_of(tokens, {"input_tokens": tokens}),
    }
    return vectors.json_of_vectors(reply, usage, context)


def encoded(found: Vectors, name: vectors.EmbeddingType) -> NDArray[Any] | list[str]:
    if name == "base64":
        return [vectors.base64_of(vector).decode() for vector in found]
    return vectors.converted(found, name)


DIALECT = Dialect(
    (ranking, embedding),
    tasks={
        **dict.fromkeys(("/v1/rerank", "/v2/rerank"), RERANK),
        **dict.fromkeys(("/v1/embed", "/v2/embed"), EMBED),
    },
    error_shape=cohere_shape,
    scope="embed",
)
