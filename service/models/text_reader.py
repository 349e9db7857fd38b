"""How a model reads the texts that it embeds: as ids, cut to what it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Input = str | list[int]
"""Text to embed, or the ids of its tokens."""

Direction = Literal["left", "right"]
"""End of a text that is cut off where the text is too long."""

Encode = Callable[[str, str, int, Direction], tuple[list[int], bool]]
"""The ids of a prompt and a text without special tokens, and whether they are all: of a text with
more than a number of them some may be missing at the end that is cut off."""


@dataclass(slots=True)
class ReadText:
    """A text as a model gets it.

    Attributes:
        ids: Special tokens and those of a prompt included.
        num_tokens: How many there were before cutting; at least so many where not all were counted.
        is_exact: Whether all were.
    """

    ids: list[int]
    num_tokens: int
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class TextReader:
    """What has to be known of a model to send it texts.

    Attributes:
        name: Served name.
        encode: Gives the ids of a text.
        before: Special tokens in front of a text.
        behind: Those at its end.
        max_tokens: A longer text is cut, special tokens included.
        vocab_size: Ids that it knows.
        size: Numbers of a vector; None where only the weights tell.
        is_normalized: Whether its vectors have length 1.
        prompts: By name.
        default_prompt: The name of the one that is put before a text unasked.
        languages: What stands in front of a text by the language that has to be named; empty where
            none has.
    """

    name: str
    encode: Encode
    before: list[int]
    behind: list[int]
    max_tokens: int
    vocab_size: int
    size: int | None
    is_normalized: bool
    prompts: Mapping[str, str]
    default_prompt: str | None
    languages: Mapping[str, list[int]] = field(default_factory=dict)

    def told(self, language: str) -> "TextReader":
        """The same with the token of one of its languages in front of every text."""
        return replace(self, before=self.languages[language], languages={})

    def read(self, given: Input, prompt: str, direction: Direction) -> ReadText:
        """The ids of a text, or of ids that a client has already made of one.

        Ids that do not stand between the special tokens are put there, so that those of a bare
        text and those of a tokenizer's call mean the same.

        Args:
            given: A text without lone surrogates, or ids of the vocabulary.
            prompt: What is put before it; empty for nothing.
            direction: Which end is cut off where it is too long.
        """
        num_special = len(self.before) + len(self.behind)
        room = self.max_tokens - num_special
        is_exact = True
        if isinstance(given, str):
            content, is_exact = self.encode(prompt, given, room, direction)
        else:
            content = self._bare(given)
            if prompt:
                opening, is_exact = self.encode(prompt, "", room, direction)
                content = [*opening, *content]
        excess = len(content) - room
        num_tokens = len(content) + num_special
        if excess > 0:
            content = content[:-excess] if direction == "right" else content[excess:]
        return ReadText([*self.before, *content, *self.behind], num_tokens, is_exact)

    def _bare(self, ids: list[int]) -> list[int]:
        """Ids without the special tokens around them, where both are there."""
        first, last = len(self.before), len(ids) - len(self.behind)
        if first <= last and ids[:first] == self.before and ids[last:] == self.behind:
            return ids[first:last]
        return ids
