"""Serves POST /tokenize and /decode with the requests and responses of TEI.

TEI is Hugging Face's Text Embeddings Inference.

Source: TEI, docs/openapi.json at a28ad28f39e0633749a21b74af23617fa86a0d0c.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationInfo
from starlette.responses import Response

from model.tokenization.tokenizer import TokenizedText
from service.api.context import context_of, services_of
from service.api.request.inputs import ModelName, TokenIds, as_inputs
from service.api.request.parameters import request_body
from service.api.request.reading import read_parameters, unless_disconnected
from service.api.responses import JSONResponse
from service.api.tei.errors import TEI_ERRORS
from service.api.tei.schemas import check_text
from service.tasks.parameters import ListOf, Parameters, not_empty, refuse
from service.tasks.vocabulary import find_reader, vocabulary_of

router = APIRouter(tags=["tokens"], responses=TEI_ERRORS)


class TokenizeRequest(Parameters):
    """The body of a request to `POST /tokenize`."""

    model_config = ConfigDict(json_schema_extra={"example": {"inputs": "The cat sat."}})

    inputs: Annotated[str | ListOf[str], BeforeValidator(check_text)] = Field(
        description="A text, or a list of texts.", json_schema_extra=not_empty
    )
    add_special_tokens: bool = Field(True, description="Add the model's special tokens.")
    prompt_name: str | None = Field(
        None, description="Name of the model's prompt that is put before each text."
    )
    model: ModelName = Field(
        None,
        description="Name as in /v1/models; by default the first embedding model or, without one, "
        "the first reranker.",
    )


class TokenBody(BaseModel):
    """One token of a text."""

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
        as_ids,
        json_schema_input_type=TokenIds | Annotated[list[TokenIds], Field(min_length=1)],
    ),
]


class DecodeRequest(Parameters):
    """The body of a request to `POST /decode`."""

    model_config = ConfigDict(json_schema_extra={"example": {"ids": [101, 4937, 102]}})

    ids: Ids = Field(description="Token ids, or a list of lists of token ids.")
    skip_special_tokens: bool = Field(True, description="Leave special tokens out.")
    model: ModelName = Field(
        None,
        description="Name as in /v1/models; by default the first embedding model or, without one, "
        "the first reranker.",
    )


@router.post(
    "/tokenize", response_model=list[list[TokenBody]], openapi_extra=request_body(TokenizeRequest)
)
async def tokenize(request: Request) -> Response:
    """Returns the tokens of each text with its prompt, without truncation to the model's limit."""
    services = services_of(request)
    body = await read_parameters(request, TokenizeRequest)
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    vocabulary = vocabulary_of(find_reader(services.catalog, body.model))
    work = vocabulary.tokens(
        texts,
        body.prompt_name,
        body.add_special_tokens,
        services.settings,
        context_of(request),
    )
    found = await unless_disconnected(request, work)
    return JSONResponse([token_bodies(each) for each in found])


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


@router.post("/decode", response_model=list[str], openapi_extra=request_body(DecodeRequest))
async def decode(request: Request) -> Response:
    """Returns the text of each list of token ids."""
    services = services_of(request)
    body = await read_parameters(request, DecodeRequest)
    vocabulary = vocabulary_of(find_reader(services.catalog, body.model))
    work = vocabulary.texts(
        body.ids, body.skip_special_tokens, services.settings, context_of(request)
    )
    texts = await unless_disconnected(request, work)
    return JSONResponse(texts)
