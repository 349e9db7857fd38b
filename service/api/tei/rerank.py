"""Serves POST /rerank with the requests and responses of TEI (Text Embeddings Inference).

Source: TEI, router/src/http/types.rs at 265deb2ad692067eeda77a746b3975b46ba53920.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from service.api.context import context_of, services_of
from service.api.request.parameters import ListOf, not_empty, request_body
from service.api.request.reading import read_parameters, unless_disconnected
from service.api.responses import JSONResponse
from service.api.tei.errors import TEI_ERRORS
from service.api.tei.schemas import ScoreParameters, check_list, check_text
from service.tasks.reranking import Reranker, RerankQuery

router = APIRouter(tags=["reranking"])


class RerankRequest(ScoreParameters):
    """The body of `POST /rerank`, in TEI's shape."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "query": "Where did the cat sit?",
                "texts": ["The train is late.", "The cat sat on the mat."],
            }
        }
    )

    query: Annotated[str, BeforeValidator(check_text)] = Field(
        description="Query that the texts are compared with.", json_schema_extra=not_empty
    )
    texts: Annotated[ListOf[str], BeforeValidator(check_list)] = Field(
        description="Texts to rank. An empty text also gets a score.",
        json_schema_extra=not_empty,
    )
    return_text: bool = Field(False, description="Return each text with its score.")

    def rerank_query(self) -> RerankQuery:
        """Returns the request in the form that the reranking task takes."""
        return RerankQuery(
            self.query,
            self.texts,
            self.raw_scores,
            self.truncate,
            self.truncation_direction,
            self.model,
        )


class Rank(BaseModel):
    """The score of one text."""

    index: int = Field(description="Index of the text in the request.")
    score: float = Field(description="Relevance of the text to the query.")
    text: str | None = Field(
        None, description="The text. Absent unless the request has `return_text`."
    )


@router.post(
    "/rerank",
    response_model=list[Rank],
    response_model_exclude_none=True,
    responses=TEI_ERRORS,
    openapi_extra=request_body(RerankRequest),
)
async def rerank(request: Request) -> Response:
    """Returns the relevance score of each text for a query, in descending order."""
    with context_of(request).stage("validate"):
        body = await read_parameters(request, RerankRequest)
    return await rank(request, body)


async def rank(request: Request, body: RerankRequest) -> Response:
    """Returns the reply of /rerank."""
    services, context = services_of(request), context_of(request)
    context.num_inputs = len(body.texts)
    reranker = Reranker(services.catalog, services.backend, services.settings)
    work = reranker.rerank(body.rerank_query(), context)
    ranked = await unless_disconnected(request, work)
    reply: list[dict[str, Any]] = [{"index": each.index, "score": each.score} for each in ranked]
    if body.return_text:
        reply = [{**each, "text": body.texts[each["index"]]} for each in reply]
    return JSONResponse(reply)
