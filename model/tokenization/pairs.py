"""Converts pairs of a query and a text to the token ids that a cross-encoder reads.

Some cross-encoders add a vector of its segment to each id. Segment 0 consists of the ids before the
text, and segment 1 of all other ids. With some tokenizers, all ids are in segment 0.
"""

from dataclasses import dataclass, replace
from typing import Any

from model.errors import CheckpointFormatError
from model.tokenization.text import End, TextTokenizer, split_template


@dataclass(frozen=True, slots=True)
class PairTemplate:
    """The special ids around query and text, and the segment (0 or 1) of text and `behind`."""

    before: list[int]
    between: list[int]
    behind: list[int]
    text_segment: int

    @property
    def num_special(self) -> int:
        return len(self.before) + len(self.between) + len(self.behind)


@dataclass(frozen=True, slots=True)
class TokenizedPair:
    """A pair as a cross-encoder reads it, truncated to the limit.

    `segment_start` is the index of the first id in segment 1; `len(ids)` if there is none.
    `num_tokens`, the number before truncation, is a lower bound if `is_exact` is False.
    """

    ids: list[int]
    segment_start: int
    num_tokens: int
    is_exact: bool


class PairTokenizer:
    """Tokenises pairs of at most `max_tokens` tokens, special tokens included.

    The post-processor of `tokenizer` gives the special tokens. With `has_segments` False, all ids
    of a pair are in segment 0, whatever the template says. Messages contain `name`.
    """

    def __init__(
        self, tokenizer: TextTokenizer, max_tokens: int, name: str, has_segments: bool = True
    ) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        template = read_pair_template(tokenizer.tokenizer.post_processor, name)
        self.template = template if has_segments else replace(template, text_segment=0)
        if self.template.num_special + 2 > max_tokens:
            raise CheckpointFormatError(
                f"{name} adds {self.template.num_special} special tokens to a pair, and the limit "
                f"is {max_tokens}"
            )

    def encode(self, text: str, end: End = "right") -> tuple[list[int], bool]:
        """Returns the ids of a query or a text, without special tokens, and whether they are all.

        Of a very long text, only a part is tokenised, which has more than `max_tokens` ids. Ids
        are missing on the side `end`.
        """
        return self.tokenizer.encode("", text, self.max_tokens, end)

    def pair(
        self, query: tuple[list[int], bool], text: tuple[list[int], bool], end: End = "right"
    ) -> TokenizedPair:
        """Joins a query and a text, both from `encode`.

        Of a pair that is too long, the longer part is truncated first, on the side `end`.
        """
        template = self.template
        room = self.max_tokens - template.num_special
        num_tokens = len(query[0]) + len(text[0]) + template.num_special
        sizes = longest_first(len(query[0]), len(text[0]), room)
        first, second = (
            cut(ids, size, end) for (ids, _), size in zip((query, text), sizes, strict=True)
        )
        opening = [*template.before, *first, *template.between]
        ids = [*opening, *second, *template.behind]
        segment_start = len(opening) if template.text_segment else len(ids)
        return TokenizedPair(ids, segment_start, num_tokens, query[1] and text[1])

    def single(self, text: tuple[list[int], bool], end: End = "right") -> TokenizedPair:
        """Adds special tokens to a text from `encode`, which is truncated; all are in segment 0."""
        before, behind = self.tokenizer.special_ids
        num_special = len(before) + len(behind)
        kept = cut(text[0], min(len(text[0]), self.max_tokens - num_special), end)
        ids = [*before, *kept, *behind]
        return TokenizedPair(ids, len(ids), len(text[0]) + num_special, text[1])


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Returns two lengths of at most `room` tokens together; the longer one is reduced first.

    Source: huggingface/tokenizers, tokenizers/src/utils/truncation.rs, LongestFirst.
    """
    if first + second <= room:
        return first, second
    shorter, longer = sorted((first, second))
    longer = max(shorter, room - shorter)
    if shorter + longer > room:
        shorter, longer = room // 2, room - room // 2
    return (shorter, longer) if first <= second else (longer, shorter)


def cut(ids: list[int], size: int, end: End) -> list[int]:
    return ids[:size] if end == "right" else ids[len(ids) - size :]


def read_pair_template(processor: Any, name: str) -> PairTemplate:
    (before, between, behind), types = split_template(processor, 2, name)
    if types not in ([0, 0], [0, 1]):
        raise CheckpointFormatError(
            f"{name}: the types of the texts of a pair are {types}, not [0, 0] or [0, 1]"
        )
    return PairTemplate(before, between, behind, types[1])
