"""Converts texts to token ids with the `tokenizer.json` of an embedding model.

If a text is much longer than the model's limit, only a part at its beginning (or its end) is
tokenised. This part has more tokens than the limit. Tokens next to the cut may depend on the rest
of the text, and are not kept. All other tokens are called stable; see `stable_prefix.py`.
"""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tokenizers import Encoding, Tokenizer, normalizers

from model.errors import CheckpointFormatError
from model.regular_files import check_file
from model.tokenization.cut_words import MARGIN_CHARS, CutWords, End
from model.tokenization.special_ids import read_special_ids
from model.tokenization.stable_prefix import is_open_edge, num_before, num_stable
from model.tokenization.tokenizer import Span, TokenizedText, trim

FIRST_CHARS = 8192
"""Smallest number of characters in the part of a text that the first attempt tokenises.

A text of at most twice this length is always tokenised whole.
"""

CHARS_PER_TOKEN = 8
"""Number of characters that the first attempt tokenises for each token that the caller needs."""

SPARE_TOKENS = 256
"""Number of additional tokens that are examined in a cut word.

A cut word continues beyond the cut, so some of its tokens are not stable. With the additional
tokens, enough stable tokens usually remain.
"""

GROWTH = 4
"""Factor by which the part grows after an attempt that finds too few stable tokens.

The search for stable tokens in a cut word tokenises at most `len(text) // GROWTH` characters.
"""


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A text with the ids that an embedding model reads, special tokens included.

    Attributes:
        tokenized: The tokens that remain after truncation. Spans are positions in the text without
            its prompt, and do not include white space around a token. Special tokens and tokens of
            a prompt have an empty span, before the text or at the end of the kept text.
        num_tokens: Number of tokens before truncation; a lower bound if `is_exact` is False.
        is_exact: Whether all tokens were counted.
    """

    tokenized: TokenizedText
    num_tokens: int
    is_exact: bool = True

    @property
    def is_truncated(self) -> bool:
        return self.num_tokens > len(self.tokenized.ids)


class TextTokenizer:
    """Tokenises texts with the vocabulary, normaliser and special tokens of one file.

    A prompt can be put in front of a text. White space at both ends of the joined text is removed,
    as in sentence-transformers. Several threads may tokenise at the same time.

    Args:
        path: A `tokenizer.json` of Hugging Face.
        max_tokens: Largest number of tokens of a text, special tokens included. A longer text is
            truncated at its end.
        is_lowercase: Whether texts are lowercased, even if the file does not ask for it.

    Attributes:
        special_ids: The ids in front of every text, and the ids behind every text.

    Raises:
        CheckpointFormatError: The file is damaged, its post-processor is not supported, or its
            special tokens alone reach `max_tokens`.
    """

    def __init__(self, path: Path, max_tokens: int, is_lowercase: bool = False) -> None:
        try:
            check_file(path)
            self.tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises no narrower type
            raise CheckpointFormatError(f"{path} is not a tokenizer: {error}") from error
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        if is_lowercase:
            self._lower()
        self.special_ids = read_special_ids(self.tokenizer, str(path))
        self.num_special_tokens = sum(map(len, self.special_ids))
        if max_tokens <= self.num_special_tokens:
            raise CheckpointFormatError(
                f"{path} adds {self.num_special_tokens} special tokens to a text, and the limit "
                f"is {max_tokens}"
            )
        self.tokenizer.enable_truncation(max_tokens)
        self.max_tokens = max_tokens
        vocabulary = self.tokenizer.get_vocab()
        self.vocab_size = max(vocabulary.values(), default=-1) + 1
        self.cut_words = CutWords(self.tokenizer, max(map(len, vocabulary), default=0))

    def _lower(self) -> None:
        """Makes the tokenizer lowercase texts before the file's own normaliser runs.

        Offsets still refer to the text with its original letters.
        """
        own = self.tokenizer.normalizer
        steps = [normalizers.Lowercase(), *([own] if own is not None else [])]
        self.tokenizer.normalizer = normalizers.Sequence(steps)

    def tokenize(self, text: str, prompt: str = "") -> TextTokens:
        """Returns the tokens of a prompt and a text.

        Args:
            text: The text, without lone surrogates.
            prompt: Text that is put in front of `text`.
        """
        whole = prompt + text
        stripped = whole.strip()
        part, ids = self._stable_part(stripped, self.max_tokens - self.num_special_tokens, "right")
        encoding = self._encode(stripped if part is None else part)
        shift = len(whole) - len(whole.lstrip()) - len(prompt) if stripped else 0
        special = [mask == 1 for mask in encoding.special_tokens_mask]
        spans = places(encoding.offsets, special, shift)
        offsets = [trim(text, span, str.isspace) for span in spans]
        tokenized = TokenizedText(text, encoding.ids, encoding.tokens, offsets, special)
        if part is not None:
            return TextTokens(tokenized, len(ids) + self.num_special_tokens, is_exact=False)
        cut = sum(len(part.ids) - self.num_special_tokens for part in encoding.overflowing)
        return TextTokens(tokenized, len(encoding.ids) + cut)

    def split(self, text: str, add_special_tokens: bool = True) -> TokenizedText:
        """Returns all tokens of a text, however long it is.

        Args:
            text: The text, without lone surrogates.
            add_special_tokens: Whether the special tokens around a text are returned too. Their
                spans are empty.
        """
        stripped = text.strip()
        shift = len(text) - len(text.lstrip()) if stripped else 0
        parts = parted(self._encode(stripped, add_special_tokens=False))
        before, behind = self.special_ids if add_special_tokens else ([], [])
        num_inside = sum(len(part.ids) for part in parts)
        special = [True] * len(before) + [False] * num_inside + [True] * len(behind)
        ids = [*before, *chain.from_iterable(part.ids for part in parts), *behind]
        inside = list(chain.from_iterable(part.offsets for part in parts))
        spans = [*[(0, 0)] * len(before), *inside, *[(0, 0)] * len(behind)]
        pieces = [str(self.tokenizer.id_to_token(each)) for each in ids]
        return TokenizedText(text, ids, pieces, places(spans, special, shift), special)

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        """Returns the text of ids, without the special tokens if `skip_special_tokens` is true."""
        around = {*chain.from_iterable(self.special_ids)} if skip_special_tokens else ()
        # The file need not mark the ids of `around` as special, so they are removed here.
        kept = [each for each in ids if each not in around]
        text: str = self.tokenizer.decode(kept, skip_special_tokens=skip_special_tokens)
        return text

    def encode(
        self, prompt: str, text: str, wanted: int | None = None, end: End = "right"
    ) -> tuple[list[int], bool]:
        """Returns the ids of a prompt and a text, without special tokens.

        The second result is False if ids are missing because only a part was tokenised.

        Args:
            prompt: Text that is put in front of `text`.
            text: The text, without lone surrogates.
            wanted: Number of ids that the caller needs; None if the caller needs all ids. If ids
                are missing, the result still has more ids than this number.
            end: With `right`, ids may be missing behind the returned ids. With `left`, they may be
                missing in front of the returned ids.
        """
        stripped = (prompt + text).strip()
        if wanted is not None:
            part, ids = self._stable_part(stripped, wanted, end)
            if part is not None:
                return ids, False
        parts = parted(self._encode(stripped, add_special_tokens=False))
        return list(chain.from_iterable(part.ids for part in parts)), True

    def _stable_part(self, text: str, wanted: int, end: End) -> tuple[str | None, list[int]]:
        """Returns a part at the beginning or the end of a text, and the stable ids of the part.

        Stable ids do not depend on the rest of the text. Each part that is tried is shorter than
        half the text. If no such part has more than `wanted` stable ids, the method returns None
        and no ids.

        Args:
            text: The whole text.
            wanted: Number of ids that the caller needs.
            end: `right` for a part at the beginning, which is cut on the right. `left` for a part
                at the end, which is cut on the left.
        """
        size = max(FIRST_CHARS, CHARS_PER_TOKEN * wanted)
        while 2 * size < len(text):
            part = text[:size].rstrip() if end == "right" else text[-size:].lstrip()
            ids = self._stable_ids(part, wanted, end, len(text) // GROWTH)
            if len(ids) > wanted:
                return part, ids
            size *= GROWTH
        return None, []

    def _stable_ids(self, part: str, wanted: int, end: End, max_chars: int) -> list[int]:
        """Returns the stable ids of a part of a text.

        Args:
            part: The beginning of the text if `end` is `right`; the end of the text if `end` is
                `left`.
            wanted: Number of ids that the caller needs.
            end: Side on which the part is cut.
            max_chars: Largest number of characters to tokenise in search of the stable tokens of a
                cut word.
        """
        if is_open_edge(part[-MARGIN_CHARS:] if end == "right" else part[:MARGIN_CHARS], end):
            return []
        parts = parted(self._encode(part, add_special_tokens=False))
        step = 1 if end == "right" else -1  # a part that is cut on the left is read backwards
        ids = [each for part in parts for each in part.ids][::step]
        words = [each for part in parts for each in part.word_ids][::step]
        tokens = [each for part in parts for each in part.tokens][::step]
        spans = [each for part in parts for each in part.offsets][::step]
        edges = [last if end == "right" else len(part) - first for first, last in spans]
        stable = num_stable(edges, words, len(part))
        last = next((n for n in range(stable, len(ids)) if words[n] != words[stable]), len(ids))
        if stable <= wanted and stable < last:
            most = min(num_before(edges, len(part) - MARGIN_CHARS), wanted + SPARE_TOKENS) - stable
            word = slice(stable, last)
            stable += self.cut_words.num_stable(
                tokens[word][::step], ids[word][::step], end, most, max_chars
            )
        return ids[:stable][::step]

    def _encode(self, text: str, add_special_tokens: bool = True) -> Encoding:
        """Tokenises with `encode_batch`, because `Tokenizer.encode` blocks other threads."""
        (encoding,) = self.tokenizer.encode_batch([text], add_special_tokens=add_special_tokens)
        return encoding


def parted(encoding: Encoding) -> list[Encoding]:
    """Returns the kept tokens of a text, followed by the tokens that truncation cut off."""
    return [encoding, *encoding.overflowing]


def places(offsets: list[Span], special: list[bool], shift: int) -> list[Span]:
    """Returns spans moved by `shift`. Special tokens and the prompt's tokens get empty spans."""
    shifted = []
    end = 0
    for (first, last), is_special in zip(offsets, special, strict=True):
        span = (end, end) if is_special else (max(0, first + shift), max(0, last + shift))
        shifted.append(span)
        end = max(end, span[1])
    return shifted
