"""Converts texts to token ids with the `tokenizer.json` of an embedding model.

If a text is much longer than the model's limit, only a part at its beginning (or its end) is
tokenised. A tokenizer splits a text into words, and then tokenises each word alone. So the tokens
of the part are those of the whole text, except for tokens near the cut, which are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import tokenizers
from tokenizers import Tokenizer, models, normalizers

from model.errors import CheckpointFormatError
from model.regular_files import check_file
from model.tokenization.tokenizer import Encoding, TokenizedText, trim

End = Literal["left", "right"]  # the side on which a text is cut

FIRST_CHARS = 8192  # of the first part that is tokenised; up to twice as many are one part
CHARS_PER_TOKEN = 8  # that the first attempt tokenises for each token that the caller needs
GROWTH = 4  # factor by which the part grows if it has too few tokens
MARGIN_CHARS = 1024
"""Number of characters next to a cut whose tokens are left out.

In a word that is longer, such as a sentence without spaces, tokens hardly ever depend on text that
is farther away. A run of one repeated character is an exception.
"""

PROBE_ID = 2**32 - 1  # stands for a text where special ids are searched; no vocabulary has it


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A truncated text with the ids that an embedding model reads, special tokens included."""

    tokenized: TokenizedText
    num_tokens: int  # before truncation
    is_exact: bool = True  # if not, `num_tokens` is a lower bound


