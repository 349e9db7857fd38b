"""Reranking: texts in the order of their relevance to a query."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.tokenization.pairs import Direction, TokenizedPair
from service.errors import SHOWN_CHARS, NotFoundError
from service.items.rerank import RerankItem
from service.models.catalog import Catalog
from service.models.served_reranker import ServedReranker
from service.settings import Settings
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.embedding_limits import check_num_inputs, check_num_tokens, find_long
from service.tasks.threads import CHARS_PER_TOKEN, INLINE_CHARS, run_sized

TEXTS = "texts"
"""Name of the request parameter that has the texts, for error messages."""


@dataclass(frozen=True, slots=True)
class RerankQuery:
    """A request for scores.

    Attributes:
        query: The query that the texts are compared with.
        texts: Texts to rank.
        is_raw: Whether scores are logits; otherwise they are sigmoids of the logits.
        truncate: Whether pairs that are too long are truncated; otherwise they are refused.
        direction: End at which the query or a text is truncated.
        model: Served name; None for the first cross-encoder.
    """

    query: str
    texts: Sequence[str]
    is_raw: bool = False
    truncate: bool = False
    direction: Direction = "right"
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """One text with its score.

    Attributes:
        index: Index of the text in the request.
        score: Its score, higher for a better match.
    """

    index: int
    score: float


class Reranker:
    """Scores the texts of a request with a cross-encoder.

    Args:
        catalog: The served models.
        backend: Admission and device workers.
        settings: Limits.
    """

    def __init__(self, catalog: Catalog, backend: Backend, settings: Settings) -> None:
        self.catalog = catalog
        self.backend = backend
        self.settings = settings

    async def rerank(self, query: RerankQuery, context: RequestContext) -> list[Ranked]:
        """Returns the index and score of each text, best first.

        Texts of equal score keep the order of the request.

        Raises:
            ServiceError: The request is refused, too late, or failed.
        """
        served = self._model(query.model)
        context.model = served.name
        check_num_inputs(query.texts, self.settings.max_inputs, TEXTS)
        sizes = [len(query.query) + len(text) for text in query.texts]
        limit = served.tokenizer.max_tokens
        estimate = sum([min(size // CHARS_PER_TOKEN, limit) for size in sizes]) + 1
        num_chars = len(query.query) + sum(map(len, query.texts))
        lease = await context.admit(self.backend, estimate, at_once=num_chars > INLINE_CHARS)
        with context.stage("tokenize"):
            pairs = await run_sized(num_chars, tokenize, served, query)
        self._check(pairs, query, limit, context)
        is_bulk = len(pairs) > self.settings.bulk_sentences
        items = [RerankItem(served.name, ids_of(pair, served), is_bulk) for pair in pairs]
        deadline = context.started + self.settings.request_timeout_seconds
        results = await lease.submit(items, deadline).in_order()
        context.add_times(results)
        logits = np.frombuffer(b"".join([each.value for each in results]), dtype=np.float32)
        scores = logits if query.is_raw else sigmoid(logits)
        order = np.argsort(-scores, kind="stable")
        return [Ranked(int(index), float(str(scores[index]))) for index in order]

    def _model(self, name: str | None) -> ServedReranker:
        served = self.catalog.of_type(ServedReranker)
        if name is None and served:
            return next(iter(served.values()))
        if name is not None and self.catalog.named(name) in served:
            return served[self.catalog.named(name)]
        known = ", ".join(served) or "none"
        if name is not None:
            message = f"there is no model {name[:SHOWN_CHARS]} that reranks; there are {known}"
        else:
            message = (
                "no model that reranks is served: name the folder of a cross-encoder in "
                "REGARD_MODELS"
            )
        raise NotFoundError(message, param="model")

    def _check(
        self,
        pairs: Sequence[TokenizedPair],
        query: RerankQuery,
        limit: int,
        context: RequestContext,
    ) -> None:
        num_tokens = [pair.num_tokens for pair in pairs]
        inexact = [index for index, pair in enumerate(pairs) if not pair.is_exact]
        long = find_long(num_tokens, limit, query.truncate, TEXTS, inexact)
        context.num_cut[context.model] = len(long)
        lengths = [len(pair.ids) for pair in pairs]
        check_num_tokens(lengths, self.settings.max_pending_tokens, TEXTS)


def tokenize(served: ServedReranker, query: RerankQuery) -> list[TokenizedPair]:
    """Tokenises the query together with each text; returns one pair a text."""
    tokenizer, end = served.tokenizer, query.direction
    first = tokenizer.encode(query.query, end)
    return [tokenizer.pair(first, tokenizer.encode(text, end), end) for text in query.texts]


def ids_of(pair: TokenizedPair, served: ServedReranker) -> list[int]:
    """Returns the ids of a pair.

    If the model distinguishes segments, the vocabulary size is added to each id of the second
    segment: the text, and the special tokens behind it.
    """
    if served.config.num_segments == 1:
        return pair.ids
    start, offset = pair.text_start, served.config.vocab_size
    return [*pair.ids[:start], *[offset + token for token in pair.ids[start:]]]


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Returns 1 / (1 + exp(-x)), float32, without overflow."""
    wide = logits.astype(np.float64)
    return np.asarray(0.5 * (1 + np.tanh(wide / 2)), dtype=np.float32)
