"""The reranking task: scores texts with a cross-encoder or a ColBERT model, and ranks them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from model.checkpoints.families.sentence_transformers import FORMS
from model.tokenization.pairs import Inputs, PairText, TokenizedPair
from service.errors import InvalidRequestError
from service.items import EmbeddingItem, RerankItem
from service.models.catalog import Catalog
from service.models.served import ServedEmbedder, ServedReranker
from service.models.text_reader import ReadText, TextReader
from service.settings import Settings
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.embedding.embedder import Vectors
from service.tasks.embedding.inputs import ScoreParameters
from service.tasks.embedding.limits import check_num_inputs, check_num_tokens, find_long
from service.tasks.threads import CHARS_PER_TOKEN


class Scored(NamedTuple):
    """The scores of the inputs of a request."""

    scores: list[float]  # with the fewest decimals that give the same float32
    label: str  # name of the model's only label
    num_tokens: int  # of all inputs after truncation, with special tokens

    @property
    def order(self) -> list[int]:
        """Indices of the inputs, best first; inputs of equal score keep their order."""
        found: list[int] = (-np.array(self.scores)).argsort(kind="stable").tolist()
        return found


@dataclass(slots=True)
class Reranker:
    catalog: Catalog
    backend: Backend
    settings: Settings

    async def score(
        self,
        inputs: Sequence[Inputs],
        param: str,
        options: ScoreParameters,
        context: RequestContext,
    ) -> Scored:
        """Scores each input.

        If `options.raw_scores` is None, the model's config decides between logits and sigmoid.
        `param` is the name of the inputs in the client's request, for error messages.
        """
        missing = (
            "no model that reranks is served: name the folder of a cross-encoder or of a ColBERT "
            "model in REGARD_MODELS"
        )
        rerankers: dict[str, ServedReranker | ServedEmbedder] = {
            **self.catalog.of_type(ServedReranker),
            **{name: each for name, each in self.catalog.embedders.items() if each.config.multi},
        }
        served = self.catalog.choose(options.model, rerankers, "model {} that reranks", missing)
        await context.wait_for_model(served.name, self.catalog, self.backend)
        context.model = served.name
        check_num_inputs(inputs, self.settings.max_inputs, param)
        if isinstance(served, ServedEmbedder):
            return await self._max_sim(served.reader, inputs, param, options, context)
        sizes = [sum(map(len, each)) for each in inputs]
        limit = served.tokenizer.max_tokens
        estimate = sum([min(size // CHARS_PER_TOKEN, limit) for size in sizes]) + 1
        num_chars = sum(map(len, {text for each in inputs for text in each}))
        arguments = served, inputs, options
        pairs = await context.tokenize(self.backend, estimate, num_chars, tokenize, *arguments)
        inexact = [index for index, pair in enumerate(pairs) if not pair.is_exact]
        num_tokens = [pair.num_tokens for pair in pairs]
        truncate = self.settings.truncate if options.truncate is None else options.truncate
        long = find_long(num_tokens, limit, truncate, param, inexact)
        context.num_cut[served.name] = len(long)
        lengths = [len(pair.ids) for pair in pairs]
        check_num_tokens(lengths, self.settings.max_pending_tokens, param)
        items = [RerankItem(served.name, ids_of(pair, served)) for pair in pairs]
        results = await context.compute(items, len(items) > self.settings.bulk_sentences)
        logits = np.frombuffer(b"".join([each.value for each in results]), dtype=np.float32)
        config, is_raw = served.config, options.raw_scores
        scores = scores_of(logits, config.is_raw if is_raw is None else is_raw)
        return Scored(scores, config.label, sum(lengths))

    async def _max_sim(
        self,
        reader: TextReader,
        inputs: Sequence[Inputs],
        param: str,
        options: ScoreParameters,
        context: RequestContext,
    ) -> Scored:
        """Scores pairs by the vectors of their tokens (ColBERT); equal texts are computed once.

        The score is the sum, over the tokens of the query, of the largest product with a token of
        the text. If `options.raw_scores` is False, the sum is divided by the number of these
        tokens.
        """
        if any(len(each) != len(FORMS) for each in inputs):
            raise InvalidRequestError(
                f"Invalid request: {reader.name} scores pairs of a query and a text; send pairs",
                param=param,
            )
        keys = [*dict.fromkeys(key for each in inputs for key in zip(FORMS, each, strict=True))]
        num_chars = sum(len(text) for _, text in keys)
        estimate = min(num_chars // CHARS_PER_TOKEN, len(keys) * reader.max_tokens) + 1
        arguments = reader, keys, options
        texts = await context.tokenize(self.backend, estimate, num_chars, read_forms, *arguments)
        truncate = self.settings.truncate if options.truncate is None else options.truncate
        read, cut = dict(zip(keys, texts, strict=True)), set[int]()
        for form, column in zip(FORMS, zip(*inputs, strict=True), strict=True):
            found = [read[form, text] for text in column]
            inexact = [place for place, text in enumerate(found) if not text.is_exact]
            num_tokens, limit = [text.num_tokens for text in found], reader.forms[form].max_tokens
            cut.update(find_long(num_tokens, limit, truncate, param, inexact))
        context.num_cut[reader.name] = len(cut)
        lengths = [len(text.ids) for text in texts]
        check_num_tokens(lengths, self.settings.max_pending_tokens, param)
        items = [EmbeddingItem(reader.name, text.ids, is_per_token=True) for text in texts]
        results = await context.compute(items, len(inputs) > self.settings.bulk_sentences)
        embedded = {}
        for key, text, result in zip(keys, texts, results, strict=True):
            vectors = np.frombuffer(result.value, np.float32).reshape(len(text.ids), -1)
            embedded[key] = vectors if text.kept is None else vectors[text.kept]
        scores = []
        for each in inputs:
            query, document = (embedded[key] for key in zip(FORMS, each, strict=True))
            score = max_sim(query, document)
            score = score / len(query) if options.raw_scores is False else score
            scores.append(float(str(np.float32(score))))
        return Scored(scores, "LABEL_0", sum(lengths))


def read_forms(
    reader: TextReader, keys: Sequence[tuple[str, str]], options: ScoreParameters
) -> list[ReadText]:
    """Reads (form, text); `max_tokens_per_doc` also counts the special tokens of a document."""
    forms = dict(reader.forms)
    if limit := options.max_tokens_per_doc:
        document = forms[FORMS[1]]
        least = len(document.before) + len(document.behind) + 1
        most = max(least, min(document.max_tokens, limit))
        forms[FORMS[1]] = replace(document, max_tokens=most)
    return [forms[form].read(text, "", options.truncation_direction) for form, text in keys]


def max_sim(query: Vectors, document: Vectors) -> float:
    """Returns the sum over query vectors (n, E) of the largest product with document vectors."""
    if not len(document):
        return 0.0
    return float((query @ document.T).max(axis=1).sum())


def tokenize(
    served: ServedReranker, inputs: Sequence[Inputs], options: ScoreParameters
) -> list[TokenizedPair]:
    limit = options.max_tokens_per_doc or sys.maxsize
    return served.tokenizer.tokenize(inputs, limit, options.truncation_direction)


def ids_of(pair: TokenizedPair | PairText, served: ServedReranker) -> list[int]:
    """Returns the ids that the model reads for a pair or a single text.

    If the model distinguishes segments, row `vocab_size + id` of its token table is the vector of
    token `id` in the second segment (see `model.checkpoints.embedding`).
    """
    if served.config.num_segments == 1:
        return pair.ids
    start, offset = pair.segment_start, served.config.vocab_size
    return [*pair.ids[:start], *[offset + token for token in pair.ids[start:]]]


def scores_of(logits: np.ndarray, is_raw: bool) -> list[float]:
    """Returns scores, as the shortest decimals that round to their float32."""
    return [float(str(score)) for score in (logits if is_raw else sigmoid(logits))]


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Returns 1 / (1 + exp(-x)) for each logit x, as float32; tanh avoids an overflow."""
    wide = logits.astype(np.float64)
    return np.asarray(0.5 * (1 + np.tanh(wide / 2)), dtype=np.float32)
