"""The routes that Weaviate's module text2vec-transformers asks; `/rerank` answers its reranker.

Source: weaviate/t2v-transformers-models, app.py; weaviate/weaviate,
usecases/modulecomponents/clients/transformers/transformers.go.
"""

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api import health
from service.api.context import HttpContext, context_of
from service.api.dialect import Dialect
from service.api.errors import ERRORS, MISSING
from service.api.request.handlers import route
from service.api.vectors import embed, json_of_vectors
from service.items import EMBED
from service.tasks.embedding.inputs import DEFAULT_PARAMETERS, EmbedQuery
from service.tasks.parameters import Parameters, example
from service.tasks.vocabulary import find_reader


class WeaviateConfig(Parameters):
    """Options of a text; `pooling_strategy` is ignored, because the model has its own."""

    task_type: Literal["query", "passage"] | None = Field(
        None, description="Chooses the model's prompt."
    )


class WeaviateRequest(Parameters):
    model_config = example(text="The cat sat on the mat.")

    text: str = Field(description="The text.")
    config: WeaviateConfig | None = Field(None, description="Options.")


class WeaviateResponse(BaseModel):
    text: str
    vector: list[float]
    dim: int = Field(description="Number of values of the vector.")


router = APIRouter(tags=["embeddings"], responses={**ERRORS, **MISSING})
operation = APIRouter(tags=["operation"])


@route(router.post, "/vectors", WeaviateResponse)
async def vectors(context: HttpContext, body: WeaviateRequest) -> Response:
    """Returns the vector of one text by the first embedding model, in Weaviate's form."""
    purpose = body.config.task_type if body.config else None
    query = EmbedQuery([body.text], "text", DEFAULT_PARAMETERS, purpose=purpose)
    found, usage = await embed(context, query)
    reply: dict[str, Any] = {"text": body.text, "vector": found[0], "dim": found.shape[1]}
    return json_of_vectors(reply, usage, context)


@operation.get("/meta", responses=MISSING)
async def meta(request: Request) -> dict[str, Any]:
    """Returns the name of the first embedding model or cross-encoder."""
    catalog = context_of(request).services.catalog
    served = find_reader(catalog, None)
    revision = None if served.name in catalog.unloaded else served.files.revision
    return {"model": served.name, "revision": revision}


@operation.get("/.well-known/live", status_code=204, response_class=Response)
@operation.get("/.well-known/ready", status_code=204, response_class=Response)
async def ready(request: Request) -> Response:
    """Returns an empty reply, or 503 if the server does not accept requests that run a model."""
    await health.ready(request)
    return Response(status_code=204)


DIALECT = Dialect((router, operation), tasks={"/vectors": EMBED}, scope="embed")
