"""Computes the attention of texts that are embedded: an encoder reads each text alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from model.inspection.query import AttentionQuery, InspectedConfig
from model.tokenization.text import TextTokens
from model.tokenization.tokenizer import TokenizedText, Tokenizer
from service.errors import SHOWN_CHARS, NotFoundError, RequestTooLargeError
from service.items.result import Result
from service.models.served import ServedEmbedder, ServedModel
from service.tasks.alignment.aligner import resident
from service.tasks.attention.inspector import Inspector
from service.tasks.attention.pairs import attentions
from service.tasks.attention.query import attention_query
from service.tasks.attention.requests import InspectionRequest, ModelChoice, View
from service.tasks.attention.results import TextAttention, text_attention
from service.tasks.attention.tokenization import count_long, item_name, nothing_to_read
from service.tasks.context import RequestContext
from service.tasks.embedding.limits import find_language, find_prompt


@dataclass(frozen=True, slots=True)
class Encoder:
    """The encoder of a loaded model.

    Attributes:
        name: Served name of the model.
        config: Sizes and switches of the model.
        max_tokens: Largest number of tokens of a text, special tokens included.
        tokenize: Tokenises a text that already begins with the prompt.
        prompt: Prompt before each text; "" if there is no prompt.
    """

    name: str
    config: InspectedConfig
    max_tokens: int
    tokenize: Callable[[str], TextTokens]
    prompt: str

    @property
    def start(self) -> str:
        """Spelling of the decoder's start token; empty, because there is no decoder."""
        return ""


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """A tokenised text that is embedded."""

    source: TokenizedText

    @property
    def target(self) -> None:
        """None, because a text that is embedded has no translation."""


@dataclass(frozen=True, slots=True)
class TextQueries:
    """The attention query of a request; it is the same for all texts of the request.

    Attributes:
        attention: Query for the attention that the request asks for.
    """

    attention: AttentionQuery

    @property
    def all(self) -> tuple[AttentionQuery, ...]:
        """Queries about each text, in the order in which its result answers them."""
        return (self.attention,)

    def assemble(
        self, texts: Sequence[EmbeddedText], results: Sequence[Result], start: str, view: View
    ) -> list[TextAttention]:
        """Returns the attention of each text.

        Args:
            texts: Tokenised texts.
            results: Result of each text.
            start: Spelling of the decoder's start token; empty, because there is no decoder.
            view: Requested form.
        """
        return [
            text_attention(text.source, attentions(self.attention, result.value[0]), view)
            for text, result in zip(texts, results, strict=True)
        ]


class TextInspector(Inspector[Encoder, EmbeddedText]):
    """Computes the attention of texts that are embedded.

    Args:
        catalog: Served models.
        backend: Admission and device workers.
        settings: Limits.
    """

    min_target_tokens = 0

    async def choose_model(
        self, choice: ModelChoice, texts: Sequence[str], context: RequestContext
    ) -> Encoder:
        """Returns the encoder of the named model, or of the first embedding model.

        Raises:
            NotFoundError: There is no such model, or no embedding model.
            InvalidRequestError: There is no such prompt, or the language is missing or unknown.
            UnavailableError: The model is not loaded.
        """
        served = self._served(choice.model)
        context.model = served.name
        loaded = await resident(self.backend, served.name)
        if isinstance(served, ServedModel):
            config = loaded.config
            assert config is not None  # every translation model has a config
            tokenizer = source_tokenizer(served, choice.prompt_name)
            limit = self.settings.max_source_tokens
            tokenize = partial(tokenize_uncut, tokenizer, limit)
            return Encoder(served.name, config, limit, tokenize, "")
        own = served.config
        prompt = find_prompt(choice.prompt_name, own.prompts, own.default_prompt)
        return Encoder(served.name, own.encoder, own.max_tokens, served.tokenizer.tokenize, prompt)

    def _served(self, name: str | None) -> ServedModel | ServedEmbedder:
        served: dict[str, ServedModel | ServedEmbedder] = {
            **self.catalog.embedders,
            **self.catalog.models,
        }
        known = ", ".join(served)
        if name is None:
            first = next(iter(self.catalog.embedders.values()), None)
            if first is None:
                raise NotFoundError(
                    "no embedding model is served; name a model whose encoder embeds texts: "
                    f"{known}"
                )
            return first
        if self.catalog.named(name) not in served:
            raise NotFoundError(
                f"there is no model {name[:SHOWN_CHARS]} that embeds; there are {known}"
            )
        return served[self.catalog.named(name)]

    def _queries(self, model: Encoder, request: InspectionRequest) -> TextQueries:
        return TextQueries(attention_query(model.config, request))

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
    ) -> list[EmbeddedText]:
        return list(map(EmbeddedText, sources))


def source_tokenizer(model: ServedModel, name: str | None) -> Tokenizer:
    """Returns the tokenizer with which a translation model's encoder reads texts.

    Args:
        model: Translation model.
        name: `prompt_name` of the request. It names a language if the model is multilingual, and
            is None otherwise.

    Raises:
        InvalidRequestError: The model has no prompts, or the language is missing or unknown.
    """
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
    """Tokenises each text together with the prompt before it.

    Raises:
        InvalidRequestError: A text has no tokens of its own.
        RequestTooLargeError: A text has more tokens than the model takes.
    """
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
