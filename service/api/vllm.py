"""The routes of vLLM that score pairs of texts and that return vectors: /score and /pooling.

Source: vLLM, docs/serving/openai_compatible_server.md, "Score API" and "Pooling API".
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from service.api.context import HttpContext
from service.api.dialect import Dialect
from service.api.openai.embeddings import (
    EmbeddingsRequest,
    EmbeddingsUsage,
    embed_in_shape,
    usage_of,
)
from service.api.openai.errors import OPENAI_ERRORS, openai_shape
from service.api.ranking import RAW_SCORES, score
from service.api.request.handlers import route
from service.errors import InvalidRequestError, counted
from service.items import EMBED, RERANK
from service.models.served import ServedReranker
from service.tasks.embedding.inputs import ScoreParameters, check_list
from service.tasks.parameters import ListOf, example, not_empty

Texts = Annotated[str | ListOf[str], BeforeValidator(check_list)]


def texts_field(description: str, *names: str) -> Any:
    return Field(
        validation_alias=AliasChoices(*names),
        description=f"{description} Other names of the field: {', '.join(names[1:])}.",
        json_schema_extra=not_empty,
    )


class ScoreRequest(ScoreParameters):
    """The body of `POST /score`: one query and n texts, or n queries and n texts."""

    model_config = example(
        text_1="Where did the cat sit?", text_2=["The train is late.", "The cat sat on the mat."]
    )

    text_1: Texts = texts_field("A query, or a list of queries.", "text_1", "queries", "data_1")
    text_2: Texts = texts_field(
        "A text, or a list of texts.", "text_2", "documents", "items", "data_2"
    )
    raw_scores: bool | None = RAW_SCORES

    def pairs(self) -> list[tuple[str, str]]:
        queries, texts = as_list(self.text_1), as_list(self.text_2)
        if len(queries) not in (1, len(texts)):
            raise InvalidRequestError(
                f"Invalid request: text_1 has {len(queries)} texts and text_2 has "
                f"{counted(len(texts), 'text')}; send one query, or as many queries as texts",
                param="text_1",
            )
        queries = queries * len(texts) if len(queries) == 1 else queries
        return [*zip(queries, texts, strict=True)]


def as_list(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


class PairScore(BaseModel):
    index: int
    object: Literal["score"] = "score"
    score: float


class ScoreResponse(BaseModel):
    id: str
    object: Literal["list"] = "list"
    created: int = Field(description="Start of the server, in Unix seconds.")
    model: str
    data: list[PairScore]
    usage: EmbeddingsUsage


class PooledBody(BaseModel):
    object: Literal["pooling"] = "pooling"
    index: int
    data: list[float] | str = Field(description="Numbers, or one base64 text.")


class PoolingResponse(BaseModel):
    object: Literal["list"] = "list"
    data: list[PooledBody]
    model: str
    usage: EmbeddingsUsage


router = APIRouter(tags=["reranking"], responses=OPENAI_ERRORS)


@route(router.post, "/v1/score", ScoreResponse, operation_id="score_of_vllm_1")
@route(router.post, "/score", ScoreResponse)
async def score_pairs(context: HttpContext, body: ScoreRequest) -> Any:
    """Returns the score of each pair of a query and a text."""
    scored = await score(context, body, "text_2", body.pairs())
    return {
        "id": context.request_id,
        "object": "list",
        "created": context.services.started,
        "model": context.model,
        "data": [
            {"index": index, "object": "score", "score": value}
            for index, value in enumerate(scored.scores)
        ],
        "usage": usage_of(scored.num_tokens),
    }


@route(router.post, "/pooling", PoolingResponse)
async def pooling(context: HttpContext, body: EmbeddingsRequest) -> Any:
    """Returns a vector for each text, as /v1/embeddings does, or a cross-encoder's score of it."""
    catalog = context.services.catalog
    if catalog.named(body.model or "") not in catalog.of_type(ServedReranker):
        return await embed_in_shape(context, body, ("pooling", "data"))
    context.task = RERANK
    options = ScoreParameters.model_validate(
        {"raw_scores": None} | body.model_dump(include=set(ScoreParameters.model_fields))
    )
    texts = [(text,) for text in body.input if isinstance(text, str)]
    if len(texts) < len(body.input):
        raise InvalidRequestError(
            "Invalid request: input has token ids; a cross-encoder reads texts, so send texts",
            param="input",
        )
    scored = await score(context, options, "input", texts)
    data = [
        {"object": "pooling", "index": index, "data": [value]}
        for index, value in enumerate(scored.scores)
    ]
    usage = usage_of(scored.num_tokens)
    return {"object": "list", "data": data, "model": context.model, "usage": usage}


DIALECT = Dialect(
    (router,),
    tasks={"/score": RERANK, "/v1/score": RERANK, "/pooling": EMBED},
    error_shape=openai_shape,
    scope="embed",
)
