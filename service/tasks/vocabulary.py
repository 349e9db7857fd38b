"""Splits texts into tokens, and decodes token ids, with the vocabulary of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.tokenization.text import TextTokenizer
from model.tokenization.tokenizer import TokenizedText
from service.models.catalog import Catalog
from service.models.served import ServedEmbedder, ServedReranker
from service.settings import Settings
from service.tasks.context import RequestContext
from service.tasks.embedding.limits import (
    check_ids,
    check_num_inputs,
    check_num_tokens,
    find_prompt,
)
from service.tasks.threads import run_sized

ServedReader = ServedEmbedder | ServedReranker
"""An embedding model or a cross-encoder."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokenizer and the prompts of a model.

    `default_prompt` names the prompt for requests without `prompt_name`; None means no prompt.
    """

    tokenizer: TextTokenizer
    prompts: Mapping[str, str]
    default_prompt: str | None

    async def tokens(
        self,
        texts: Sequence[str],
        prompt_name: str | None,
        add_special_tokens: bool,
        settings: Settings,
        context: RequestContext,
    ) -> list[TokenizedText]:
        """Returns the tokens of each text with its prompt, without truncation."""
        check_num_inputs(texts, settings.max_inputs, "inputs")
        prompt = find_prompt(prompt_name, self.prompts, self.default_prompt)
        deadline = context.deadline(settings.request_timeout_seconds)
        size = sum(map(len, texts))
        found = await run_sized(size, deadline, self._split, texts, prompt, add_special_tokens)
        num_tokens = [len(each.ids) for each in found]
        check_num_tokens(num_tokens, settings.max_pending_tokens, "inputs")
        return found

    def _split(self, texts: Sequence[str], prompt: str, is_special: bool) -> list[TokenizedText]:
        return [self.tokenizer.split(prompt + text, is_special) for text in texts]

    async def texts(
        self,
        ids: Sequence[list[int]],
        skip_special_tokens: bool,
        settings: Settings,
        context: RequestContext,
    ) -> list[str]:
        """Returns the text of each list of ids."""
        check_num_inputs(ids, settings.max_inputs, "ids")
        sizes = [len(each) for each in ids]
        check_num_tokens(sizes, settings.max_pending_tokens, "ids")
        check_ids(ids, self.tokenizer.vocab_size, "ids")

        deadline = context.deadline(settings.request_timeout_seconds)
        return await run_sized(sum(sizes), deadline, self._decode, ids, skip_special_tokens)

    def _decode(self, ids: Sequence[list[int]], skip_special_tokens: bool) -> list[str]:
        return [self.tokenizer.decode(each, skip_special_tokens) for each in ids]


def find_reader(catalog: Catalog, name: str | None) -> ServedReader:
    """Returns the embedding model or cross-encoder with the given name.

    Without a name, the result is the first embedding model or, without one, cross-encoder.
    """
    served: dict[str, ServedReader] = {**catalog.embedders, **catalog.of_type(ServedReranker)}
    missing = "no embedding model or cross-encoder is served; name a folder in REGARD_MODELS"
    return catalog.choose(name, served, "embedding model or cross-encoder {}", missing)


def vocabulary_of(served: ServedReader) -> Vocabulary:
    if isinstance(served, ServedReranker):
        return Vocabulary(served.tokenizer.tokenizer, {}, None)
    config = served.config
    return Vocabulary(served.tokenizer, config.prompts, config.default_prompt)
