"""Converts texts to token ids with the `tokenizer.json` of an embedding model.

If a text is much longer than the model's limit, only a part at its beginning (or its end) is
tokenised. Only the stable tokens of the part are kept, which the whole text has in the same
place. A tokenizer splits a text into words, by rules that look at a few neighbouring characters,
and then tokenises each word alone. So the tokens of all words are stable, except for the few words
next to the cut. `cut_words` finds the stable tokens of a word that continues beyond the cut.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import Encoding, Tokenizer, normalizers

from model.errors import CheckpointFormatError
from model.regular_files import check_file
from model.tokenization.cut_words import MARGIN_CHARS, CutWords, End
from model.tokenization.tokenizer import Span, TokenizedText, trim

FIRST_CHARS = 8192
"""Number of characters in the first part that is tokenised; up to twice as many are one part."""

CHARS_PER_TOKEN = 8
"""Number of characters that the first attempt tokenises for each token that the caller needs."""

SPARE_TOKENS = 256
"""Number of additional tokens that are examined in a cut word, as some are not stable."""

GROWTH = 4
"""Factor by which the part grows; a cut word may tokenise `len(text) // GROWTH` characters."""


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A text with the ids that an embedding model reads, special tokens included.

    `tokenized` holds the tokens that remain after truncation. Its spans are positions in the text
    without a prompt, and do not include white space around a token. Special tokens and tokens of a
    prompt have an empty span. `num_tokens`, the number before truncation, is a lower bound if
    `is_exact` is False, because not all tokens were counted.
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
    """

    def __init__(self, path: Path, max_tokens: int, is_lowercase: bool = False) -> None:
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

    def tokenize(self, text: str, prompt: str = "") -> TextTokens:
        """Returns the tokens of a prompt and a text. The text has no lone surrogates."""
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
        """Returns all tokens of a text, however long it is. Special tokens have empty spans."""
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
        """Returns the ids of a prompt and a text, without special tokens, and whether they are all.

        Args:
            prompt: Text that is put in front of `text`.
            text: The text, without lone surrogates.
            wanted: Number of ids that the caller needs; None for all. If ids are missing, the
                result still has more ids than this number.
            end: Side on which ids may be missing.
        """
        stripped = (prompt + text).strip()
        if wanted is not None:
            part, ids = self._stable_part(stripped, wanted, end)
            if part is not None:
                return ids, False
        parts = parted(self._encode(stripped, add_special_tokens=False))
        return list(chain.from_iterable(part.ids for part in parts)), True

    def _stable_part(self, text: str, wanted: int, end: End) -> tuple[str | None, list[int]]:
        """Returns a part at one end of a text, and its more than `wanted` stable ids.

        Each part that is tried is shorter than half the text. `end` is the side on which the part
        is cut. If no such part has enough stable ids, the method returns None and no ids.
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
        """Returns the stable ids of a part that is cut at `end`.

        At most `max_chars` characters are tokenised in search of the stable tokens of a cut word.
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
        # `encode_batch`, because `Tokenizer.encode` blocks other threads
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


def read_special_ids(tokenizer: Tokenizer, name: str) -> tuple[list[int], list[int]]:
    """Returns the special ids before and behind a text, from the post-processor of a tokenizer."""
    processor = tokenizer.post_processor
    if processor is None:
        return [], []
    try:
        return _around(json.loads(processor.__getstate__()))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointFormatError(f"{name}: unsupported post-processor: {error}") from error


def _around(options: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    kind = options["type"]
    if kind == "ByteLevel":  # this processor only changes offsets
        return [], []
    if kind in ("BertProcessing", "RobertaProcessing"):
        return [options["cls"][1]], [options["sep"][1]]
    if kind == "TemplateProcessing":
        parts, types = split_template(options["single"], options["special_tokens"])
        if len(types) != 1:
            raise ValueError(f"its template names the text {len(types)} times")
        return parts[0], parts[1]
    if kind != "Sequence":
        raise ValueError(f"its type is {kind!r}")
    found = [ids for ids in map(_around, options["processors"]) if ids != ([], [])]
    if len(found) > 1:
        raise ValueError(f"{len(found)} of its parts put ids around a text")
    return found[0] if found else ([], [])


def split_template(
    pieces: Sequence[Mapping[str, Any]], special: Mapping[str, Any]
) -> tuple[list[list[int]], list[int]]:
    parts: list[list[int]] = [[]]
    types = []
    for piece in pieces:
        if "Sequence" in piece:
            parts.append([])
            types.append(piece["Sequence"]["type_id"])
        else:
            parts[-1] += special[piece["SpecialToken"]["id"]]["ids"]
    return parts, types


MARGIN_WORDS = 4
"""Number of words next to a cut whose tokens may change, as a normaliser may join words."""


def is_open_edge(edge: str, cut: End) -> bool:
    """Returns whether the tokens next to a cut may depend on text far beyond the cut.

    This is the case if all characters in `edge`, next to the cut, are combining marks: normalisers
    sort a run of marks by their class. At a cut on the left, it is also the case if all are
    numeric. Some tokenizers split a number into groups of three digits, from its left end.
    """
    return all(map(unicodedata.combining, edge)) or (cut == "left" and edge.isnumeric())


def num_stable(edges: Sequence[int], words: Sequence[int | None], size: int) -> int:
    """Returns how many tokens stand in stable words, counted from the uncut end of the text.

    `edges` and `words` list the tokens from the uncut end: the distance of their far edge from that
    end, and the index of their word. `size` is the distance of the cut.
    """
    number = num_before(edges, size - MARGIN_CHARS)
    return min(_back_to_word(number, words), _without_last(words, MARGIN_WORDS))


def num_before(edges: Sequence[int], place: int) -> int:
    """Returns how many tokens stand before the first token that reaches beyond a place."""
    return next((number for number, edge in enumerate(edges) if edge > place), len(edges))


def _back_to_word(number: int, words: Sequence[int | None]) -> int:
    """Returns the index of the first token of the word that contains token `number`."""
    while 0 < number < len(words) and words[number - 1] == words[number] is not None:
        number -= 1
    return number


def _without_last(words: Sequence[int | None], count: int) -> int:
    number = len(words)
    for _ in range(count):
        number = _back_to_word(max(0, number - 1), words)
    return number
