"""The pivot pipeline translates a sentence by two models if no single model has the language pair.

The first model translates into a third language, the pivot language; the second model translates
the output of the first one. Sentences do not wait for each other: the second translation of a
sentence starts as soon as its first one has finished.

Both translations of a sentence have the lease and the deadline of their request. The lease is the
request's permission to submit work. Both translations wait in the same lane. A lane is a queue: the
interactive lane, or the bulk lane, which is mainly for requests of many sentences.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from model.sequence import DecodingOptions, Hypothesis
from service.errors import DeadlineExceededError, too_late
from service.items import Result, TranslationItem
from service.models.prompts import NO_HINTS, Hints
from service.models.remote import RemoteItem
from service.models.served import Direction
from service.tasks.backend import Lease
from service.text.chunking import chunk_sentences
from service.text.segmentation import one_sentence

Leg = tuple[tuple[Direction, ...], DecodingOptions]


@dataclass(eq=False)
class PivotPipeline:
    """Translates the sentences of one request by one or two models each."""

    lease: Lease
    options: DecodingOptions
    max_source_tokens: int  # of a sequence; a longer output of the first model is cut into parts
    is_bulk: bool
    deadline: float  # time by time.perf_counter
    total_tokens: int = 0  # of all sentences of the request, counted once for each model of a route
    # Number of first translations that were too long for a second model, by second model.
    num_cut: dict[str, int] = field(default_factory=dict)
    # Number of translations that a guard rejected, by model, guard and one of REJECTION_OUTCOMES.
    rejected: dict[tuple[str, str, str], int] = field(default_factory=dict)
    # Route and options of each sentence in progress that needs two models.
    second_legs: dict[TranslationItem, Leg] = field(default_factory=dict)

    @cached_property
    def with_attention(self) -> DecodingOptions:
        """The options of sentences with tags; one object, which `pickle` writes only once."""
        return replace(self.options, return_attention=True)

    def item(
        self,
        source: list[int],
        route: tuple[Direction, ...],
        options: DecodingOptions,
        hints: Hints = NO_HINTS,
    ) -> TranslationItem:
        """Returns the work item of a sentence, whose token ids `source` include EOS."""
        first, wanted = route[0], options
        if len(route) > 1:
            options = replace(options, num_hypotheses=1, return_scores=False)
        item = item_for(first, source, options, self.is_bulk, len(route), hints)
        if len(route) > 1:
            self.second_legs[item] = route, wanted
        return item

    async def run(self, items: Sequence[TranslationItem]) -> list[Result]:
        if not items:
            return []
        stream = self.lease.submit(items, self.deadline, self.total_tokens)
        if not self.second_legs:
            return await stream.in_order()
        results: list[Any] = [None] * len(items)

        async def finish(index: int, first: Result) -> None:
            results[index] = await self._second_leg(*self.second_legs.pop(items[index]), first)

        try:
            async with asyncio.TaskGroup() as legs:
                async for index, result in stream:
                    if items[index] in self.second_legs:
                        legs.create_task(finish(index, result))
                    else:
                        results[index] = result
        except ExceptionGroup as group:
            error = group.exceptions[0]
            if isinstance(error, DeadlineExceededError):
                done = sum(result is not None for result in results)
                raise too_late(done, len(items)) from None
            raise error from None
        return results

    async def _second_leg(
        self, route: tuple[Direction, ...], options: DecodingOptions, first_result: Result
    ) -> Result:
        """Translates the first model's output by the second model, in parts if it is long."""
        first, second = route
        text = first.vocabularies.target.decode(first_result.value[0].tokens)
        tokenizer = second.vocabularies.source
        limit = second.limit(self.max_source_tokens) - 1
        chunked = chunk_sentences(one_sentence(text), tokenizer, limit)
        self.num_cut[second.name] = self.num_cut.get(second.name, 0) + chunked.num_cut
        items = [
            item_for(second, [*ids, *tokenizer.source_end], options, self.is_bulk)
            for ids in chunked.sources
        ]
        parts: list[Result] = []
        if items:
            parts = await self.lease.submit(items, self.deadline).in_order()
        return joined(first_result, parts, options)


def item_for(
    direction: Direction,
    source: list[int],
    options: DecodingOptions,
    is_bulk: bool,
    num_legs: int = 1,
    hints: Hints = NO_HINTS,
) -> TranslationItem:
    first_id = direction.vocabularies.first_id
    item = direction.name, source, options, first_id, is_bulk, num_legs
    if direction.has_attention:
        return TranslationItem(*item)
    return RemoteItem(*item, fallback=direction.fallback, hints=hints)


def joined(first: Result, parts: Sequence[Result], options: DecodingOptions) -> Result:
    depth = max((len(part.value) for part in parts), default=0)
    hypotheses = [
        concatenated([part.value[min(rank, len(part.value) - 1)] for part in parts], options)
        for rank in range(depth)
    ]
    return Result(
        hypotheses or [Hypothesis([])],
        first.queue_seconds + max((part.queue_seconds for part in parts), default=0.0),
        first.device_seconds + max((part.device_seconds for part in parts), default=0.0),
        first.substitute or max((part.substitute for part in parts), default=""),
    )


def concatenated(parts: Sequence[Hypothesis], options: DecodingOptions) -> Hypothesis:
    if len(parts) == 1:
        return parts[0]
    tokens = [token for part in parts for token in part.tokens]
    log_probs = [log_prob for part in parts for log_prob in part.log_probs]
    return scored(Hypothesis(tokens, log_probs), options)


def scored(hypothesis: Hypothesis, options: DecodingOptions) -> Hypothesis:
    """Returns a hypothesis with its score, if it has log-probabilities."""
    log_probs = hypothesis.log_probs
    if not log_probs:
        return hypothesis
    score = math.fsum(log_probs) / float(len(log_probs) ** options.length_penalty)
    return replace(hypothesis, score=score)
