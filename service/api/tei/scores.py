"""Serves POST /rerank with the requests and responses of TEI (Text Embeddings Inference).

Source: TEI, router/src/http/types.rs at 265deb2ad692067eeda77a746b3975b46ba53920.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationInfo
from starlette.responses import Response

from service.api.context import context_of, services_of
from service.api.request.inputs import Text
from service.api.request.parameters import request_body
from service.api.request.reading import read_parameters, unless_disconnected
from service.api.responses import JSONResponse
from service.api.tei.errors import TEI_ERRORS
from service.api.tei.schemas import ScoreParameters, check_list, check_text
from service.tasks.parameters import ListOf, not_empty, refuse
from service.tasks.reranking import Inputs, Reranker, ScoreQuery

router = APIRouter(tags=["reranking"], responses=TEI_ERRORS)


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

    def scores(self) -> ScoreQuery:
        pairs = [(self.query, text) for text in self.texts]
        return ScoreQuery(
            pairs,
            "texts",
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
    openapi_extra=request_body(RerankRequest),
)
async def rerank(request: Request) -> Response:
    """Returns the relevance score of each text for a query, in descending order."""
    with context_of(request).stage("validate"):
        body = await read_parameters(request, RerankRequest)
    return await rank(request, body)


async def rank(request: Request, body: RerankRequest) -> Response:
    services, context = services_of(request), context_of(request)
    context.num_inputs = len(body.texts)
    reranker = Reranker(services.catalog, services.backend, services.settings)
    scores, _ = await unless_disconnected(request, reranker.score(body.scores(), context))
    best = (-scores).argsort(kind="stable").tolist()  # texts of equal score keep their order
    reply = [
        {
            "index": index,
            "score": float(str(scores[index])),
            **({"text": body.texts[index]} if body.return_text else {}),
        }
        for index in best
    ]
    return JSONResponse(reply)


Single = Annotated[list[Text], Field(min_length=1, max_length=1)]
Pair = Annotated[list[Text], Field(min_length=2, max_length=2)]


def check_inputs(value: Any, info: ValidationInfo) -> Any:
    """Refuses values that are no text, no pair of texts, and no list of such lists."""
    name = info.field_name
    if isinstance(value, list) and value and isinstance(value[0], list):
        for place, each in enumerate(value):
            if not (is_texts(each) and len(each) in (1, 2)):
                refuse(f"{name}[{place}] parameter must be a list of one text or of two texts")
    elif not (is_texts([value]) or (is_texts(value) and len(value) == 2)):
        refuse(
            f"{name} parameter must be a text, a pair of texts, or a list of lists that each have "
            "one text or two texts"
        )
    return value


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) and each for each in value)


class PredictRequest(ScoreParameters):
    """The body of `POST /predict`, in TEI's shape."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"inputs": ["Where did the cat sit?", "On the mat."]}}
    )

    inputs: Annotated[
        Any,
        PlainValidator(
            check_inputs,
            json_schema_input_type=Text
            | Pair
            | Annotated[list[Single | Pair], Field(min_length=1)],
        ),
    ] = Field(
        description="A text, a pair of texts, or a list of lists that each have one text or two "
        "texts."
    )

    @property
    def is_batch(self) -> bool:
        return isinstance(self.inputs, list) and isinstance(self.inputs[0], list)

    def query(self) -> ScoreQuery:
        given = self.inputs if self.is_batch else [self.inputs]
        inputs: list[Inputs] = [(each,) if isinstance(each, str) else tuple(each) for each in given]
        return ScoreQuery(
            inputs,
            "inputs",
            self.raw_scores,
            self.truncate,
            self.truncation_direction,
            self.model,
        )


class Prediction(BaseModel):
    """The score of one label."""

    score: float = Field(description="Score of the label.")
    label: str = Field(description="Name of the label in the model's config.")


@router.post(
    "/predict",
    response_model=list[Prediction] | list[list[Prediction]],
    openapi_extra=request_body(PredictRequest),
)
async def predict(request: Request) -> Response:
    """Returns the score of a text or a pair, or of each text or pair in a list."""
    services, context = services_of(request), context_of(request)
    with context.stage("validate"):
        body = await read_parameters(request, PredictRequest)
        query = body.query()
        context.num_inputs = len(query.inputs)
    reranker = Reranker(services.catalog, services.backend, services.settings)
    scores, label = await unless_disconnected(request, reranker.score(query, context))
    reply = [[{"score": float(str(score)), "label": label}] for score in scores]
    return JSONResponse(reply if body.is_batch else reply[0])
