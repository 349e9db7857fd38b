"""Converts texts to the ids of an embedding model, by a Hugging Face `tokenizer.json`.

If a text is much longer than the model's limit, only its beginning (or its end) is tokenised. This
part is longer than the limit, so that the kept tokens do not depend on the rest of the text
(`stable_prefix.py`).
"""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tokenizers import Encoding, Tokenizer, normalizers

from model.errors import CheckpointFormatError
from model.tokenization.cut_words import MARGIN_CHARS, CutWords, End
from model.tokenization.special_ids import read_special_ids
from model.tokenization.stable_prefix import is_open_edge, num_before, num_stable
from model.tokenization.tokenizer import Span, TokenizedText, trim

FIRST_CHARS = 8192
"""Least number of characters in the part that is tokenised first.

A text of at most twice this length is always tokenised whole.
"""

CHARS_PER_TOKEN = 8
"""Characters in the part that is tokenised first, for each wanted token."""

GROWTH = 4
"""Factor by which the part grows if it has too few stable tokens."""

SPARE_TOKENS = 256
"""Tokens of a cut word that are examined beyond the wanted number, so that enough are stable."""


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A text with the ids that an embedding model reads, special tokens included.

    Attributes:
        tokenized: The tokens after cutting. Spans are in the given text, without white space
            around them. Special tokens and tokens of a prompt have an empty span: before the text,
            or at the end of the kept text.
        num_tokens: Number of tokens before cutting; a lower bound if `is_exact` is false.
        is_exact: Whether all tokens were counted.
    """

    tokenized: TokenizedText
    num_tokens: int
    is_exact: bool = True

    @property
    def is_truncated(self) -> bool:
        """Returns whether tokens were cut off."""
        return self.num_tokens > len(self.tokenized.ids)


class TextTokenizer:
    """One vocabulary with its normaliser and its special tokens.

    White space around a text and its prompt is removed, as in sentence-transformers. Several
    threads may tokenise at once.

    Args:
        path: A `tokenizer.json`.
        max_tokens: Largest number of tokens of a text, special ones included. Further tokens are
            cut off at its end.
        is_lowercase: Whether texts are lowercased, whatever the file says.

    Attributes:
        special_ids: Ids in front of every text, and ids behind it.

    Raises:
        CheckpointFormatError: The file is damaged, or leaves no room for text.
    """

    def __init__(self, path: Path, max_tokens: int, is_lowercase: bool = False) -> None:
        try:
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
        """Lowercases before the file's own normaliser. Offsets still refer to the given text."""
        own = self.tokenizer.normalizer
        steps = [normalizers.Lowercase(), *([own] if own is not None else [])]
        self.tokenizer.normalizer = normalizers.Sequence(steps)

    def tokenize(self, text: str, prompt: str = "") -> TextTokens:
        """Returns the tokens of a prompt and a text.

        Args:
            text: Without lone surrogates.
            prompt: Prefix of the text.
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
            text: Without lone surrogates.
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
        """Returns the text of ids of the vocabulary."""
        around = {*chain.from_iterable(self.special_ids)} if skip_special_tokens else ()
        kept = [each for each in ids if each not in around]  # a file need not mark them as special
        text: str = self.tokenizer.decode(kept, skip_special_tokens=skip_special_tokens)
        return text

    def encode(
        self, prompt: str, text: str, wanted: int | None = None, end: End = "right"
    ) -> tuple[list[int], bool]:
        """Returns the ids of a prompt and a text without special tokens, and whether these are all.

        Args:
            prompt: Prefix of the text.
            text: Without lone surrogates.
            wanted: Number of ids that the caller needs; None for all. The result has more ids than
                this number, or all.
            end: Where ids may be missing: behind the returned ones (`right`), or in front of them
                (`left`).
        """
        stripped = (prompt + text).strip()
        if wanted is not None:
            part, ids = self._stable_part(stripped, wanted, end)
            if part is not None:
                return ids, False
        parts = parted(self._encode(stripped, add_special_tokens=False))
        return list(chain.from_iterable(part.ids for part in parts)), True

    def _stable_part(self, text: str, wanted: int, end: End) -> tuple[str | None, list[int]]:
        """Returns one end of a text and its stable ids, which are more than `wanted` ids.

        Stable ids are ids of the whole text too. If no end of at most half the text has enough of
        them, the method returns None and no ids.
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
        """Returns the ids at one end of a text that do not depend on the rest of it.

        Args:
            part: That end of the text, cut at its other end.
            wanted: Number of ids that the caller needs.
            end: The end at which the text is cut.
            max_chars: Characters to tokenise at most for the stable tokens of a cut word.
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
        """Tokenises with `encode_batch`, because `Tokenizer.encode` lets no other thread run."""
        (encoding,) = self.tokenizer.encode_batch([text], add_special_tokens=add_special_tokens)
        return encoding


def parted(encoding: Encoding) -> list[Encoding]:
    """Returns the kept tokens of a text and the ones that were cut off, in their order."""
    return [encoding, *encoding.overflowing]


def places(offsets: list[Span], special: list[bool], shift: int) -> list[Span]:
    """Returns spans shifted into the text; tokens that are not in the text get an empty span."""
    shifted = []
    end = 0
    for (first, last), is_special in zip(offsets, special, strict=True):
        span = (end, end) if is_special else (max(0, first + shift), max(0, last + shift))
        shifted.append(span)
        end = max(end, span[1])
    return shifted
