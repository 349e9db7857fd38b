"""Answers attention requests. The steps are the same for translations and for embedded texts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, ParamSpec, TypeVar, cast

from model.inspection.query import AttentionJob, InspectedConfig, Query
from model.inspection.results import AttentionTrace, TokenStates
from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.errors import InvalidRequestError, RequestTooLargeError
from service.items import AttentionItem, Result
from service.models.catalog import Catalog
from service.settings import Settings
from service.tasks.alignment.aligner import submit_all
from service.tasks.attention.probabilities import check_num_probabilities
from service.tasks.attention.query import check_size, trace_query
from service.tasks.attention.requests import AttentionQuestion, AttentionRequest, StepsRequest
from service.tasks.attention.results import InspectedText, InspectionResult, Queries, TraceResult
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.threads import CHARS_PER_TOKEN, INLINE_CHARS, run_sized

LONG_CHARS = 16
"""If the limit is n tokens, a text with more than LONG_CHARS * n characters counts as very long.

The tokens of a very long text are counted first. If there are too many, the text is refused before
anything else is computed for it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedModel:
    """A loaded model whose attention a request asks for."""

    name: str
    config: InspectedConfig
    start: str = ""  # spelling of the decoder's start token; "" without one


ModelT = TypeVar("ModelT", bound=InspectedModel)
P = ParamSpec("P")


