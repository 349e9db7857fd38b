"""Finds the cross-attention by which the words of sentence pairs are aligned.

In native code, the decode steps of a greedy search without scores can record this attention.
Without a record, a second pass over the sentence and its translation captures the attention. While
other work waits, second passes get a limited share of the workers' time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.inspection.query import AttentionJob
from model.sequence import batches
from model.tokenization.tokenizer import TokenizedText
from service.errors import loading
from service.items import AttentionItem, Result
from service.settings import Settings
from service.tasks.attention.query import Aligner, aligner_of
from service.tasks.backend import Admitter
from service.tasks.context import RequestContext
from service.workers.messages import Resident


@dataclass(slots=True)
class TranslatedPair:
    """A tokenised sentence, and its tokenised translation by a model."""

    model: str
    source: TokenizedText
    target: TokenizedText
    # Cross-attention (T, S) of T target tokens to S source tokens; None if the decode steps have
    # not recorded it, until `PairAligner.attend`.
    weights: NDArray[np.float32] | None
    shift: int = 0  # 0 or 1: row t + shift has the weights of target token t

    @property
    def attention(self) -> tuple[NDArray[np.float32], TokenizedText, TokenizedText, int]:
        """The arguments of `align` and of `between_words`, after `PairAligner.attend`."""
        assert self.weights is not None
        return self.weights, self.source, self.target, self.shift


@dataclass(eq=False)
class PairAligner:
    """Finds the attention that aligns sentence pairs."""

    backend: Admitter
    settings: Settings

    async def attend(self, pairs: Sequence[TranslatedPair], context: RequestContext) -> None:
        aligners = {name: await self._aligner(name) for name in {pair.model for pair in pairs}}
        missing = [pair for pair in pairs if pair.weights is None]
        items = []
        for pair in missing:
            queries = (aligners[pair.model].query,)
            job = AttentionJob(pair.source.ids, pair.target.ids, queries)
            items.append(AttentionItem(pair.model, job))
        captured = await self._capture(items, context)
        for pair, weights in zip(missing, captured, strict=True):
            pair.weights = weights
        for pair in pairs:
            pair.shift = aligners[pair.model].shift

    async def _capture(
        self, items: Sequence[AttentionItem], context: RequestContext
    ) -> list[NDArray[np.float32]]:
        results: list[Result] = []
        # All items together decide about the bulk lane. A part alone may have too few items.
        is_bulk = len(items) > self.settings.bulk_sentences
        sizes = [len(item.job.source) * len(item.job.target) for item in items]
        for part in batches(items, sizes, self.settings.max_attention_values):
            results += await context.compute(part, is_bulk)
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
        raise loading()
    return found
