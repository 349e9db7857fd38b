"""The routes of TEI (Text Embeddings Inference), a server of Hugging Face.

Source: TEI, router/src/http/types.rs at 265deb2ad692067eeda77a746b3975b46ba53920; docs/openapi.json
at a28ad28f39e0633749a21b74af23617fa86a0d0c.
"""

from importlib.metadata import version
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, ValidationInfo
from starlette.responses import Response

from model.config import Pooling
from model.tokenization.pairs import Inputs as ScoreInputs
from model.tokenization.tokenizer import TokenizedText
from service import errors
from service.api import health, vectors
from service.api.context import HttpContext, Services, context_of
from service.api.dialect import Dialect
from service.api.errors import KEYS_401, Statuses, responses_of, status_of
from service.api.ranking import DocumentsRequest, rank_documents, score
from service.api.request.handlers import route
from service.api.responses import gather, list_parts, num_bytes_of
from service.ipc.machine import http_workers
from service.items import EMBED, RERANK
from service.models.served import ServedReranker
from service.models.text_reader import Input
from service.tasks.context import RequestContext
from service.tasks.embedding.inputs import (
    DEFAULT_PARAMETERS,
    DIMENSIONS,
    EMBEDDER,
    CheckedList,
    CheckedText,
    CheckedTexts,
    EmbedParameters,
    EmbedQuery,
    Inputs,
    ModelName,
    ScoreParameters,
    Text,
    TokenIds,
    as_inputs,
    check_text,
)
from service.tasks.parameters import (
    ListOf,
    Parameters,
    Positive,
    example,
    json_type,
    not_empty,
    refuse,
)
from service.tasks.vocabulary import ServedReader, find_reader, find_vocabulary

ErrorType = Literal["Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer"]

STATUSES: Statuses = {
    **KEYS_401,
    errors.InvalidRequestError: 422,
    errors.UnsupportedLanguageError: 422,
    errors.RequestTooLargeError: 422,
    errors.NotFoundError: 424,  # no such model, or no model for the route
    errors.InternalError: 424,
}
"""TEI's statuses, where they differ from the statuses in `service.errors.KINDS`."""

ERROR_TYPES: dict[type[errors.ServiceError], ErrorType] = {
    errors.NotFoundError: "Backend",
    errors.OverloadedError: "Overloaded",
    errors.RateLimitedError: "Overloaded",
    errors.UnavailableError: "Unhealthy",
    errors.DeadlineExceededError: "Backend",
    errors.InternalError: "Backend",
}
"""TEI's `error_type` of errors; that of any other error is `Validation`."""


class TeiErrorBody(BaseModel):
    """The body of an error response of TEI's routes. TEI itself has no `request_id`."""

    model_config = example(
        error="Invalid request: missing inputs parameter",
        error_type="Validation",
        request_id="5f2c6f0e8d7b4a53",
    )

    error: str = Field(description="The fault, with the value, the limit and the remedy.")
    error_type: ErrorType = Field(description="The kind of error, for programs.")
    request_id: str = Field(
        description="Id of the request, as in X-Request-Id. Give it when you report a problem."
    )


TEI_ERRORS = responses_of(TeiErrorBody, 401, 403, 413, 422, 424, 429, 503, 504)


def tei_shape(error: errors.ServiceError, context: RequestContext) -> tuple[int, dict[str, Any]]:
    return status_of(error, STATUSES), {
        "error": error.joined,
        "error_type": ERROR_TYPES.get(type(error), "Validation"),
        "request_id": context.request_id,
    }


router = APIRouter(tags=["embeddings"], responses=TEI_ERRORS)
scoring = APIRouter(tags=["reranking"], responses=TEI_ERRORS)
tokens = APIRouter(tags=["tokens"], responses=TEI_ERRORS)
operation = APIRouter(tags=["operation"], responses=responses_of(TeiErrorBody, 503))


class EmbedAllRequest(EmbedParameters):
    """The body of `POST /embed_all`, in TEI's shape.

    The request asks for a vector for each token. These vectors are neither pooled nor scaled.
    """

    model_config = example(inputs="The cat sat on the mat.")

    inputs: Inputs = Field(
        description="One input or a list of inputs. An input is a text or a list of token ids."
    )
    model: ModelName = EMBEDDER

    def query(self) -> EmbedQuery:
        return EmbedQuery(self.inputs, "inputs", self, self.model, is_per_token=True)


class EmbedSparseRequest(EmbedAllRequest):
    """The body of `POST /embed_sparse`, in TEI's shape: weights of words for each input."""

    def query(self) -> EmbedQuery:
        return EmbedQuery(self.inputs, "inputs", self, self.model)


