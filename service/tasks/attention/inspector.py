"""Answers attention requests about translations and about texts that are embedded.

A sentence is translated first, with the default search of /translate. The model then reads the
sentence and its translation together, in one pass. A translation that the client sends is read in
the same way. The encoder of an embedding model reads each text alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from model.inspection.query import AttentionJob
from model.sequence import DecodingOptions
from model.tokenization.tokenizer import TokenizedText
from service.items import AttentionItem, TranslationItem
from service.models.catalog import Catalog
from service.models.served import NotLoadedError, ServedEmbedder, ServedReranker
from service.settings import Settings
from service.tasks.alignment.aligner import resident
from service.tasks.attention.models import (
    InspectedModel,
    LoadedDirection,
    check_task,
    encoder_of,
    find_direction,
    find_encoder,
)
from service.tasks.attention.query import check_size, start_token, trace_query
from service.tasks.attention.replies import AttentionResponse, AttentionUsage, StepsResponse
from service.tasks.attention.requests import (
    AttentionQuestion,
    AttentionRequest,
    OneTextQuestion,
    StepsRequest,
)
from service.tasks.attention.results import (
    InspectedText,
    Queries,
    check_num_probabilities,
    steps_of,
)
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.threads import CHARS_PER_TOKEN, run_sized
from service.text.detection import LanguageDetector


@dataclass(slots=True)
class Inspector:
    """Computes attention.

    The steps are: choose the model, tokenise, check the size, translate if needed, check again,
    capture, assemble. All public methods raise a ServiceError if the request is refused, misses its
    deadline, or fails.
    """

    catalog: Catalog
    backend: Backend
    detector: LanguageDetector
    settings: Settings

    async def inspect(
        self, request: AttentionRequest, context: RequestContext
    ) -> AttentionResponse:
        model = await self.choose_model(request, request.inputs[0][0], context)
        queries = model.queries(request)
        sources = await self._tokenize(request.inputs, model, request.split, context)
        self._check_size(queries, [(len(s.ids), int(request.has_target)) for s in sources], request)
        target_texts = request.target_texts or [None] * len(sources)
        texts = await self._complete(model, sources, target_texts, context)
        self._check_size(queries, [text.lengths for text in texts], request)
        jobs = [model.job(text, queries.all) for text in texts]
        answers = await self.capture(model, jobs, context)
        size = sum(values.size for maps, *_ in answers for values in maps.values())
        with context.stage("detokenize"):
            arguments = texts, answers, model.start, request
            items = await run_sized(size, context.deadline, queries.assemble, *arguments)
        usage = AttentionUsage(
            source_tokens=sum(text.lengths[0] for text in texts),
            target_tokens=sum(text.lengths[1] for text in texts),
            attention_values=sum(each.data.size for item in items for each in item.attentions),
        )
        return AttentionResponse(model=model.name, items=items, usage=usage)

    async def trace(self, request: StepsRequest, context: RequestContext) -> StepsResponse:
        model = await self.choose_model(request, request.text, context)
        # A wrong layer or head is refused before any text is tokenised.
        trace_query(model.config, request, 0, (1, int(request.has_target)))
        (text,) = await self.read(model, request, context)
        query = trace_query(model.config, request, request.query, text.lengths)
        ((trace,),) = await self.capture(model, [model.job(text, (query,))], context)
        return steps_of(model.name, text, model.start, query, trace, request.include)

    async def read(
        self,
        model: InspectedModel,
        request: OneTextQuestion,
        context: RequestContext,
        is_split: bool = False,
    ) -> list[InspectedText]:
        """Admits a request, and returns the tokens of its text and of its translation.

        If the task needs a translation and the request has none, the model translates the text. A
        text that is split has an entry for each sentence, and must not have a `target_text`.
        """
        sources = await self._tokenize([request.input], model, is_split, context)
        target_texts = [request.target_text] * len(sources)
        return await self._complete(model, sources, target_texts, context)

    async def choose_model(
        self, question: AttentionQuestion, text: str, context: RequestContext
    ) -> InspectedModel:
        check_task(self.catalog, question)
        if question.has_target:
            return await self.choose_direction(question, text, context)
        kind = ServedReranker if question.has_pair else ServedEmbedder
        wanted = question.model or next(iter(self.catalog.of_type(kind)), None)
        await context.wait_for_model(wanted, self.catalog, self.backend)
        served = find_encoder(self.catalog, question)
        context.model = served.name
        config = (await resident(self.backend, served.name)).config
        return encoder_of(served, config, question.prompt_name, self.settings.max_source_tokens)

    async def choose_direction(
        self, question: AttentionQuestion, text: str, context: RequestContext
    ) -> LoadedDirection:
        """Returns the loaded model of a request, and records its name in the context."""
        while True:
            try:
                direction = find_direction(self.catalog, self.detector, question, text)
                break
            except NotLoadedError as missing:
                await context.wait_for_models(self.backend, missing.names)
        context.model = direction.name
        config = (await resident(self.backend, direction.name)).config
        assert config is not None  # every translation model has a config
        return LoadedDirection(
            name=direction.name,
            config=config,
            max_tokens=self.settings.max_source_tokens,
            start=start_token(config, direction.vocabularies.target),
            direction=direction,
        )

    async def _tokenize(
        self,
        inputs: Sequence[tuple[str, ...]],
        model: InspectedModel,
        is_split: bool,
        context: RequestContext,
    ) -> list[TokenizedText]:
        num_chars = sum(len(text) for each in inputs for text in each)
        num_chars += len(inputs) * len(model.prompt)
        estimate = num_chars // CHARS_PER_TOKEN + 1
        return await context.tokenize(
            self.backend, estimate, num_chars, model.tokenize, inputs, is_split
        )

    async def _complete(
        self,
        model: InspectedModel,
        sources: list[TokenizedText],
        target_texts: Sequence[str | None],
        context: RequestContext,
    ) -> list[InspectedText]:
        """Adds a translation to each tokenised source if the task needs one."""
        if not isinstance(model, LoadedDirection):
            return list(map(InspectedText, sources))
        num_chars = sum(len(text) for text in target_texts if text is not None)
        with context.stage("tokenize"):
            tokenize = model.tokenize_targets
            targets = await run_sized(num_chars, context.deadline, tokenize, target_texts)
        pairs = [*zip(sources, targets, strict=True)]
        missing = [source for source, target in pairs if target is None]
        translated = iter(await self._translate(model, missing, context))
        return [InspectedText(source, target or next(translated)) for source, target in pairs]

    async def _translate(
        self, model: LoadedDirection, sources: list[TokenizedText], context: RequestContext
    ) -> list[TokenizedText]:
        if not sources:
            return []
        vocabularies, options = model.direction.vocabularies, DecodingOptions()
        items = [
            TranslationItem(model.name, source.ids, options, vocabularies.first_id)
            for source in sources
        ]
        results = await context.compute(items, len(items) > self.settings.bulk_sentences)
        return [vocabularies.target.detokenize(each.value[0].tokens) for each in results]

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

    async def capture(
        self, model: InspectedModel, jobs: Iterable[AttentionJob], context: RequestContext
    ) -> list[Any]:
        """Returns the answers to the queries of each job."""
        items = [AttentionItem(model.name, job) for job in jobs]
        results = await context.compute(items, len(items) > self.settings.bulk_sentences)
        return [each.value for each in results]