class TextTokenizer:
    """Tokenises texts with the vocabulary, normaliser and special tokens of one file.

    A prompt can be put in front of a text. White space at both ends of the joined text is removed,
    as in sentence-transformers. Several threads may tokenise at the same time. A text of more than
    `max_tokens` tokens, special tokens included, is truncated at its end. `markers` are further ids
    before each text, behind the special tokens of the file.
    """

    def __init__(
        self,
        path: Path,
        max_tokens: int,
        is_lowercase: bool = False,
        has_special: bool = True,
        markers: Sequence[int] = (),
    ) -> None:
        try:
            check_file(path)
            self.tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises no narrower type
            raise CheckpointFormatError(f"{path} is not a tokenizer: {error}") from error
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        if is_lowercase:  # before the file's own normaliser
            own = [self.tokenizer.normalizer] if self.tokenizer.normalizer is not None else []
            self.tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
        processor = self.tokenizer.post_processor if has_special else None
        (before, behind), _ = split_template(processor, 1, str(path))
        self.special_ids = [*before, *markers], behind
        self.num_special_tokens = sum(map(len, self.special_ids))
        if max_tokens <= self.num_special_tokens:
            raise CheckpointFormatError(
                f"{path} adds {self.num_special_tokens} special tokens to a text, and the limit "
                f"is {max_tokens}"
            )
        self.max_tokens = max_tokens
        # Some added tokens, such as those for images, have ids beyond the weights. A text with one
        # of them is refused when its ids are checked.
        vocabulary = self.tokenizer.get_vocab(with_added_tokens=False)
        self.vocab_size = max(vocabulary.values(), default=-1) + 1

    def tokenize(self, text: str, around: tuple[list[int], list[int]] | None = None) -> TextTokens:
        """Puts the ids `around` in place of the model's special ids before and behind the text."""
        around = self.special_ids if around is None else around
        num_special = sum(map(len, around))
        room = self.max_tokens - num_special
        read, kept, is_exact = self._read(text.strip(), room)
        num_tokens = len(read.ids[kept]) + num_special
        first = Encoding(read.ids[:room], read.tokens[:room], read.offsets[:room])
        found = self._around(text, first, around)
        offsets = [trim(text, span, str.isspace) for span in found.offsets]
        return TextTokens(replace(found, offsets=offsets), num_tokens, is_exact)

    def split(self, text: str, add_special_tokens: bool = True) -> TokenizedText:
        """Returns all tokens of a text, however long it is."""
        read = self._encode(text.strip())
        pieces = self._pieces(read.ids)  # `<unk>` for an unknown token
        around = self.special_ids if add_special_tokens else ([], [])
        return self._around(text, Encoding(read.ids, pieces, read.offsets), around)

    def _around(
        self, text: str, read: Encoding, around: tuple[list[int], list[int]]
    ) -> TokenizedText:
        """Puts special ids around the tokens of a stripped text; moves the spans to the text."""
        shift = len(text) - len(text.lstrip())
        spans = [(first + shift, last + shift) for first, last in read.offsets]
        end = max((last for _, last in spans), default=0)
        before, behind = around
        return TokenizedText(
            text,
            [*before, *read.ids, *behind],
            [*self._pieces(before), *read.pieces, *self._pieces(behind)],
            [*[(0, 0)] * len(before), *spans, *[(end, end)] * len(behind)],
            [True] * len(before) + [False] * len(spans) + [True] * len(behind),
        )

    def _pieces(self, ids: list[int]) -> list[str]:
        return [str(self.tokenizer.id_to_token(each)) for each in ids]

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        around = {*chain.from_iterable(self.special_ids)} if skip_special_tokens else ()
        # The file need not mark the ids of `around` as special, so they are removed here.
        kept = [each for each in ids if each not in around]
        text: str = self.tokenizer.decode(kept, skip_special_tokens=skip_special_tokens)
        return text

    def encode(
        self, prompt: str, text: str, wanted: int | None = None, end: End = "right"
    ) -> tuple[list[int], bool]:
        """Returns the ids of a prompt and a text, without special tokens, and whether they are all.

        If ids are missing on the side `end`, there are still more than the caller wants.
        """
        read, kept, is_all = self._read((prompt + text).strip(), wanted, end, has_spans=False)
        return read.ids[kept], is_all

    def _read(
        self, text: str, wanted: int | None = None, end: End = "right", has_spans: bool = True
    ) -> tuple[tokenizers.Encoding, slice, bool]:
        """Returns tokens without special tokens, the range to keep, and whether they are all.

        If `wanted` tokens are enough, a part at one end of the text is tried, then larger parts.
        Each part is shorter than half the text. Spans in a part cut on the left count from its cut.
        """
        size = max(FIRST_CHARS, CHARS_PER_TOKEN * (wanted or 0))
        while wanted is not None and 2 * size < len(text):
            part = text[:size].rstrip() if end == "right" else text[-size:].lstrip()
            read = self._encode(part)
            if end == "right":
                edge = len(part) - MARGIN_CHARS
                kept = slice(sum(last <= edge for _, last in read.offsets))
            else:
                kept = slice(sum(first < MARGIN_CHARS for first, _ in read.offsets), None)
            if len(read.ids[kept]) > wanted:
                return read, kept, False
            size *= GROWTH
        return self._encode(text, has_spans), slice(None), True

    def _encode(self, text: str, has_spans: bool = True) -> tokenizers.Encoding:
        # A batch, because `Tokenizer.encode` blocks other threads. Without spans, it takes a
        # seventh less time.
        encode = self.tokenizer.encode_batch if has_spans else self.tokenizer.encode_batch_fast
        (encoding,) = encode([text], add_special_tokens=False)
        return encoding


def split_template(processor: Any, num_texts: int, name: str) -> tuple[list[list[int]], list[int]]:
    """Returns the special ids that a post-processor puts before, between and behind texts.

    The second list has the type id of each text. Messages contain `name`.
    """
    probe = Tokenizer(models.WordLevel({"a": PROBE_ID}, unk_token="a"))
    if processor is not None:
        probe.post_processor = processor
    found = probe.encode("a", "a" if num_texts == 2 else None)
    parts: list[list[int]] = [[]]
    types = []
    for number, type_id in zip(found.ids, found.type_ids, strict=True):
        if number == PROBE_ID:
            parts.append([])
            types.append(type_id)
        else:
            parts[-1].append(number)
    texts = [number for number in found.sequence_ids if number is not None]
    if texts != [*range(num_texts)] or len(types) != num_texts:
        raise CheckpointFormatError(
            f"{name}: unsupported post-processor: it does not put special tokens around each text, "
            "once and in order"
        )
    return parts, types
