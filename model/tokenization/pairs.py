"""Converts pairs of a query and a text to the token ids that a cross-encoder reads.

Some cross-encoders divide the ids of a pair into two segments. Segment 0 consists of the ids before
the text, and segment 1 consists of all other ids. Each segment has a vector, which is added to the
embeddings of the ids in the segment. With some tokenizers, all ids are in segment 0.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from model.errors import CheckpointFormatError
from model.tokenization.text import TextTokenizer

Direction = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class PairTemplate:
    """The special ids around the two parts of a pair.

    Attributes:
        before: Ids in front of the query.
        between: Ids between query and text.
        behind: Ids behind the text.
        text_segment: Segment of the text and of the ids behind it: 0 or 1.
    """

    before: list[int]
    between: list[int]
    behind: list[int]
    text_segment: int

    @property
    def num_special(self) -> int:
        return len(self.before) + len(self.between) + len(self.behind)


@dataclass(frozen=True, slots=True)
class TokenizedPair:
    """A pair as a cross-encoder reads it.

    Attributes:
        ids: Token ids, special tokens included, truncated to the limit.
        segment_start: Index of the first id in segment 1; `len(ids)` if all ids are in segment 0.
        num_tokens: Number of tokens before truncation; a lower bound if `is_exact` is False.
        is_exact: Whether all tokens were counted.
    """

    ids: list[int]
    segment_start: int
    num_tokens: int
    is_exact: bool


class PairTokenizer:
    """Tokenises pairs.

    The special tokens come from the post-processor of the model's Hugging Face tokenizer.

    Args:
        tokenizer: Tokenizer of single texts.
        max_tokens: Largest number of tokens of a pair, special tokens included.
        name: Name of the tokenizer's file, for error messages.
        has_segments: If False, all ids of a pair are in segment 0, whatever the template says.

    Raises:
        CheckpointFormatError: The post-processor has no template of a pair, or the special tokens
            of the template leave no room for a query and a text.
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

    def encode(self, text: str, direction: Direction = "right") -> tuple[list[int], bool]:
        """Returns the ids of a query or a text, without special tokens.

        The second result is False if only a part of the text was tokenised.

        Args:
            text: The text, without lone surrogates. If the text is very long, only a part of it is
                tokenised. This part still has more than `max_tokens` ids.
            direction: Side of the text on which ids may be missing.
        """
        return self.tokenizer.encode("", text, self.max_tokens, direction)

    def pair(
        self,
        query: tuple[list[int], bool],
        text: tuple[list[int], bool],
        direction: Direction = "right",
    ) -> TokenizedPair:
        """Joins a query and a text. If the pair is too long, its longer part is truncated first.

        Args:
            query: Both results of `encode` for the query.
            text: Both results of `encode` for the text.
            direction: Side on which query and text are truncated.
        """
        template = self.template
        room = self.max_tokens - template.num_special
        num_tokens = len(query[0]) + len(text[0]) + template.num_special
        sizes = longest_first(len(query[0]), len(text[0]), room)
        first, second = (
            cut(ids, size, direction) for (ids, _), size in zip((query, text), sizes, strict=True)
        )
        opening = [*template.before, *first, *template.between]
        ids = [*opening, *second, *template.behind]
        segment_start = len(opening) if template.text_segment else len(ids)
        return TokenizedPair(ids, segment_start, num_tokens, query[1] and text[1])

    def single(self, text: tuple[list[int], bool], direction: Direction = "right") -> TokenizedPair:
        """Adds special tokens to a text without a query, and truncates it to the limit.

        All ids of the result are in segment 0.

        Args:
            text: Both results of `encode` for the text.
            direction: Side on which the text is truncated.
        """
        before, behind = self.tokenizer.special_ids
        num_special = len(before) + len(behind)
        kept = cut(text[0], min(len(text[0]), self.max_tokens - num_special), direction)
        ids = [*before, *kept, *behind]
        return TokenizedPair(ids, len(ids), len(text[0]) + num_special, text[1])


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Returns the lengths of two parts, truncated to at most `room` tokens in total.

    Only the longer part is truncated, until both parts have the same length. Then both parts are
    truncated.

    Source: huggingface/tokenizers, tokenizers/src/utils/truncation.rs, LongestFirst.
    """
    if first + second <= room:
        return first, second
    shorter, longer = sorted((first, second))
    longer = max(shorter, room - shorter)
    if shorter + longer > room:
        shorter, longer = room // 2, room - room // 2
    return (shorter, longer) if first <= second else (longer, shorter)


def cut(ids: list[int], size: int, direction: Direction) -> list[int]:
    """Returns the first `size` ids, or the last `size` ids if the direction is `left`."""
    return ids[:size] if direction == "right" else ids[len(ids) - size :]


def read_pair_template(processor: Any, name: str) -> PairTemplate:
    """Returns the template of a post-processor.

    Args:
        processor: `post_processor` of a tokenizer.
        name: Name of the tokenizer's file, for error messages.

    Raises:
        CheckpointFormatError: The post-processor has no template of a pair.
    """
    try:
        found = _template(json.loads(processor.__getstate__()))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointFormatError(f"{name}: no template of a pair: {error}") from error
    if found is None:
        raise CheckpointFormatError(f"{name}: the post-processor has no template of a pair")
    return found


def _template(options: Mapping[str, Any]) -> PairTemplate | None:
    """Returns the pair template of a processor; None if the processor has no such template.

    In a sequence of processors, exactly one must have a template.
    """
    kind = options["type"]
    if kind == "Sequence":
        found = [template for each in options["processors"] if (template := _template(each))]
        return found[0] if len(found) == 1 else None
    if kind == "BertProcessing":
        return PairTemplate([options["cls"][1]], [options["sep"][1]], [options["sep"][1]], 1)
    if kind == "RobertaProcessing":
        return PairTemplate([options["cls"][1]], [options["sep"][1]] * 2, [options["sep"][1]], 0)
    if kind == "TemplateProcessing":
        return _of_pieces(options["pair"], options["special_tokens"])
    return None


def _of_pieces(pieces: Sequence[Mapping[str, Any]], special: Mapping[str, Any]) -> PairTemplate:
    parts: list[list[int]] = [[]]
    segments: list[int] = []
    for piece in pieces:
        if "Sequence" in piece:
            parts.append([])
            segments.append(piece["Sequence"]["type_id"])
        else:
            parts[-1] += special[piece["SpecialToken"]["id"]]["ids"]
    if len(parts) != 3:
        raise ValueError(f"the template has {len(parts) - 1} sequences, not 2")
    if segments not in ([0, 0], [0, 1]):
        raise ValueError(f"the types of the sequences are {segments}, not [0, 0] or [0, 1]")
    before, between, behind = parts
    return PairTemplate(before, between, behind, segments[1])