class Inspector(ABC, Generic[ModelT]):
    """Computes attention.

    The steps are: choose the model, tokenise, check the size, translate if needed, check again,
    capture, assemble. All public methods raise a ServiceError if the request is refused, misses its
    deadline, or fails.
    """

    min_target_tokens: ClassVar[int]
    """Smallest number of target tokens of a sequence."""

    def __init__(self, catalog: Catalog, backend: Backend, settings: Settings) -> None:
        self.catalog = catalog
        self.backend = backend
        self.settings = settings

    async def inspect(self, request: AttentionRequest, context: RequestContext) -> InspectionResult:
        """Returns the attention of every sequence of a request."""
        model = await self.choose_model(request, request.texts, context)
        queries = self._queries(model, request)
        sources = await self._tokenize(request.texts, model, request.split, context)
        self._check_size(queries, [(len(s.ids), self.min_target_tokens) for s in sources], request)
        target_texts = request.target_texts or [None] * len(sources)
        texts = await self._complete(model, sources, target_texts, context)
        self._check_size(queries, [text.lengths for text in texts], request)
        results = await self._capture(model, texts, queries.all, context)
        size = sum(values.size for each in results for values in each.value[0].values())
        with context.stage("detokenize"):
            items = await run_sized(
                size,
                self._deadline(context),
                queries.assemble,
                texts,
                results,
                model.start,
                request,
            )
        return InspectionResult(model.name, items)

    async def trace(self, request: StepsRequest, context: RequestContext) -> TraceResult:
        """Returns the attention of one token in one head, step by step."""
        model = await self.choose_model(request, [request.text], context)
        # A wrong layer or head is refused before any text is tokenised.
        trace_query(model.config, request, 0, (1, self.min_target_tokens))
        text = await self.read_one(model, request.text, request.target_text, context)
        query = trace_query(model.config, request, request.query, text.lengths)
        queries = (query, query.states) if "block" in request.include else (query,)
        (result,) = await self._capture(model, [text], queries, context)
        trace, states = [*result.value, None][:2]
        return TraceResult(
            model.name,
            query,
            text.source,
            text.target,
            model.start,
            cast("AttentionTrace", trace),
            cast("TokenStates | None", states),
        )

    async def read_one(
        self, model: ModelT, text: str, target_text: str | None, context: RequestContext
    ) -> InspectedText:
        """Admits a request, and returns the tokens of its text and of its translation.

        If the task needs a translation and `target_text` is None, the model translates the text.
        """
        sources = await self._tokenize([text], model, False, context)
        (found,) = await self._complete(model, sources, [target_text], context)
        return found

    @abstractmethod
    async def choose_model(
        self, question: AttentionQuestion, texts: Sequence[str], context: RequestContext
    ) -> ModelT:
        """Returns the loaded model of a request, and records its name in the context."""

    @abstractmethod
    def _queries(self, model: ModelT, request: AttentionRequest) -> Queries: ...

    @abstractmethod
    async def _tokenize(
        self, texts: Sequence[str], model: ModelT, is_split: bool, context: RequestContext
    ) -> list[TokenizedText]:
        """Admits a request, and then tokenises its texts or, if they are split, their sentences."""

    @abstractmethod
    async def _complete(
        self,
        model: ModelT,
        sources: list[TokenizedText],
        target_texts: Sequence[str | None],
        context: RequestContext,
    ) -> list[InspectedText]:
        """Adds a translation to each tokenised source if the task needs one."""

    async def _admit_and_tokenize(
        self,
        num_chars: int,
        context: RequestContext,
        tokenize: Callable[P, list[TokenizedText]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[TokenizedText]:
        """Admits a request, then tokenises it: only admitted texts take memory for tokens."""
        estimate = num_chars // CHARS_PER_TOKEN + 1
        await context.admit(self.backend, estimate, at_once=num_chars > INLINE_CHARS)
        with context.stage("tokenize"):
            return await run_sized(num_chars, self._deadline(context), tokenize, *args, **kwargs)

    def _check_size(
        self, queries: Queries, num_tokens: list[tuple[int, int]], request: AttentionRequest
    ) -> None:
        limit = self.settings.max_attention_values
        check_size(queries.attention, num_tokens, request.top_k, limit)
        if (wanted := request.probabilities) is not None:
            num_targets = sum(target for _, target in num_tokens)
            count = num_targets * (1 + wanted.top_k + len(wanted.tokens))
            way_out = "lower probabilities.top_k, name fewer tokens, send fewer texts"
            check_num_probabilities(count, limit, way_out)

    async def _capture(
        self,
        model: ModelT,
        texts: Sequence[InspectedText],
        queries: tuple[Query, ...],
        context: RequestContext,
    ) -> list[Result]:
        items = [
            AttentionItem(
                model.name,
                AttentionJob(text.source.ids, text.target.ids if text.target else [], queries),
            )
            for text in texts
        ]
        return await submit_all(items, self.backend, self.settings, context)

    def _deadline(self, context: RequestContext) -> float:
        return context.deadline(self.settings.request_timeout_seconds)


def tokenize_one(text: str, tokenizer: Tokenizer, limit: int, name: str) -> TokenizedText:
    """Tokenises a text that is one sequence of at most `limit` tokens, prefix and EOS included."""
    number = count_long(text, tokenizer, limit)
    if not number:
        tokenized = tokenizer.tokenize(text)
        number = len(tokenized.ids)
        if number == len(tokenizer.prefix) + 1:  # only the prefix and EOS
            raise nothing_to_read(name)
        if number <= limit:
            return tokenized
    raise RequestTooLargeError(
        f"Invalid request: {name} has {number} tokens, and one sequence has {limit} at most. Send "
        "sentences (/attention splits texts if split is true), or raise REGARD_MAX_SOURCE_TOKENS."
    )


def count_long(text: str, tokenizer: Tokenizer, limit: int) -> int:
    """Returns the number of tokens, EOS included, if a very long text exceeds the limit; else 0.

    Counting takes a tenth of the time of `tokenize`, which also finds each token's place.
    """
    if len(text) <= LONG_CHARS * limit:
        return 0
    number = len(tokenizer.encode(text)) + 1
    return number if number > limit else 0


def item_name(name: str, number: int, texts: Sequence[str | None]) -> str:
    """Returns the name that error messages give to one text of a field."""
    return f"{name}[{number}]" if len(texts) > 1 else name


def nothing_to_read(name: str) -> InvalidRequestError:
    """Returns the error for a text without tokens."""
    return InvalidRequestError(f"Invalid request: {name} has nothing to read; send words")
