"""Computes the attention of texts that are embedded: an encoder reads each text alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from model.tokenization.text import TextTokens
from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.errors import RequestTooLargeError
from service.models.served import ServedEmbedder, ServedModel
from service.tasks.alignment.aligner import resident
from service.tasks.attention.inspector import (
    InspectedModel,
    Inspector,
    count_long,
    item_name,
    nothing_to_read,
)
from service.tasks.attention.query import attention_query
from service.tasks.attention.requests import AttentionQuestion, AttentionRequest
from service.tasks.attention.results import InspectedText, Queries
from service.tasks.context import RequestContext
from service.tasks.embedding.limits import find_language, find_prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder(InspectedModel):
    """The encoder of a loaded model."""

    max_tokens: int  # of a text, special tokens included
    tokenize: Callable[[str], TextTokens]  # the text begins with the prompt
    prompt: str = ""


class TextInspector(Inspector[Encoder]):
    """Computes the attention of texts that are embedded."""

    min_target_tokens = 0

    async def choose_model(
        self, question: AttentionQuestion, texts: Sequence[str], context: RequestContext
    ) -> Encoder:
        """Returns the encoder of the named model, or of the first embedding model."""
        served = self._served(question.model)
        context.model = served.name
        loaded = await resident(self.backend, served.name)
        if isinstance(served, ServedModel):
            config = loaded.config
            assert config is not None  # every translation model has a config
            tokenizer = source_tokenizer(served, question.prompt_name)
            limit = self.settings.max_source_tokens
            tokenize = partial(tokenize_uncut, tokenizer, limit)
            return Encoder(name=served.name, config=config, max_tokens=limit, tokenize=tokenize)
        own = served.config
        return Encoder(
            name=served.name,
            config=own.encoder,
            max_tokens=own.max_tokens,
            tokenize=served.tokenizer.tokenize,
            prompt=find_prompt(question.prompt_name, own.prompts, own.default_prompt),
        )

    def _served(self, name: str | None) -> ServedModel | ServedEmbedder:
        served: dict[str, ServedModel | ServedEmbedder] = {
            **self.catalog.embedders,
            **self.catalog.models,
        }
        known = ", ".join(served)
        missing = f"no embedding model is served; name a model whose encoder embeds texts: {known}"
        among = served if name is not None or self.catalog.embedders else {}
        return self.catalog.choose(name, among, "model {} that embeds", missing)

    def _queries(self, model: Encoder, request: AttentionRequest) -> Queries:
        return Queries(attention_query(model.config, request))

    async def _tokenize(
        self, texts: Sequence[str], model: Encoder, is_split: bool, context: RequestContext
    ) -> list[TokenizedText]:
        num_chars = sum(map(len, texts)) + len(texts) * len(model.prompt)
        return await self._admit_and_tokenize(num_chars, context, tokenize_all, texts, model)

    async def _complete(
        self,
        model: Encoder,
        sources: list[TokenizedText],
        target_texts: Sequence[str | None],
        context: RequestContext,
    ) -> list[InspectedText]:
        return list(map(InspectedText, sources))


def source_tokenizer(model: ServedModel, name: str | None) -> Tokenizer:
    """Returns the tokenizer of a translation model; `prompt_name` may name a language."""
    openings = model.openings
    if len(openings) > 1:
        return openings[find_language(name, openings)]
    find_prompt(name, {}, None)
    return next(iter(openings.values()))


def tokenize_uncut(tokenizer: Tokenizer, limit: int, text: str) -> TextTokens:
    """Tokenises a text for a translation model's encoder, without truncation.

    For a very long text that exceeds the limit, only the number of tokens is computed, because the
    text is refused later. This number leaves out the prefix that the tokenizer puts in front of
    every text.
    """
    if number := count_long(text, tokenizer, limit):
        return TextTokens(TokenizedText(text, [], [], [], []), number, is_exact=False)
    tokenized = tokenizer.tokenize(text)
    return TextTokens(tokenized, len(tokenized.ids))


def tokenize_all(texts: Sequence[str], encoder: Encoder) -> list[TokenizedText]:
    """Tokenises each text together with the prompt before it."""
    tokenized = []
    for number, text in enumerate(texts):
        found = encoder.tokenize(encoder.prompt + text)
        name = item_name("text", number, texts)
        if found.num_tokens > encoder.max_tokens:
            count = f"{'at least ' * (not found.is_exact)}{found.num_tokens}"
            raise RequestTooLargeError(
                f"Invalid request: {name} has {count} tokens, and {encoder.name} takes "
                f"{encoder.max_tokens} at most. Send it in parts; attention is not computed for "
                "truncated texts."
            )
        if not text.strip() or all(found.tokenized.special):
            raise nothing_to_read(name)
        tokenized.append(found.tokenized)
    return tokenized