class WordWeight(BaseModel):
    index: int = Field(description="Id of the word in the model's vocabulary.")
    value: float = Field(description="Weight of the word; all other words have weight 0.")


class EmbedRequest(EmbedAllRequest):
    """The body of `POST /embed`, in TEI's shape: it requests a vector for each input."""

    normalize: bool = Field(True, description="Scale each vector to length 1.")
    dimensions: Positive | None = DIMENSIONS

    def query(self) -> EmbedQuery:
        return EmbedQuery(self.inputs, "inputs", self, self.model, self.dimensions, self.normalize)


class SimilarityInputs(BaseModel):
    """A sentence, and the sentences to compare it with."""

    source_sentence: CheckedText
    sentences: CheckedTexts


def check_pair(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, dict):
        refuse(
            f"{info.field_name} parameter must be an object with source_sentence (a text) and "
            f"sentences (a list of texts), not {json_type(value)}"
        )
    return value


class SimilarityRequest(Parameters):
    model_config = example(
        inputs={
            "source_sentence": "The cat sat on the mat.",
            "sentences": ["A cat is sitting.", "The train is late."],
        }
    )

    inputs: Annotated[SimilarityInputs, BeforeValidator(check_pair)]
    parameters: EmbedParameters | None = None
    model: ModelName = EMBEDDER

    def query(self) -> EmbedQuery:
        texts: list[Input] = [self.inputs.source_sentence, *self.inputs.sentences]
        return EmbedQuery(texts, "inputs", self.parameters or DEFAULT_PARAMETERS, self.model)


EmbedResponse = list[list[float]]  # a vector for each input
EmbedAllResponse = list[list[list[float]]]  # a vector for each token of each input
SimilarityResponse = list[float]  # cosine of the source sentence with each of `sentences`


@route(router.post, "/embed", EmbedResponse)
async def embed(context: HttpContext, body: EmbedRequest) -> Response:
    """Returns a vector for each text."""
    values, usage = await vectors.embed(context, body.query())
    return vectors.json_of_vectors(values, usage, context)


@route(router.post, "/embed_all", EmbedAllResponse)
async def embed_all(context: HttpContext, body: EmbedAllRequest) -> Response:
    """Returns a vector for each token of each text, special tokens included.

    The vectors are neither pooled nor scaled.
    """
    context.num_inputs = len(body.inputs)
    values, usage = await context.services.embedder.embed_tokens(body.query(), context)
    return vectors.json_of_vectors(values, usage, context)


@route(router.post, "/embed_sparse", list[list[WordWeight]])
async def embed_sparse(context: HttpContext, body: EmbedSparseRequest) -> Response:
    """Returns the weights of words for each text, by a SPLADE model, in the order of their ids."""
    context.num_inputs = len(body.inputs)
    found, usage = await context.services.embedder.embed_sparse(body.query(), context)
    words = ([{"index": int(index), "value": weight} for index, weight in each] for each in found)
    return vectors.embed_response(gather(list_parts(words)), num_bytes_of(found), usage, context)


@route(router.post, "/similarity", SimilarityResponse)
async def similarity(context: HttpContext, body: SimilarityRequest) -> Response:
    """Returns the cosine similarity of the source sentence and each other sentence."""
    values, usage = await vectors.embed(context, body.query())
    return vectors.json_of_vectors(vectors.cosines(values), usage, context)


class RerankRequest(ScoreParameters):
    model_config = example(
        query="Where did the cat sit?", texts=["The train is late.", "The cat sat on the mat."]
    )

    query: CheckedText = Field(description="Query that the texts are compared with.")
    texts: CheckedList = Field(description="Texts to rank. An empty text also gets a score.")
    return_text: bool = Field(False, description="Return each text with its score.")


class Rank(BaseModel):
    index: int = Field(description="Index of the text in the request.")
    score: float = Field(description="Relevance of the text to the query.")
    text: str | None = Field(
        None, description="The text. Absent unless the request has `return_text`."
    )


Single = Annotated[list[Text], Field(min_length=1, max_length=1)]
Pair = Annotated[list[Text], Field(min_length=2, max_length=2)]


def check_inputs(value: Any, info: ValidationInfo) -> Any:
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
    model_config = example(inputs=["Where did the cat sit?", "On the mat."])

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


class Prediction(BaseModel):
    score: float = Field(description="Score of the label.")
    label: str = Field(description="Name of the label in the model's config.")


