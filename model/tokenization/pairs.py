"""Converts pairs of a query and a text to the token ids that a cross-encoder reads.

Some cross-encoders add a vector of its segment to each id. Segment 0 consists of the ids before the
text, and segment 1 of all other ids. With some tokenizers, all ids are in segment 0.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from model.errors import CheckpointFormatError
from model.tokenization.text import End, TextTokenizer, TextTokens, split_template
from model.tokenization.tokenizer import Span, TokenizedText

Inputs = tuple[str] | tuple[str, str]  # one text, or a pair of a query and a text


Tokens = tuple[list[int], bool]  # the ids of a text, and whether they are all of its ids


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


@dataclass(frozen=True, slots=True)
class PairText(TokenizedText):
    """A pair for display, as one text: query, line break and document; or a whole prompt."""

    segment_start: int  # as in `TokenizedPair`
    query: Span  # in `text`
    document: Span

    @property
    def parts(self) -> list[Literal["query", "document"] | None]:
        """The part of each token; None for special tokens, and for the tokens of a prompt."""
        spans = zip(self.offsets, self.special, strict=True)
        starts = [-1 if is_special else start for (start, _), is_special in spans]
        query, document = range(*self.query), range(*self.document)
        return ["query" if at in query else "document" if at in document else None for at in starts]


class PairTokenizer:
    """Tokenises pairs of at most `max_tokens` tokens, special tokens included.

    The post-processor of `tokenizer` gives the special tokens. With `has_segments` False, all ids
    of a pair are in segment 0, whatever the template says. Messages contain `name`.
    """

    def __init__(
        self, tokenizer: TextTokenizer, max_tokens: int, name: str, has_segments: bool = True
    ) -> None:
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        # Special ids before the query, between query and text, and behind the text.
        self.special, types = split_template(tokenizer.tokenizer.post_processor, 2, name)
        if types not in ([0, 0], [0, 1]):
            raise CheckpointFormatError(
                f"{name}: the types of the texts of a pair are {types}, not [0, 0] or [0, 1]"
            )
        self.has_segments = has_segments and types == [0, 1]
        self.num_special = sum(map(len, self.special))
        if self.num_special + 2 > max_tokens:
            raise CheckpointFormatError(
                f"{name} adds {self.num_special} special tokens to a pair, and the limit is "
                f"{max_tokens}"
            )

    def tokenize(
        self, inputs: Sequence[Inputs], limit: int = sys.maxsize, end: End = "right"
    ) -> list[TokenizedPair]:
        """Tokenises each text, or each pair; a pair that is too long is truncated.

        Args:
            inputs: Texts, each alone or after its query.
            limit: Number of tokens to which each text is cut first, beside the query.
            end: Side on which texts are cut.
        """

        @cache
        def encode(text: str) -> Tokens:
            # Of a very long text, only a part is tokenised, which has more than `max_tokens` ids.
            return self.tokenizer.encode("", text, self.max_tokens, end)

        def document(text: str) -> Tokens:
            ids, is_exact = encode(text)
            return (cut(ids, limit, end), True) if len(ids) > limit else (ids, is_exact)

        return [
            self._pair(encode(each[0]), document(each[1]), end)
            if len(each) == 2
            else self._single(document(each[0]), end)
            for each in inputs
        ]

    def _pair(self, query: Tokens, text: Tokens, end: End) -> TokenizedPair:
        """Joins query and text. If they are too long, the longer one is truncated first."""
        before, between, behind = self.special
        lengths = len(query[0]), len(text[0])
        sizes = longest_first(*lengths, self.max_tokens - self.num_special)
        first, second = cut(query[0], sizes[0], end), cut(text[0], sizes[1], end)
        opening = [*before, *first, *between]
        ids = [*opening, *second, *behind]
        segment_start = len(opening) if self.has_segments else len(ids)
        num_tokens = sum(lengths) + self.num_special
        return TokenizedPair(ids, segment_start, num_tokens, query[1] and text[1])

    def show(self, query: str, text: str) -> TextTokens:
        """Tokenises a pair for display; `num_tokens` tells whether the pair is too long."""
        (before, between, behind), shift = self.special, len(query) + 1
        first = self.tokenizer.tokenize(query, (before, between))
        last = self.tokenizer.tokenize(text, ([], behind))
        one, other = first.tokenized, last.tokenized
        ids = [*one.ids, *other.ids]
        shown = PairText(
            f"{query}\n{text}",
            ids,
            [*one.pieces, *other.pieces],
            [*one.offsets, *((start + shift, end + shift) for start, end in other.offsets)],
            [*one.special, *other.special],
            len(one.ids) if self.has_segments else len(ids),
            (0, len(query)),
            (shift, shift + len(text)),
        )
        num_tokens = first.num_tokens + last.num_tokens
        return TextTokens(shown, num_tokens, first.is_exact and last.is_exact)

    def _single(self, text: Tokens, end: End) -> TokenizedPair:
        before, behind = self.tokenizer.special_ids
        num_special = len(before) + len(behind)
        kept = cut(text[0], min(len(text[0]), self.max_tokens - num_special), end)
        ids = [*before, *kept, *behind]
        return TokenizedPair(ids, len(ids), len(text[0]) + num_special, text[1])


class PromptedPairTokenizer:
    """Tokenises a query and a text within the prompt of a language model.

    Of a pair that is too long, the end of the text is cut, so that the prompt stays whole. A pair
    has at most `max_tokens` tokens, those of the prompt included. `prompt` has its parts before the
    query, between query and text, and after the text. The last part begins with a token of its own,
    so that it does not change the tokens before. Messages contain `name`.
    """

    def __init__(
        self, tokenizer: TextTokenizer, max_tokens: int, prompt: tuple[str, str, str], name: str
    ) -> None:
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        self.opening, self.between, closing = prompt
        read = tokenizer.tokenizer.encode(closing, add_special_tokens=False)
        self.closing: list[int] = read.ids
        if not closing.startswith(read.tokens[0]) or len(read.tokens[0]) < 2:
            raise CheckpointFormatError(f"{name} has no token for the beginning of {closing!r}")

    def tokenize(
        self, inputs: Sequence[Inputs], limit: int = sys.maxsize, end: End = "right"
    ) -> list[TokenizedPair]:
        return [self._tokenize(each, limit, end) for each in inputs]

    def show(self, query: str, text: str) -> TextTokens:
        head, start = f"{self.opening}{query}{self.between}", len(self.opening)
        found = self.tokenizer.tokenize(head + text, ([], self.closing))
        read, spans = found.tokenized, ((start, start + len(query)), (len(head), len(head + text)))
        values = read.text, read.ids, read.pieces, read.offsets, read.special
        shown = PairText(*values, len(read.ids), *spans)
        return TextTokens(shown, found.num_tokens, found.is_exact)

    def _tokenize(self, inputs: Inputs, limit: int, end: End) -> TokenizedPair:
        *queries, text = inputs
        # A text without a query is read as it is; a client may have put a prompt around it.
        head = "".join([f"{self.opening}{query}{self.between}" for query in queries])
        closing = self.closing if queries else []
        encode, room = self.tokenizer.encode, self.max_tokens - len(closing)
        ids, is_exact = encode(head, text, room)
        num_tokens = len(ids)
        if num_tokens > min(room, limit):
            first, _ = encode(head, "")
            num_tokens = min(num_tokens, len(first) + limit)
            size = min(room, num_tokens)
            is_exact = is_exact or num_tokens < len(ids)
            ids = ids[:size]
            if end == "left" and size > len(first):
                last, _ = encode("", text, size, end)
                ids = [*first, *last[len(first) - size :]]
        ids = [*ids, *closing]
        return TokenizedPair(ids, len(ids), num_tokens + len(closing), is_exact)


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
