"""Answers attention requests. The steps are the same for translations and for embedded texts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, ParamSpec, Protocol, TypeVar, cast

from model.inspection.query import (
    AttentionJob,
    AttentionMaps,
    AttentionQuery,
    InspectedConfig,
    Query,
)
from model.inspection.states import TokenStates
from model.inspection.trace import AttentionTrace
from model.tokenization.tokenizer import TokenizedText
from service.items.attention import AttentionItem
from service.items.result import Result
from service.models.catalog import Catalog
from service.settings import Settings
from service.tasks.alignment.aligner import capture
from service.tasks.attention.probabilities import check_size as check_probabilities
from service.tasks.attention.query import check_size, trace_query
from service.tasks.attention.requests import InspectionRequest, ModelChoice, TraceRequest, View
from service.tasks.attention.results import InspectionResult, SequenceAttention, TraceResult
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.threads import CHARS_PER_TOKEN, INLINE_CHARS, run_sized


class InspectedModel(Protocol):
    """A loaded model whose attention a request asks for."""

    @property
    def name(self) -> str:
        """Served name."""

    @property
    def config(self) -> InspectedConfig:
        """The model's config."""

    @property
    def start(self) -> str:
        """Spelling of the decoder's start token; "" if the model has no start token."""


class InspectedSequence(Protocol):
    """A tokenised sequence whose attention is captured."""

    @property
    def source(self) -> TokenizedText:
        """Tokens of the text."""

    @property
    def target(self) -> TokenizedText | None:
        """Tokens of its translation; None for a text that is embedded."""


ModelT = TypeVar("ModelT", bound=InspectedModel)
SequenceT = TypeVar("SequenceT", bound=InspectedSequence)
SequenceT_contra = TypeVar("SequenceT_contra", bound=InspectedSequence, contravariant=True)
P = ParamSpec("P")


class Queries(Protocol[SequenceT_contra]):
    """The attention queries of a request. In a query, layers and heads are counted from 0."""

    @property
    def attention(self) -> AttentionQuery:
        """Query for the attention that the request asks for."""

    @property
    def all(self) -> tuple[Query, ...]:
        """All queries about one sequence; `attention` is the first.

        The result of a sequence has the answers in this order.
        """

    def assemble(
        self,
        sequences: Sequence[SequenceT_contra],
        results: Sequence[Result],
        start: str,
        view: View,
    ) -> Sequence[SequenceAttention]:
        """Returns the attention of each sequence in the form that the client requests.

        Args:
            sequences: Sequences of the request.
            results: Result of each sequence.
            start: Spelling of the decoder's start token; "" if the model has no start token.
            view: Requested form.
        """


