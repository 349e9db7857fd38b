"""Scores texts with a cross-encoder, and ranks documents in the forms of Cohere and its followers.

Jina, vLLM, Infinity and Xinference have Cohere's form. Voyage's clients send `truncation` or
`top_k` and read `data`. Weaviate's module sends `property` and reads `scores`.

Source: https://docs.cohere.com/reference/rerank; https://docs.voyageai.com/reference/reranker-api;
weaviate/weaviate, modules/reranker-transformers/clients/ranker.go at 1e250816.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from model.tokenization.pairs import Inputs
from service.api.context import HttpContext
from service.api.openai.embeddings import EmbeddingsUsage, usage_of
from service.errors import InvalidRequestError
from service.tasks.embedding.inputs import CheckedText, ScoreParameters, check_list
from service.tasks.embedding.limits import check_num_inputs
from service.tasks.parameters import ListOf, Natural, example, not_empty
from service.tasks.reranking import Reranker, Scored

MAX_RANK_FIELDS = 64

RAW_SCORES: Any = Field(
    None,
    description="Return logits, or false for scores from 0 to 1. By default, the model's config "
    "decides, as in sentence-transformers.",
)


class DocumentsRequest(ScoreParameters):
    model_config = example(
        query="Where did the cat sit?",
        documents=["The train is late.", "The cat sat on the mat."],
        top_n=1,
    )

    query: CheckedText
    documents: Annotated[ListOf[str | dict[str, Any]], BeforeValidator(check_list)] = Field(
        description="Texts, or objects with `text`.", json_schema_extra=not_empty
    )
    top_n: Natural = Field(0, description="Number of documents to return, or 0 for all.")
    return_documents: bool = Field(False, description="Return each document with its score.")
    rank_fields: Annotated[ListOf[str], Field(max_length=MAX_RANK_FIELDS)] | None = Field(
        None, description="Fields of an object to read, each as a line `name: value`."
    )
    raw_scores: bool | None = RAW_SCORES
    top_k: Natural | None = Field(None, description="`top_n` in Voyage's words.")
    truncation: bool | None = Field(None, description="`truncate` in Voyage's words.")
    property: Any = Field(None, description="Sent by Weaviate.")

    def texts(self) -> list[str]:
        return [self._text(*each) for each in enumerate(self.documents)]

    def _text(self, place: int, document: str | dict[str, Any]) -> str:
        if isinstance(document, str):
            return document
        if self.rank_fields:
            found = {name: document[name] for name in self.rank_fields if name in document}
            return "\n".join(f"{name}: {value}" for name, value in found.items())
        text = document.get("text")
        if not isinstance(text, str):
            raise InvalidRequestError(
                f"Invalid request: documents[{place}] has no text; send a text, an object with "
                "text, or the names of its fields in rank_fields",
                param="documents",
            )
        return text


class RankedText(BaseModel):
    text: str


class RankedDocument(BaseModel):
    index: int = Field(description="Index of the document in the request.")
    relevance_score: float
    document: RankedText | dict[str, Any] | None = Field(
        None, description="Absent unless the request has `return_documents`."
    )


class DocumentsResponse(BaseModel):
    id: str
    model: str
    results: list[RankedDocument]
    usage: EmbeddingsUsage
    meta: dict[str, Any] = Field(description="The same numbers in Cohere's form.")


async def score(
    context: HttpContext, options: ScoreParameters, name: str, inputs: Sequence[Inputs]
) -> Scored:
    context.num_inputs = len(inputs)
    reranker = Reranker(
        context.services.catalog, context.services.backend, context.services.settings
    )
    return await reranker.score(inputs, name, options, context)


async def rank_documents(context: HttpContext, body: DocumentsRequest) -> dict[str, Any]:
    limit = context.services.settings.max_inputs
    check_num_inputs(body.documents, limit, "documents")  # before each is read
    texts = body.texts()
    if body.truncate is None:
        body.truncate = body.truncation
    pairs = [(body.query, text) for text in texts]
    scored = await score(context, body, "documents", pairs)
    order = scored.order[: body.top_n or body.top_k or None]
    scores = {index: scored.scores[index] for index in order}
    if "property" in body.model_fields_set:
        ranked = [{"document": texts[index], "score": score} for index, score in scores.items()]
        return {"query": body.query, "scores": ranked}
    is_voyage = body.top_k is not None or body.truncation is not None
    results = [
        {"index": index, "relevance_score": score}
        | ({"document": document(body, index, is_voyage)} if body.return_documents else {})
        for index, score in scores.items()
    ]
    tokens, usage = scored.num_tokens, usage_of(scored.num_tokens)
    if is_voyage:
        return {"object": "list", "data": results, "model": context.model, "usage": usage}
    return {
        "id": context.request_id,
        "model": context.model,
        "results": results,
        "usage": usage,
        "meta": meta_of(tokens, {"search_units": 1}),
    }


def document(body: DocumentsRequest, index: int, is_voyage: bool) -> str | dict[str, Any]:
    found = body.documents[index]
    return {"text": found} if isinstance(found, str) and not is_voyage else found


def meta_of(num_tokens: int, billed_units: dict[str, int]) -> dict[str, Any]:
    return {
        "api_version": {"version": "2"},
        "billed_units": billed_units,
        "tokens": {"input_tokens": num_tokens, "output_tokens": 0},
    }
