"""Converts text to token ids and back with SentencePiece.

The module also finds the span of each token in the text.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, compress
from pathlib import Path
from typing import Any, Self

import sentencepiece

from model.errors import CheckpointFormatError
from model.regular_files import check_file

WORD_START = "\u2581"

Span = tuple[int, int]
"""Half-open range of code points: [start, end)."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The tokens of a text. EOS, the end-of-sentence token, is not among them.

    Attributes:
        ids: Vocabulary ids.
        pieces: Spelling of each id; WORD_START stands for the space before a word.
        offsets: Span of each token in the text. A span includes the space before its token.
    """

    ids: list[int]
    pieces: list[str]
    offsets: list[Span]


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text with its tokens, EOS included, for display.

    Attributes:
        text: The text that was tokenised, or the text that the ids decode to.
        ids: Vocabulary ids.
        pieces: Spelling of each id in the vocabulary.
        offsets: Span of each token in the text, without white space around the token. The starts of
            the spans never decrease, and their ends never decrease. Tokens that share a character
            (the pieces of a fraction sign, the bytes of an emoji) have the same span. A token of
            white space, or without text, has an empty span. The empty span of EOS is at the end of
            the text.
        special: Whether each token is a special token, such as EOS, and not text.
    """

    text: str
    ids: list[int]
    pieces: list[str]
    offsets: list[Span]
    special: list[bool]