def choose_documents(_services: Services, fields: dict[str, Any]) -> type[ScoreParameters]:
    is_cohere = "documents" in fields and "texts" not in fields
    return DocumentsRequest if is_cohere else RerankRequest


@route(scoring.post, "/rerank", list[Rank], choose=choose_documents)
async def rerank(context: HttpContext, body: RerankRequest | DocumentsRequest) -> Any:
    """Returns the relevance score of each text for a query, in descending order.

    With `documents` in place of `texts`, request and reply are those of `/v1/rerank`.
    """
    if isinstance(body, DocumentsRequest):
        return await rank_documents(context, body)
    pairs: list[ScoreInputs] = [(body.query, text) for text in body.texts]
    scored = await score(context, body, "texts", pairs)
    return [
        {
            "index": index,
            "score": scored.scores[index],
            **({"text": body.texts[index]} if body.return_text else {}),
        }
        for index in scored.order
    ]


@route(scoring.post, "/predict", list[Prediction] | list[list[Prediction]])
async def predict(context: HttpContext, body: PredictRequest) -> Any:
    """Returns the score of a text or a pair, or of each text or pair in a list."""
    given = body.inputs if body.is_batch else [body.inputs]
    inputs: list[ScoreInputs] = [
        (each,) if isinstance(each, str) else tuple(each) for each in given
    ]
    scores, label, _ = await score(context, body, "inputs", inputs)
    reply = [[{"score": score, "label": label}] for score in scores]
    return reply if body.is_batch else reply[0]


def choose_default(services: Services, fields: dict[str, Any]) -> type[Parameters]:
    if services.catalog.of_type(ServedReranker) and not services.catalog.embedders:
        return RerankRequest
    return SimilarityRequest if isinstance(fields.get("inputs"), dict) else EmbedRequest


@route(router.post, "/", EmbedResponse | SimilarityResponse | list[Rank], choose=choose_default)
async def default(
    context: HttpContext, body: EmbedRequest | SimilarityRequest | RerankRequest
) -> Any:
    """Returns the reply of /embed, /similarity or /rerank.

    A server with cross-encoders and without embedding models answers as /rerank. Any other server
    answers as /similarity if `inputs` is an object, and else as /embed. Clients that know only the
    base address of a model send all their requests here.
    """
    if isinstance(body, RerankRequest):
        return await rerank(context, body)
    if isinstance(body, SimilarityRequest):
        return await similarity(context, body)
    return await embed(context, body)


READER: Any = Field(
    None,
    description="Name as in /v1/models; by default the first embedding model or, without one, "
    "the first reranker.",
)


class TokenizeRequest(Parameters):
    model_config = example(inputs="The cat sat.")

    inputs: Annotated[str | ListOf[str], BeforeValidator(check_text)] = Field(
        description="A text, or a list of texts.", json_schema_extra=not_empty
    )
    add_special_tokens: bool = Field(True, description="Add the model's special tokens.")
    prompt_name: str | None = Field(
        None, description="Name of the model's prompt that is put before each text."
    )
    model: ModelName = READER


class TokenBody(BaseModel):
    id: int = Field(description="Id in the vocabulary.")
    text: str = Field(description="Text of the token, or the name of a special token.")
    special: bool = Field(description="Whether the token is special and not text.")
    start: int | None = Field(
        description="Index of the token's first character, counted from the start of the prompt; "
        "null if special."
    )
    stop: int | None = Field(description="Index after the last character; null if special.")


def as_ids(value: Any, info: ValidationInfo) -> list[list[int]]:
    inputs = as_inputs(value, info)
    ids = [each for each in inputs if not isinstance(each, str)]
    if len(ids) < len(inputs):
        refuse(f"{info.field_name} parameter must be a list of token ids, or a list of such lists")
    return ids


Ids = Annotated[
    list[list[int]],
    PlainValidator(
        as_ids, json_schema_input_type=TokenIds | Annotated[list[TokenIds], Field(min_length=1)]
    ),
]


class DecodeRequest(Parameters):
    model_config = example(ids=[101, 4937, 102])

    ids: Ids = Field(description="Token ids, or a list of lists of token ids.")
    skip_special_tokens: bool = Field(True, description="Leave special tokens out.")
    model: ModelName = READER


@route(tokens.post, "/tokenize", list[list[TokenBody]])
async def tokenize(context: HttpContext, body: TokenizeRequest) -> Any:
    """Returns the tokens of each text with its prompt, without truncation to the model's limit."""
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    vocabulary = find_vocabulary(context.services.catalog, body.model, context.services.settings)
    options = body.prompt_name, body.add_special_tokens
    return list(map(token_bodies, await vocabulary.tokens(texts, *options, context)))


