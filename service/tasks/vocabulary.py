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

    settings: Settings
    tokenizer: TextTokenizer
    prompts: Mapping[str, str]
    default_prompt: str | None

    async def tokens(
        self,
        texts: Sequence[str],
        prompt_name: str | None,
        has_special: bool,
        context: RequestContext,
    ) -> list[TokenizedText]:
        """Returns the tokens of each text with its prompt, without truncation."""
        check_num_inputs(texts, self.settings.max_inputs, "inputs")
        prompt = find_prompt(prompt_name, self.prompts, self.default_prompt)

        def split() -> list[TokenizedText]:
            return [self.tokenizer.split(prompt + text, has_special) for text in texts]

        found = await run_sized(sum(map(len, texts)), context.deadline, split)
        num_tokens = [len(each.ids) for each in found]
        check_num_tokens(num_tokens, self.settings.max_pending_tokens, "inputs")
        return found

    async def texts(
        self, ids: Sequence[list[int]], skip_special: bool, context: RequestContext
    ) -> list[str]:
        check_num_inputs(ids, self.settings.max_inputs, "ids")
        sizes = [len(each) for each in ids]
        check_num_tokens(sizes, self.settings.max_pending_tokens, "ids")
        check_ids(ids, self.tokenizer.vocab_size, "ids")

        def decode() -> list[str]:
            return [self.tokenizer.decode(each, skip_special) for each in ids]

        return await run_sized(sum(sizes), context.deadline, decode)


def find_reader(catalog: Catalog, name: str | None) -> ServedReader:
    """Returns the embedding model or cross-encoder with the given name.

    Without a name, the result is the first embedding model or, without one, cross-encoder.
    """
    served: dict[str, ServedReader] = {**catalog.embedders, **catalog.of_type(ServedReranker)}
    missing = "no embedding model or cross-encoder is served; name a folder in REGARD_MODELS"
    return catalog.choose(name, served, "embedding model or cross-encoder {}", missing)


def find_vocabulary(catalog: Catalog, name: str | None, settings: Settings) -> Vocabulary:
    served = find_reader(catalog, name)
    if isinstance(served, ServedReranker):
        return Vocabulary(settings, served.tokenizer.tokenizer, {}, None)
    config = served.config
    return Vocabulary(settings, served.tokenizer, config.prompts, config.default_prompt)
