"""Attention for a request about texts as they are embedded: each alone, by an encoder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from model.inspection.query import AttentionJob, AttentionQuery, InspectedConfig
from model.inspection.trace import AttentionTrace
from model.tokenization.text import TextTokens
from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.errors import SHOWN_CHARS, NotFoundError, RequestTooLargeError, UnavailableError
from service.items.attention import AttentionItem
from service.items.result import Result
from service.models.catalog import Catalog
from service.models.served import ServedEmbedder, ServedModel
from service.settings import Settings
from service.tasks.attention.matrices import TextItem, show_text
from service.tasks.attention.pairs import attentions, maps_size
from service.tasks.attention.query import attention_query, check_size, steps_query
from service.tasks.attention.requests import InspectionRequest, ModelChoice, TraceRequest, View
from service.tasks.attention.results import (
    Inspection,
    SteppedThrough,
    compute,
    count_long,
    item_name,
    nothing_to_read,
)
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.embedding_limits import find_language, find_prompt
from service.tasks.translation import CHARS_PER_TOKEN, INLINE_CHARS, run_sized


@dataclass(frozen=True, slots=True)
class Encoder:
    """What is asked of a model's encoder.

    Attributes:
        name: Served name.
        config: Of the model.
        max_tokens: Of a text, special ones included.
        tokenize: A text, prompt included, as the model gets it.
        prompt: What is put before each text.
    """

    name: str
    config: InspectedConfig
    max_tokens: int
    tokenize: Callable[[str], TextTokens]
    prompt: str


class TextInspector:
    """The way of a request about embedded texts through everything that is not HTTP.

    Args:
        catalog: What is served.
        backend: Who lets it in and has it computed.
        settings: Limits.
    """

    def __init__(self, catalog: Catalog, backend: Backend, settings: Settings) -> None:
        self.catalog = catalog
        self.backend = backend
        self.settings = settings

    async def inspect(self, request: InspectionRequest, context: RequestContext) -> Inspection:
        """The attention of every text.

        Raises:
            ServiceError: The request is refused, late, or failed.
        """
        encoder = await self._encoder(request, context)
        query = attention_query(encoder.config, request)
        texts = await self._tokenize(request.texts, encoder, context)
        lengths = [(len(text.ids), 0) for text in texts]
        check_size(query, lengths, request.view.top_k, self.settings.max_attention_values)
        jobs = [AttentionJob(text.ids, [], (query,)) for text in texts]
        shown = await self._compute(encoder, jobs, context)
        with context.stage("detokenize"):
            items = await run_sized(
                sum(map(maps_size, shown)), assemble, texts, shown, query, request.view
            )
        return Inspection(encoder.name, items)

    async def step_through(self, request: TraceRequest, context: RequestContext) -> SteppedThrough:
        """The computation of one token's attention.

        Raises:
            ServiceError: The request is refused, late, or failed.
        """
        encoder = await self._encoder(request, context)
        steps_query(encoder.config, replace(request, query=0), 1, 0)
        (text,) = await self._tokenize([request.text], encoder, context)
        query = steps_query(encoder.config, request, len(text.ids), 0)
        (shown,) = await self._compute(encoder, [AttentionJob(text.ids, [], (query,))], context)
        steps = cast("AttentionTrace", shown.value[0])
        return SteppedThrough(encoder.name, query, text, None, "", steps)

    async def _encoder(self, question: ModelChoice, context: RequestContext) -> Encoder:
        """The encoder of the model that is named, or of the first that embeds; it is loaded.

        Raises:
            NotFoundError: There is none of that name, or none at all.
            InvalidRequestError: It has no such prompt, or has to be told one of its languages.
            UnavailableError: It is not loaded.
        """
        served = self._model(question.model)
        context.model = served.name
        resident = (await self.backend.status()).models.get(served.name)
        if resident is None:
            raise UnavailableError("the models are loading; try again soon", 1)
        if isinstance(served, ServedModel):
            config = resident.config
            assert config is not None  # of a translation model
            tokenizer = opened(served, question.prompt_name)
            limit = self.settings.max_source_tokens
            return Encoder(served.name, config, limit, partial(whole, tokenizer, limit), "")
        own = served.config
        prompt = find_prompt(question.prompt_name, own.prompts, own.default_prompt)
        return Encoder(served.name, own.encoder, own.max_tokens, served.tokenizer.tokenize, prompt)

    def _model(self, name: str | None) -> ServedModel | ServedEmbedder:
        served: dict[str, ServedModel | ServedEmbedder] = {
            **self.catalog.embedders,
            **self.catalog.models,
        }
        known = ", ".join(served)
        if name is None:
            first = next(iter(self.catalog.embedders.values()), None)
            if first is None:
                raise NotFoundError(
                    f"no embedding model is served; name one in model whose encoder embeds: {known}"
                )
            return first
        if name not in served:
            raise NotFoundError(
                f"there is no model {name[:SHOWN_CHARS]} that embeds; there are {known}"
            )
        return served[name]

    async def _tokenize(
        self, texts: Sequence[str], encoder: Encoder, context: RequestContext
    ) -> list[TokenizedText]:
        """A place is taken meanwhile, so that only so much is admitted.

        Raises:
            ServiceError: There is no room, or a text is not one that can be read.
        """
        num_chars = sum(map(len, texts)) + len(texts) * len(encoder.prompt)
        estimate = num_chars // CHARS_PER_TOKEN + 1
        await context.admit(self.backend, estimate, at_once=num_chars > INLINE_CHARS)
        with context.stage("tokenize"):
            return await run_sized(num_chars, tokenize_all, texts, encoder)

    async def _compute(
        self, encoder: Encoder, jobs: list[AttentionJob], context: RequestContext
    ) -> list[Result]:
        deadline = context.started + self.settings.request_timeout_seconds
        items = [AttentionItem(encoder.name, job) for job in jobs]
        return await compute(self.backend, items, deadline, context)


def opened(model: ServedModel, name: str | None) -> Tokenizer:
    """How a translation model's encoder reads a text for a `prompt_name`.

    Raises:
        InvalidRequestError: It has no prompts, or has to be told one of its languages.
    """
    openings = model.openings
    if len(openings) > 1:
        return openings[find_language(name, openings)]
    find_prompt(name, {}, None)
    return next(iter(openings.values()))


def whole(tokenizer: Tokenizer, limit: int, text: str) -> TextTokens:
    """A text that a translation model's encoder embeds, of up to so many tokens."""
    if number := count_long(text, tokenizer, limit):
        return TextTokens(TokenizedText(text, [], [], [], []), number)
    tokenized = tokenizer.tokenize(text)
    return TextTokens(tokenized, len(tokenized.ids))


def tokenize_all(texts: Sequence[str], encoder: Encoder) -> list[TokenizedText]:
    """The tokens of each text and the prompt before it.

    Raises:
        InvalidRequestError: A text has no tokens of its own.
        RequestTooLargeError: One has more than the model takes.
    """
    tokenized = []
    for number, text in enumerate(texts):
        found = encoder.tokenize(encoder.prompt + text)
        name = item_name("text", number, texts)
        if found.num_tokens > encoder.max_tokens:
            count = f"{'at least ' * (not found.is_exact)}{found.num_tokens}"
            raise RequestTooLargeError(
                f"Invalid request: {name} has {count} tokens, and {encoder.name} takes "
                f"{encoder.max_tokens} at most. Send it in parts; attention is of whole texts."
            )
        if not text.strip() or all(found.tokenized.special):
            raise nothing_to_read(name)
        tokenized.append(found.tokenized)
    return tokenized


def assemble(
    texts: list[TokenizedText], shown: list[Result], query: AttentionQuery, view: View
) -> list[TextItem]:
    """Numbers beside the texts that they are about, as a client wants to see them."""
    return [
        show_text(text, attentions(query, each.value[0]), view)
        for text, each in zip(texts, shown, strict=True)
    ]