def token_bodies(tokenized: TokenizedText) -> list[dict[str, Any]]:
    rows = zip(tokenized.ids, tokenized.pieces, tokenized.offsets, tokenized.special, strict=True)
    return [
        {
            "id": token,
            "text": piece if is_special else tokenized.text[start:stop],
            "special": is_special,
            "start": None if is_special else start,
            "stop": None if is_special else stop,
        }
        for token, piece, (start, stop), is_special in rows
    ]


@route(tokens.post, "/decode", list[str])
async def decode(context: HttpContext, body: DecodeRequest) -> Any:
    """Returns the text of each list of token ids."""
    vocabulary = find_vocabulary(context.services.catalog, body.model, context.services.settings)
    return await vocabulary.texts(body.ids, body.skip_special_tokens, context)


class EmbeddingType(BaseModel):
    pooling: str = Field(description="How the vectors of tokens are joined into one vector.")


class RerankerType(BaseModel):
    id2label: dict[str, str]
    label2id: dict[str, int]


class ModelType(BaseModel):
    """The type of a model. Exactly one of the two fields is present."""

    embedding: EmbeddingType | None = None
    reranker: RerankerType | None = None


class Info(BaseModel):
    """The default model of TEI's routes, and the limits of the server."""

    model_id: str
    model_sha: str | None = Field(description="First digits of the sha256 sum of the weights.")
    model_dtype: str
    model_type: ModelType
    max_concurrent_requests: int
    max_input_length: int = Field(description="Largest number of tokens of a text.")
    max_batch_tokens: int
    max_batch_requests: int | None
    max_client_batch_size: int = Field(description="Largest number of texts of a request.")
    auto_truncate: bool = Field(description="The setting REGARD_TRUNCATE.")
    tokenization_workers: int
    version: str
    sha: str | None
    docker_label: str | None
    reranker_id: str | None = Field(
        None, description="The first cross-encoder. TEI serves one model, and has no such field."
    )


POOLING = {Pooling.LAST_TOKEN: "last_token"}
"""TEI's names of the pooling types that have another name in Regard."""


@operation.get(
    "/info", response_model_exclude_unset=True, responses=responses_of(TeiErrorBody, 424)
)
async def info(request: Request) -> Info:
    """Returns the limits of the server and the default model.

    The default is the first embedding model. Without embedding models, it is the first
    cross-encoder.
    """
    services = context_of(request).services
    served, settings = find_reader(services.catalog, None), services.settings
    is_loaded = served.name not in services.catalog.unloaded
    resident = (await services.backend.status()).resident(served.name)
    if is_loaded and resident is None:
        raise errors.loading()
    return Info(
        model_id=served.name,
        model_sha=served.files.revision if is_loaded else None,
        model_dtype=resident.dtype if resident else settings.dtype,
        model_type=model_type(served),
        max_concurrent_requests=settings.max_pending_requests,
        max_input_length=served.tokenizer.max_tokens,
        max_batch_tokens=settings.max_batch_tokens,
        max_batch_requests=None,
        max_client_batch_size=settings.max_inputs,
        auto_truncate=settings.truncate,
        tokenization_workers=http_workers(settings.http_workers, settings.device),
        version=version("regard"),
        sha=None,
        docker_label=None,
        reranker_id=next(iter(services.catalog.of_type(ServedReranker)), None),
    )


def model_type(served: ServedReader) -> ModelType:
    if isinstance(served, ServedReranker):
        label = served.config.label
        return ModelType(reranker=RerankerType(id2label={"0": label}, label2id={label: 0}))
    if served.config.sparse is not None:
        return ModelType(embedding=EmbeddingType(pooling="splade"))
    names = [POOLING.get(each, each.value) for each in served.config.pooling]
    return ModelType(embedding=EmbeddingType(pooling="+".join(names)))


@operation.get("/ping", status_code=200, response_class=Response)
async def ping(request: Request) -> Response:
    """Returns an empty reply, or 503 if the server does not accept requests that run a model."""
    await health.ready(request)
    return Response()


DIALECT = Dialect(
    (router, scoring, tokens, operation),
    tasks={
        **dict.fromkeys(("/", "/embed", "/embed_all", "/embed_sparse", "/similarity"), EMBED),
        **dict.fromkeys(("/rerank", "/predict"), RERANK),
    },
    error_shape=tei_shape,
    scope="embed",
)
