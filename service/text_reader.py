"""How a model reads the texts that it embeds: as ids, cut to what it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.embed_schemas import Direction, Input


@dataclass(slots=True)
class ReadText:
    """A text as a model gets it.

    Attributes:
        ids: Special tokens and those of a prompt included.
        num_tokens: How many there were before cutting.
    """

    ids: list[int]
    num_tokens: int


@dataclass(frozen=True, slots=True)
class TextReader:
    """What has to be known of a model to send it texts.

    Attributes:
        name: Served name.
        encode: The ids of a prompt and a text, whole, without special tokens.
        before: Special tokens in front of a text.
        behind: Those at its end.
        max_tokens: A longer text is cut, special tokens included.
        vocab_size: Ids that it knows.
        size: Numbers of a vector; None where only the weights tell.
        is_normalized: Whether its vectors have length 1.
        prompts: By name.
        default_prompt: The name of the one that is put before a text unasked.
    """

    name: str
    encode: Callable[[str, str], list[int]]
    before: list[int]
    behind: list[int]
    max_tokens: int
    vocab_size: int
    size: int | None
    is_normalized: bool
    prompts: Mapping[str, str]
    default_prompt: str | None

    def read(self, given: Input, prompt: str, direction: Direction) -> ReadText:
        """The ids of a text, or of ids that a client has already made of one.

        Ids that do not stand between the special tokens are put there, so that those of a bare
        text and those of a tokenizer's call mean the same.

        Args:
            given: A text without lone surrogates, or ids of the vocabulary.
            prompt: What is put before it; empty for nothing.
            direction: Which end is cut off where it is too long.
        """
        if isinstance(given, str):
            content = self.encode(prompt, given)
        else:
            content = self._bare(given)
            if prompt:
                content = [*self.encode(prompt, ""), *content]
        num_special = len(self.before) + len(self.behind)
        num_tokens = len(content) + num_special
        if num_tokens > self.max_tokens:
            excess = num_tokens - self.max_tokens
            content = content[:-excess] if direction == "right" else content[excess:]
        return ReadText([*self.before, *content, *self.behind], num_tokens)

    def _bare(self, ids: list[int]) -> list[int]:
        """Ids without the special tokens around them, where both are there."""
        first, last = len(self.before), len(ids) - len(self.behind)
        if first <= last and ids[:first] == self.before and ids[last:] == self.behind:
            return ids[first:last]
        return ids
