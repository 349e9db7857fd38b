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
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from model.sequence import DecodingOptions, Hypothesis
from service.errors import DeadlineExceededError, too_late
from service.items.result import Result
from service.items.translation import TranslationItem
from service.models.served import Direction
from service.tasks.backend import Lease
from service.tasks.threads import run_sized
from service.text.chunking import chunk_sentences
from service.text.segmentation import one_sentence

CHARS_PER_SENTENCE = 8
"""Number of characters whose work takes as long as making one work item, some 2 µs."""


@dataclass(slots=True)
class Sentence:
    """A sentence to translate.

    Attributes:
        source: Token ids that the first model reads, EOS included.
        route: One model, or two: one into the pivot language and one out of it.
        options: Options of the search.
    """

    source: list[int]
    route: tuple[Direction, ...]
    options: DecodingOptions

    @property
    def is_pivoted(self) -> bool:
        """Whether two models translate the sentence."""
        return len(self.route) > 1


class PivotPipeline:
    """Translates the sentences of one request by one or two models each.

    Args:
        lease: The request's permission to submit work.
        max_source_tokens: Largest number of tokens of a sequence. A longer output of the first
            model is cut into parts.
        is_bulk: Whether the sentences wait in the bulk lane.
        deadline: Time by time.perf_counter at which the request fails.
        total_tokens: Number of tokens of all sentences of the request, counted once for each model
            of a route.

    Attributes:
        num_cut: Maps the name of each second model to the number of first translations that were
            too long for this model.
        rejected: Numbers of translations that a guard rejected, by model, guard and outcome. A
            guard is a check for wrong translations. The outcome is in REJECTION_OUTCOMES of
            `service.metrics.labels`.
    """

    def __init__(
        self,
        lease: Lease,
        max_source_tokens: int,
        is_bulk: bool,
        deadline: float,
        total_tokens: int = 0,
    ) -> None:
        self.lease = lease
        self.max_source_tokens = max_source_tokens
        self.is_bulk = is_bulk
        self.deadline = deadline
        self.total_tokens = total_tokens
        self.num_cut: Counter[str] = Counter()
        self.rejected: Counter[tuple[str, str, str]] = Counter()

    async def run(self, sentences: Sequence[Sentence]) -> list[Result]:
        """Translates sentences; returns one result each, in order.

        Raises:
            ServiceError: The sentences are refused, miss their deadline, or fail.
        """
        if not sentences:
            return []
        size = CHARS_PER_SENTENCE * len(sentences)
        items = await run_sized(size, self.deadline, self._first_items, sentences)
        stream = self.lease.submit(items, self.deadline, self.total_tokens)
        if not any(sentence.is_pivoted for sentence in sentences):
            return await stream.in_order()
        results: list[Any] = [None] * len(sentences)

        async def finish(index: int, first: Result) -> None:
            results[index] = await self._second_leg(sentences[index], first)

        try:
            async with asyncio.TaskGroup() as legs:
                async for index, result in stream:
                    if sentences[index].is_pivoted:
                        legs.create_task(finish(index, result))
                    else:
                        results[index] = result
        except ExceptionGroup as group:
            error = group.exceptions[0]
            if isinstance(error, DeadlineExceededError):
                done = sum(result is not None for result in results)
                raise too_late(done, len(sentences)) from None
            raise error from None
        return results

    def _first_items(self, sentences: Sequence[Sentence]) -> list[TranslationItem]:
        return [self._first_item(sentence) for sentence in sentences]

    def _first_item(self, sentence: Sentence) -> TranslationItem:
        options = sentence.options
        if sentence.is_pivoted:
            options = replace(options, num_hypotheses=1, return_scores=False)
        first = sentence.route[0]
        return TranslationItem(
            first.name,
            sentence.source,
            options,
            first.vocabularies.first_id,
            self.is_bulk,
            len(sentence.route),
        )

    async def _second_leg(self, sentence: Sentence, first_result: Result) -> Result:
        """Translates the first model's output by the second model, in parts if it is long."""
        first, second = sentence.route
        text = first.vocabularies.target.decode(first_result.value[0].tokens)
        tokenizer = second.vocabularies.source
        limit = second.limit(self.max_source_tokens) - 1
        chunked = chunk_sentences(one_sentence(text), tokenizer, limit)
        self.num_cut[second.name] += chunked.num_cut
        items = [
            TranslationItem(
                second.name,
                [*ids, tokenizer.eos_id],
                sentence.options,
                second.vocabularies.first_id,
                self.is_bulk,
            )
            for ids in chunked.sources
        ]
        parts: list[Result] = []
        if items:
            parts = await self.lease.submit(items, self.deadline).in_order()
        return joined(first_result, parts, sentence.options)


def joined(first: Result, parts: Sequence[Result], options: DecodingOptions) -> Result:
    """Joins the parts of a second translation; the times include the first translation."""
    depth = max((len(part.value) for part in parts), default=0)
    hypotheses = [
        concatenated([part.value[min(rank, len(part.value) - 1)] for part in parts], options)
        for rank in range(depth)
    ]
    return Result(
        hypotheses or [Hypothesis([])],
        first.queue_seconds + max((part.queue_seconds for part in parts), default=0.0),
        first.device_seconds + max((part.device_seconds for part in parts), default=0.0),
    )


def concatenated(parts: Sequence[Hypothesis], options: DecodingOptions) -> Hypothesis:
    """Joins the hypotheses of consecutive parts into one hypothesis."""
    if len(parts) == 1:
        return parts[0]
    tokens = [token for part in parts for token in part.tokens]
    log_probs = [log_prob for part in parts for log_prob in part.log_probs]
    score = None
    if log_probs:
        score = math.fsum(log_probs) / float(len(log_probs) ** options.length_penalty)
    return Hypothesis(tokens, log_probs, score)
