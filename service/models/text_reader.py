"""Tokenises texts for the encoder of a model, and truncates the ids to the model's limit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Input = str | list[int]
"""Text to embed, or the ids of its tokens."""

Direction = Literal["left", "right"]
"""End at which a text is truncated if it is too long."""

Encode = Callable[[str, str, int, Direction], tuple[list[int], bool]]
"""Takes a prompt, a text, the number of ids that fit, and the end at which to truncate.

Returns ids without special tokens, and whether these are all ids of the text. If the text has more
ids than fit, ids at the truncated end may be missing."""


@dataclass(slots=True)
class ReadText:
    ids: list[int]  # with special tokens and the prompt
    num_tokens: int  # before truncation; it is only a lower bound if `is_exact` is false
    is_exact: bool = True
    kept: list[int] | None = None  # indices of the ids whose vectors are returned; None for all
    unpooled: int = 0  # number of first ids that are left out of the pooling


@dataclass(frozen=True, slots=True)
class TextReader:
    name: str
    encode: Encode
    before: list[int]  # special tokens in front of a text
    behind: list[int]  # special tokens at the end of a text
    max_tokens: int  # special tokens included; longer texts are truncated
    vocab_size: int
    size: int | None  # of an embedding; None if known only after the weights are loaded
    is_normalized: bool  # whether embeddings have length 1
    prompts: Mapping[str, str]
    default_prompt: str | None  # name used if a request names none; None for no prompt
    # Special tokens in front of a text, for each language that a request may name. It is empty if
    # the model needs no language.
    languages: Mapping[str, list[int]] = field(default_factory=dict)
    is_sparse: bool = False  # whether embeddings are weights of words
    # Readers of the forms of a text, `query` and `document`, in a ColBERT model or a Router.
    forms: Mapping[str, "TextReader"] = field(default_factory=dict)
    default_form: str = "document"
    is_query: bool = False  # whether other modules than those of documents compute the texts
    is_multi: bool = False  # whether each token has a vector (ColBERT)
    filler: int | None = None  # id put behind a text up to `max_tokens`
    skipped: frozenset[int] = frozenset()  # ids without a vector
    pools_prompt: bool = True  # if not, a prompt and the special tokens before it are left out

    def with_language(self, language: str) -> "TextReader":
        return replace(self, before=self.languages[language], languages={})

    def read(self, given: Input, prompt: str, direction: Direction) -> ReadText:
        """Returns the ids that the model reads. Missing special tokens are put around given ids.

        Args:
            given: Text without lone surrogates, or ids of the vocabulary.
            direction: End at which a text that is too long is cut.
        """
        num_special = len(self.before) + len(self.behind)
        room = self.max_tokens - num_special
        is_exact = True
        if isinstance(given, str):
            content, is_exact = self.encode(prompt, given, room, direction)
        else:
            content = self._bare(given)
            if prompt:
                prompt_ids, is_exact = self.encode(prompt, "", room, direction)
                content = [*prompt_ids, *content]
        excess = len(content) - room
        num_tokens = len(content) + num_special
        if excess > 0:
            content = content[:-excess] if direction == "right" else content[excess:]
        ids = [*self.before, *content, *self.behind]
        unpooled = 0
        if prompt and not self.pools_prompt:
            count = len(self.encode(prompt, "", room, "right")[0])
            if direction == "left":  # ids of the prompt are the first to be cut
                count = max(count - max(excess, 0), 0) if is_exact else 0
            unpooled = len(self.before) + min(count, len(content))
        if self.filler is not None:
            ids += [self.filler] * (self.max_tokens - len(ids))
        kept = None
        if self.skipped:
            kept = [place for place, each in enumerate(ids) if each not in self.skipped]
        return ReadText(ids, num_tokens, is_exact, kept, unpooled)

    def _bare(self, ids: list[int]) -> list[int]:
        # The special tokens around ids are removed if they are both before and after the ids.
        first, last = len(self.before), len(ids) - len(self.behind)
        if first <= last and ids[:first] == self.before and ids[last:] == self.behind:
            return ids[first:last]
        return ids