class Inspector(ABC, Generic[ModelT, SequenceT]):
    """Computes attention.

    The steps are: choose the model, tokenise, check the size, translate if needed, check again,
    capture, assemble.

    Args:
        catalog: Served models.
        backend: Admission and device workers.
        settings: Limits.

    Attributes:
        min_target_tokens: Smallest number of target tokens of a sequence.
    """

    min_target_tokens: ClassVar[int]

    def __init__(self, catalog: Catalog, backend: Backend, settings: Settings) -> None:
        self.catalog = catalog
        self.backend = backend
        self.settings = settings

    async def inspect(
        self, request: InspectionRequest, context: RequestContext
    ) -> InspectionResult:
        """Returns the attention of every sequence of a request.

        Raises:
            ServiceError: The request is refused, misses its deadline, or fails.
        """
        model = await self.choose_model(request, request.texts, context)
        queries = self._queries(model, request)
        sources = await self._tokenize(request.texts, model, request.is_split, context)
        self._check_size(queries, [(len(s.ids), self.min_target_tokens) for s in sources], request)
        target_texts = request.target_texts or [None] * len(sources)
        sequences = await self._complete(model, sources, target_texts, context)
        self._check_size(queries, list(map(lengths, sequences)), request)
        items = [item_of(model.name, sequence, queries.all) for sequence in sequences]
        results = await capture(items, self.backend, self.settings, context)
        size = sum(map(num_values, results))
        with context.stage("detokenize"):
            deadline, assemble = self._deadline(context), queries.assemble
            attentions = await run_sized(
                size, deadline, assemble, sequences, results, model.start, request.view
            )
        return InspectionResult(model.name, attentions)

    async def trace(self, request: TraceRequest, context: RequestContext) -> TraceResult:
        """Returns the attention of one token in one head, step by step.

        Raises:
            ServiceError: The request is refused, misses its deadline, or fails.
        """
        model = await self.choose_model(request, [request.text], context)
        # A wrong layer or head is refused before any text is tokenised.
        trace_query(model.config, replace(request, query=0), 1, self.min_target_tokens)
        sequence = await self.read_one(model, request.text, request.target_text, context)
        query = trace_query(model.config, request, *lengths(sequence))
        states_queries = (query.states,) if request.has_states else ()
        items = [item_of(model.name, sequence, (query, *states_queries))]
        (result,) = await capture(items, self.backend, self.settings, context)
        trace = cast("AttentionTrace", result.value[0])
        states = cast("TokenStates", result.value[1]) if request.has_states else None
        return TraceResult(
            model.name, query, sequence.source, sequence.target, model.start, trace, states
        )

    async def read_one(
        self, model: ModelT, text: str, target_text: str | None, context: RequestContext
    ) -> SequenceT:
        """Returns the sequence of one text, with a translation if the task needs one.

        If the translation is needed and `target_text` is None, the model translates the text.

        Raises:
            ServiceError: The request is not admitted, a text is empty or too long, or the
                translation cannot be computed.
        """
        sources = await self._tokenize([text], model, False, context)
        (sequence,) = await self._complete(model, sources, [target_text], context)
        return sequence

    @abstractmethod
    async def choose_model(
        self, choice: ModelChoice, texts: Sequence[str], context: RequestContext
    ) -> ModelT:
        """Returns the loaded model of a request, and records its name in the context.

        Raises:
            ServiceError: There is no such model, language or prompt, or the model is not loaded.
        """

    @abstractmethod
    def _queries(self, model: ModelT, request: InspectionRequest) -> Queries[SequenceT]:
        """Returns the queries of a request. In a query, layers and heads are counted from 0.

        Raises:
            InvalidRequestError: The model has no such attention.
        """

    @abstractmethod
    async def _tokenize(
        self, texts: Sequence[str], model: ModelT, is_split: bool, context: RequestContext
    ) -> list[TokenizedText]:
        """Admits a request, and then tokenises its texts.

        Args:
            texts: Texts of the client.
            model: Model that reads them.
            is_split: Whether each text is split into sentences.
            context: Context of the request.

        Raises:
            ServiceError: The request is not admitted, or a text is empty or too long.
        """

    @abstractmethod
    async def _complete(
        self,
        model: ModelT,
        sources: list[TokenizedText],
        target_texts: Sequence[str | None],
        context: RequestContext,
    ) -> list[SequenceT]:
        """Returns a sequence for each tokenised source, with a translation if the task needs one.

        Raises:
            ServiceError: A translation is empty or too long, or cannot be computed.
        """

    async def _admit_and_tokenize(
        self,
        num_chars: int,
        context: RequestContext,
        tokenize: Callable[P, list[TokenizedText]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[TokenizedText]:
        """Admits a request, then tokenises it, so that only admitted texts take memory for tokens.

        Raises:
            ServiceError: The request is not admitted, or a text cannot be read.
        """
        estimate = num_chars // CHARS_PER_TOKEN + 1
        await context.admit(self.backend, estimate, at_once=num_chars > INLINE_CHARS)
        with context.stage("tokenize"):
            return await run_sized(num_chars, self._deadline(context), tokenize, *args, **kwargs)

    def _check_size(
        self,
        queries: Queries[SequenceT],
        num_tokens: list[tuple[int, int]],
        request: InspectionRequest,
    ) -> None:
        limit = self.settings.max_attention_values
        check_size(queries.attention, num_tokens, request.view.top_k, limit)
        if request.probabilities is not None:
            check_probabilities(request.probabilities, [target for _, target in num_tokens], limit)

    def _deadline(self, context: RequestContext) -> float:
        return context.deadline(self.settings.request_timeout_seconds)


def item_of(model: str, sequence: InspectedSequence, queries: tuple[Query, ...]) -> AttentionItem:
    """Returns the work item of queries about one sequence."""
    target = sequence.target
    ids = [] if target is None else target.ids
    return AttentionItem(model, AttentionJob(sequence.source.ids, ids, queries))


def lengths(sequence: InspectedSequence) -> tuple[int, int]:
    """Returns the numbers of source and target tokens of a sequence."""
    return len(sequence.source.ids), len(sequence.target.ids) if sequence.target else 0


def num_values(result: Result) -> int:
    """Returns the number of values in the first answer of a result: the requested attention."""
    maps = cast("AttentionMaps", result.value[0])
    return sum(values.size for values in maps.values())
