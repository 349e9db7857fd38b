"""Finds the cross-attention by which the words of sentence pairs are aligned.

In native code, the decode steps of a greedy search without scores can record this attention.
Without a record, a second pass over the sentence and its translation captures the attention. While
other work waits, second passes get a limited share of the workers' time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.inspection.query import AttentionJob
from model.tokenization.tokenizer import TokenizedText
from service.errors import UnavailableError
from service.items.attention import AttentionItem
from service.items.result import Result
from service.items.translation import TranslationItem
from service.settings import Settings
from service.tasks.attention.query import Aligner, aligner_of
from service.tasks.backend import Admitter
from service.tasks.context import RequestContext
from service.workers.messages import Resident


@dataclass(frozen=True, slots=True)
class Pair:
    """A tokenised sentence and its tokenised translation."""

    source: TokenizedText
    target: TokenizedText


@dataclass(frozen=True, slots=True)
class TranslatedPair:
    """A sentence, and its translation by a model.

    `recorded` is the cross-attention (T, S) of the decode steps, None if it was not recorded.
    """

    model: str
    pair: Pair
    recorded: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """The cross-attention (T, S) that aligns T target tokens with S source tokens.

    The shift is 0 if row t has the weights of target token t; 1 if row t + 1 has these weights.
    """

    weights: NDArray[np.float32]
    shift: int


class PairAligner:
    """Finds the attention that aligns sentence pairs."""

    def __init__(self, backend: Admitter, settings: Settings) -> None:
        self.backend = backend
        self.settings = settings

    async def attention(
        self, pairs: Sequence[TranslatedPair], context: RequestContext
    ) -> list[CrossAttention]:
        """Returns the recorded attention of each pair, or else the attention of a second pass.

        Raises:
            ServiceError: The request is refused, misses its deadline, or fails.
        """
        aligners = {name: await self._aligner(name) for name in {pair.model for pair in pairs}}
        missing = []
        for each in pairs:
            if each.recorded is None:
                queries = (aligners[each.model].query,)
                job = AttentionJob(each.pair.source.ids, each.pair.target.ids, queries)
                missing.append(AttentionItem(each.model, job))
        captured = iter(await self._capture(missing, context))
        return [
            CrossAttention(
                next(captured) if each.recorded is None else each.recorded,
                aligners[each.model].shift,
            )
            for each in pairs
        ]

    async def _capture(
        self, items: Sequence[AttentionItem], context: RequestContext
    ) -> list[NDArray[np.float32]]:
        results: list[Result] = []
        # All items together decide about the bulk lane. A part alone may have too few items.
        _use_bulk_lane(items, self.settings)
        for part in in_parts(items, self.settings.max_attention_values):
            results += await submit_all(part, self.backend, self.settings, context)
        maps = [values for result in results for values in result.value[0].values()]
        return [values[0, 0] for values in maps]  # (1, 1, T, S)

    async def _aligner(self, name: str) -> Aligner:
        config = (await resident(self.backend, name)).config
        assert config is not None  # every translation model has a config
        return aligner_of(config)


async def resident(backend: Admitter, name: str) -> Resident:
    """Returns the first worker's description of a loaded model."""
    found = (await backend.status()).resident(name)
    if found is None:
        raise UnavailableError("the models are loading; try again soon", 1)
    return found


def _use_bulk_lane(items: Sequence[AttentionItem | TranslationItem], settings: Settings) -> None:
    if len(items) > settings.bulk_sentences:
        for item in items:
            item.is_bulk = True


async def submit_all(
    items: Sequence[AttentionItem | TranslationItem],
    backend: Admitter,
    settings: Settings,
    context: RequestContext,
) -> list[Result]:
    """Submits the items of a request; returns one result for each item, in order."""
    tokens = sum(item.num_tokens for item in items)
    _use_bulk_lane(items, settings)
    lease = await context.admit(backend, tokens, at_once=False)
    deadline = context.deadline(settings.request_timeout_seconds)
    results = await lease.submit(items, deadline).in_order()
    context.add_times(results)
    return results


def in_parts(items: Sequence[AttentionItem], max_values: int) -> Iterator[list[AttentionItem]]:
    """Yields the items of a request in parts.

    A head has one weight for each pair of a source token and a target token of an item. A part has
    at most `max_values` such weights, unless the part is a single item.
    """
    part: list[AttentionItem] = []
    total = 0
    for item in items:
        size = len(item.job.source) * len(item.job.target)
        if part and total + size > max_values:
            yield part
            part, total = [], 0
        part.append(item)
        total += size
    if part:
        yield part
