"""POST /predict, as in TEI (text-embeddings-inference): scores a text or a pair of texts.

A served cross-encoder has only one label, so each input gets one score.

Source: TEI, docs/openapi.json at a28ad28f39e0633749a21b74af23617fa86a0d0c.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationInfo
from starlette.responses import Response

from service.api.context import context_of, services_of
from service.api.request.inputs import Text
from service.api.request.parameters import refuse, request_body
from service.api.request.reading import read_parameters, unless_disconnected
from service.api.responses import JSONResponse
from service.api.tei.errors import TEI_ERRORS
from service.api.tei.schemas import ScoreParameters
from service.tasks.reranking import Inputs, Reranker, ScoreQuery

router = APIRouter(tags=["reranking"])

Single = Annotated[list[Text], Field(min_length=1, max_length=1)]
Pair = Annotated[list[Text], Field(min_length=2, max_length=2)]


def check_inputs(value: Any, info: ValidationInfo) -> Any:
    """Returns `inputs` unchanged if they have one of the three permitted shapes.

    The shapes are: a text, a pair of texts, or a list of lists that each have one text or two
    texts. Other values and empty texts are refused.
    """
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
    """Returns whether a value is a list of texts without an empty text."""
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
        """Returns whether the request has a list of inputs. The list may have only one input."""
        return isinstance(self.inputs, list) and isinstance(self.inputs[0], list)

    def query(self) -> ScoreQuery:
        """Returns the query for `service.tasks.reranking.Reranker`."""
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
    responses=TEI_ERRORS,
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