class Tokenizer:
    """Tokenises with one SentencePiece vocabulary, whose file also holds the normaliser.

    The normaliser replaces or removes characters before a text is split into tokens.

    Args:
        path: A file of SentencePiece, such as `vocab.spm`.

    Attributes:
        vocab_size: Number of ids.
        eos_id: Id at the end of every text.
        unk_id: Id that stands for text without a piece in the vocabulary.
        hidden_ids: Ids that are left out of decoded text.
        prefix: Ids in front of the pieces of every text, such as the token of a language. In this
            class only `tokenize` adds them.
        known_characters: Characters of the vocabulary that `unknown_in` has met so far.
        unknown_characters: Characters that `unknown_in` has met and the vocabulary does not have.

    Raises:
        CheckpointFormatError: The file is damaged or has no EOS.
    """

    def __init__(self, path: Path) -> None:
        try:
            check_file(path)
            self.processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
            # This call raises an error if a piece is not valid UTF-8.
            self.processor.id_to_piece([*range(self.processor.vocab_size())])
        except (RuntimeError, OSError, UnicodeDecodeError) as error:
            raise CheckpointFormatError(f"{path.name} is not a SentencePiece model") from error
        self.vocab_size: int = self.processor.vocab_size()
        self.eos_id: int = self.processor.eos_id()
        self.unk_id: int = self.processor.unk_id()
        if self.eos_id < 0:
            raise CheckpointFormatError(f"{path.name} has no end-of-sentence token")
        self.hidden_ids: frozenset[int] = frozenset((self.eos_id, self.unk_id))
        self.prefix: list[int] = []
        self.known_characters: set[str] = set()
        self.unknown_characters: set[str] = set()

    def id_of(self, piece: str) -> int:
        """Returns the id of a piece; `unk_id` if the vocabulary does not have the piece."""
        number: int = self.processor.piece_to_id(piece)
        return number

    def before(self, token: str) -> Self:
        """Returns a copy of the tokenizer with `token` as the prefix; "" means no prefix."""
        other = copy(self)
        other.prefix = [self.id_of(token)] if token else []
        return other

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a text, without EOS.

        This class does not put the prefix in front of the ids, but `MappedTokenizer` does. The
        result is empty for white space alone.

        Args:
            text: The text, without lone surrogates.
        """
        ids: list[int] = self.processor.encode(text)
        return ids

    def unknown_in(self, text: str) -> set[str]:
        """Returns the characters of a text that the vocabulary does not have."""
        if self.known_characters.issuperset(text):  # this is faster than making a set
            return set()
        characters = set(text) - self.known_characters
        for character in characters - self.unknown_characters:
            is_unknown = self._is_unknown(character)
            (self.unknown_characters if is_unknown else self.known_characters).add(character)
        return characters & self.unknown_characters

    def _is_unknown(self, character: str) -> bool:
        is_surrogate = "\ud800" <= character <= "\udfff"
        return is_surrogate or self.unk_id in self.encode(character)

    def encode_with_offsets(self, text: str) -> Encoding:
        """Returns the ids of `encode` with their pieces and offsets."""
        return self._segment(text)

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids. EOS and unknown tokens are left out."""
        text: str = self.processor.decode([i for i in ids if i not in self.hidden_ids])
        return text

    def tokenize(self, text: str) -> TokenizedText:
        """Returns a text with the ids that the model reads, a prefix and EOS included.

        Args:
            text: The text, without lone surrogates.
        """
        encoding = self._segment(text)
        spans = [trim(text, span, self._is_blank) for span in encoding.offsets]
        shared = share(encoding.pieces, spans)
        ids = [*self.prefix, *encoding.ids, self.eos_id]
        return self._beside(text, ids, [*[None] * len(self.prefix), *shared, None])

    def detokenize(self, ids: list[int]) -> TokenizedText:
        """Returns ids that the model wrote, with the text that `decode` returns for them."""
        is_shown = [i not in self.hidden_ids for i in ids]
        mapping = self._join(list(compress(ids, is_shown)))
        text: str = mapping["text"]
        spans = [trim(text, span, str.isspace) for span in mapping["offsets"]]
        shared = iter(share(mapping["pieces"], spans))
        return self._beside(text, ids, [next(shared) if known else None for known in is_shown])

    def pieces(self, ids: list[int]) -> list[str]:
        """Returns the spelling of each id in the vocabulary."""
        return [self.processor.id_to_piece(i) for i in ids]

    def _segment(self, text: str) -> Encoding:
        """Returns the tokens of a text. The prefix is not among them."""
        mapping = self.processor.encode_as_offset_mapping(text)
        return Encoding(mapping["ids"], mapping["pieces"], mapping["offsets"])

    def _join(self, ids: list[int]) -> dict[str, Any]:
        """Returns the `text` of ids, and the `pieces` and `offsets` of these ids."""
        mapping: dict[str, Any] = self.processor.decode(ids, return_type="offset_mapping")
        return mapping

    def _is_special(self, token: int) -> bool:
        special: bool = self.processor.is_control(token)
        return special

    def _is_blank(self, char: str) -> bool:
        """Returns whether the normaliser turns a character into a space, or removes it."""
        if char.isalnum():
            return False
        normal: str = self.processor.normalize(char)
        return char.isspace() or not normal.strip(f" {WORD_START}")

    def _beside(self, text: str, ids: list[int], spans: list[Span | None]) -> TokenizedText:
        """Returns a text with its tokens.

        A token without a span gets an empty span where the next token starts, or at the end of the
        text.
        """
        places = []
        start = len(text)
        for span in reversed(spans):
            start, end = span or (start, start)
            places.append((start, end))
        places.reverse()
        ends = accumulate((end for _, end in places), max)
        offsets = [(start, end) for (start, _), end in zip(places, ends, strict=True)]
        special = [self._is_special(i) for i in ids]
        return TokenizedText(text, ids, self.pieces(ids), offsets, special)


def trim(text: str, span: Span, is_blank: Callable[[str], bool]) -> Span:
    """Returns a span without the blanks at its ends; a span of blanks alone becomes empty."""
    start, end = span
    while start < end and is_blank(text[start]):
        start += 1
    while start < end and is_blank(text[end - 1]):
        end -= 1
    return start, end


def share(pieces: list[str], spans: list[Span]) -> list[Span]:
    """Returns the spans of tokens. Tokens that share one character all get the character's span.

    SentencePiece gives this span only to the last of these tokens. It gives the others an empty
    span before the character.
    """
    shared = list(spans)
    following = (-1, -1)
    for i in reversed(range(len(spans))):
        if pieces[i].strip(WORD_START):
            start, end = spans[i]
            if start == end == following[0]:
                shared[i] = following
            following = shared[i]
    return shared
