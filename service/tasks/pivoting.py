"""Sentences that two models translate, one what the other wrote.

Each goes on by itself: its second leg waits for nothing but its first. Both have the place, the
deadline and the lane of their request, and end with it.
"""

import asyncio
import math
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from model.sequence import DecodingOptions, Hypothesis
from service.errors import DeadlineExceededError, too_late
from service.items.orders import Sentence
from service.models.catalog import PIVOT, Catalog, Direction
from service.scheduling.lanes import Translated
from service.scheduling.queues import check_known
from service.scheduling.scheduler import Scheduler
from service.text.chunking import chunk_sentences
from service.text.segmentation import one_sentence


class Relay:
    """Sends sentences to the scheduler, those of two legs twice.

    Args:
        catalog: Where the models of a route are looked up.
        scheduler: Who has them translated.
        max_source_tokens: Of one sequence; what the first model wrote may be longer.
    """

    def __init__(self, catalog: Catalog, scheduler: Scheduler, max_source_tokens: int) -> None:
        self.catalog = catalog
        self.scheduler = scheduler
        self.max_source_tokens = max_source_tokens

    async def run(
        self, sentences: Sequence[Sentence], is_bulk: bool, deadline: float
    ) -> list[Translated]:
        """Translates sentences, in order.

        Args:
            sentences: Of one request.
            is_bulk: Which lane they wait in.
            deadline: By time.perf_counter.

        Raises:
            ServiceError: They are refused, late, or failed.
        """
        direct = [sentence for sentence in sentences if sentence.pair is None]
        if len(direct) == len(sentences):
            return await self.scheduler.run(sentences, is_bulk, deadline)
        legs = [self._both(s, is_bulk, deadline) for s in sentences if s.pair is not None]
        works: list[Coroutine[Any, Any, list[Translated]]] = [*legs]
        if direct:
            works.append(self.scheduler.run(direct, is_bulk, deadline))
        found = await together(works, len(sentences))
        pivoted = iter([result for results in found[: len(legs)] for result in results])
        plain = iter(found[-1] if direct else ())
        return [next(plain if sentence.pair is None else pivoted) for sentence in sentences]

    async def _both(self, sentence: Sentence, is_bulk: bool, deadline: float) -> list[Translated]:
        """One sentence, through two models."""
        first, second = self._legs(sentence)
        options = replace(sentence.options, num_hypotheses=1, return_scores=False)
        begun = replace(sentence, options=options, pair=None, second="")
        (half,) = await self.scheduler.run([begun], is_bulk, deadline)
        text = first.vocabularies.target.decode(half.hypotheses[0].tokens)
        tokenizer = second.vocabularies.source
        fitted = chunk_sentences(one_sentence(text), tokenizer, self.max_source_tokens - 1)
        if fitted.num_cut:
            self.scheduler.metrics.truncated_inputs.labels("translate", second.name).inc()
        first_id = second.vocabularies.first_id
        parts = [
            Sentence(second.name, [*ids, tokenizer.eos_id], sentence.options, first_id)
            for ids in fitted.sources
        ]
        rest = await self.scheduler.run(parts, is_bulk, deadline) if parts else []
        return [joined(half, rest, sentence.options)]

    def _legs(self, sentence: Sentence) -> tuple[Direction, Direction]:
        """The route that was chosen when the sentence was read: by now there may be a better one.

        Raises:
            NotFoundError: One of its models has been unloaded.
        """
        assert sentence.pair is not None
        (source, target), models = sentence.pair, self.catalog.models
        check_known((sentence.model, sentence.second), models)
        first = models[sentence.model].direction(source, PIVOT)
        return first, models[sentence.second].direction(PIVOT, target)


async def together(
    works: Sequence[Coroutine[Any, Any, list[Translated]]], num_sentences: int
) -> list[list[Translated]]:
    """The results of all; where one fails or nobody waits any more, the others end too.

    Raises:
        ServiceError: Of the first that failed; of one that is late, with how many were not.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except DeadlineExceededError as error:
        ended = [task for task in tasks if task.done() and not task.cancelled()]
        done = sum(len(task.result()) for task in ended if task.exception() is None)
        raise too_late(done, num_sentences) from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def joined(half: Translated, rest: Sequence[Translated], options: DecodingOptions) -> Translated:
    """The translation of one sentence from both its legs, the second of which may be in parts."""
    depth = max((len(part.hypotheses) for part in rest), default=0)
    hypotheses = [
        in_a_row([part.hypotheses[min(rank, len(part.hypotheses) - 1)] for part in rest], options)
        for rank in range(depth)
    ]
    return Translated(
        hypotheses or [Hypothesis([])],
        half.queue_seconds + max((part.queue_seconds for part in rest), default=0.0),
        half.device_seconds + max((part.device_seconds for part in rest), default=0.0),
    )


def in_a_row(parts: Sequence[Hypothesis], options: DecodingOptions) -> Hypothesis:
    """One hypothesis of several, which follow each other."""
    if len(parts) == 1:
        return parts[0]
    tokens = [token for part in parts for token in part.tokens]
    log_probs = [log_prob for part in parts for log_prob in part.log_probs]
    score = None
    if log_probs:
        score = math.fsum(log_probs) / float(len(log_probs) ** options.length_penalty)
    return Hypothesis(tokens, log_probs, score)
