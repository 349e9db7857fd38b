"""Captures the cross-attention by which the words of sentence pairs are aligned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig
from model.inspection.query import AttentionJob
from model.tokenization.tokenizer import TokenizedText
from service.errors import UnavailableError
from service.items.attention import AttentionItem
from service.items.result import Result
from service.settings import Settings
from service.tasks.attention.query import aligner_of
from service.tasks.backend import Admitter
from service.tasks.context import RequestContext
from service.workers.messages import Resident


@dataclass(frozen=True, slots=True)
class Pair:
    """A tokenised sentence and its tokenised translation."""

    source: TokenizedText
    target: TokenizedText


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """The attention that aligns a sentence pair.

    Attributes:
        weights: Cross-attention (T, S) of one head, or the mean of several heads.
        shift: Shift of the rows, an argument of `align`.
    """

    weights: NDArray[np.float32]
    shift: int


class PairAligner:
    """Captures the attention that aligns sentence pairs.

    Args:
        backend: Admission and device workers.
        settings: Limits.
    """

    def __init__(self, backend: Admitter, settings: Settings) -> None:
        self.backend = backend
        self.settings = settings

    async def shift(self, model: str) -> int:
        """Returns the shift of the rows that a model records while it decodes.

        Raises:
            UnavailableError: The model is not loaded yet.
        """
        return aligner_of(await self._config(model)).shift

    async def capture(
        self, pairs: Sequence[tuple[str, Pair]], context: RequestContext
    ) -> list[CrossAttention]:
        """Captures the attention of sentence pairs, each with the name of its model.

        Raises:
            ServiceError: The request is refused, too late, or failed.
        """
        names = {name for name, _ in pairs}
        aligners = {name: aligner_of(await self._config(name)) for name in names}
        items = [
            AttentionItem(
                name, AttentionJob(pair.source.ids, pair.target.ids, (aligners[name].query,))
            )
            for name, pair in pairs
        ]
        results: list[Result] = []
        for part in in_parts(items, self.settings.max_attention_values):
            results += await capture(part, self.backend, self.settings, context)
        captured = []
        for (name, _), result in zip(pairs, results, strict=True):
            (weights,) = result.value[0].values()  # (1, 1, T, S)
            captured.append(CrossAttention(weights[0, 0], aligners[name].shift))
        return captured

    async def _config(self, name: str) -> ModelConfig:
        config = (await resident(self.backend, name)).config
        assert config is not None  # every translation model has a config
        return config


async def resident(backend: Admitter, name: str) -> Resident:
    """Returns a model as the workers have loaded it.

    Raises:
        UnavailableError: The model is not loaded yet.
    """
    found = (await backend.status()).models.get(name)
    if found is None:
        raise UnavailableError("the models are loading; try again soon", 1)
    return found


async def capture(
    items: list[AttentionItem], backend: Admitter, settings: Settings, context: RequestContext
) -> list[Result]:
    """Captures the attention of items; returns one result each, in order.

    Raises:
        ServiceError: The items are refused, too late, or failed.
    """
    tokens = sum(item.num_tokens for item in items)
    if len(items) > settings.bulk_sentences:
        for item in items:
            item.is_bulk = True
    lease = await context.admit(backend, tokens, at_once=False)
    deadline = context.started + settings.request_timeout_seconds
    results = await lease.submit(items, deadline).in_order()
    context.add_times(results)
    return results


def in_parts(items: Sequence[AttentionItem], max_values: int) -> Iterator[list[AttentionItem]]:
    """Yields the items of a request in parts.

    One head has at most `max_values` weights in a part, unless the part is a single item.
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
