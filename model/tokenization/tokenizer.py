"""Text to token ids and back, with the place of every token in the text."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, compress
from pathlib import Path
from typing import Any, Self

import sentencepiece

from model.errors import CheckpointFormatError

WORD_START = "\u2581"

Span = tuple[int, int]
"""[start, end)."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text as tokens, EOS not among them.

    Attributes:
        ids: Vocabulary ids.
        pieces: Their surface in the vocabulary; WORD_START stands for the space before a word.
        offsets: Where each lies in the text, in code points, the space before it included.
    """

    ids: list[int]
    pieces: list[str]
    offsets: list[Span]


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text beside its tokens, EOS among them, for people to read.

    Attributes:
        text: As it was given or, where ids were decoded, as it is shown.
        ids: Vocabulary ids.
        pieces: The vocabulary's own spelling of the ids.
        offsets: Where each lies in the text, in code points, without the white space around it.
            Neither starts nor ends ever fall. Tokens that share a character (the pieces of a
            fraction sign, the bytes of an emoji) have the same place. A token that stands for
            white space, or for nothing, has an empty place; EOS that of the text's end.
        special: Whether a token is a sign to the model (EOS) and not text.
    """

    text: str
    ids: list[int]
    pieces: list[str]
    offsets: list[Span]
    special: list[bool]


class Tokenizer:
    """One SentencePiece vocabulary; its normaliser is inside the file.

    Args:
        path: A `.spm` file.

    Attributes:
        vocab_size: Number of ids.
        eos_id: Ends every text.
        unk_id: Stands for what the vocabulary has no piece for.
        hidden_ids: Those that leave no trace in a text.
        prefix: What stands before the tokens of every text, to tell the model its language.

    Raises:
        CheckpointFormatError: The file is damaged or has no EOS.
    """

    def __init__(self, path: Path) -> None:
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (RuntimeError, OSError) as error:
            raise CheckpointFormatError(f"{path.name} is not a SentencePiece model") from error
        self.vocab_size: int = self.processor.vocab_size()
        self.eos_id: int = self.processor.eos_id()
        self.unk_id: int = self.processor.unk_id()
        if self.eos_id < 0:
            raise CheckpointFormatError(f"{path.name} has no end-of-sentence token")
        self.hidden_ids: frozenset[int] = frozenset((self.eos_id, self.unk_id))
        self.prefix: list[int] = []

    def id_of(self, piece: str) -> int:
        """The id of a piece of the vocabulary."""
        number: int = self.processor.piece_to_id(piece)
        return number

    def before(self, token: str) -> Self:
        """The same vocabulary, with a token of a language put before every text; or with none."""
        other = copy(self)
        other.prefix = [self.id_of(token)] if token else []
        return other

    def encode(self, text: str) -> list[int]:
        """The ids of a text without EOS; none for white space alone.

        Args:
            text: Without lone surrogates.
        """
        ids: list[int] = self.processor.encode(text)
        return ids

    def encode_with_offsets(self, text: str) -> Encoding:
        """The same ids, with pieces and code point offsets."""
        return self._segment(text)

    def decode(self, ids: list[int]) -> str:
        """The text of ids; EOS and unknown tokens leave no trace."""
        text: str = self.processor.decode([i for i in ids if i not in self.hidden_ids])
        return text

    def tokenize(self, text: str) -> TokenizedText:
        """A text as a model gets it: the ids of `encode`, and EOS.

        Args:
            text: Without lone surrogates.
        """
        encoding = self._segment(text)
        spans = [trim(text, span, self._is_blank) for span in encoding.offsets]
        shared = share(encoding.pieces, spans)
        ids = [*self.prefix, *encoding.ids, self.eos_id]
        return self._beside(text, ids, [*[None] * len(self.prefix), *shared, None])

    def detokenize(self, ids: list[int]) -> TokenizedText:
        """Ids that a model gave, beside the text of `decode`."""
        is_shown = [i not in self.hidden_ids for i in ids]
        mapping = self._join(list(compress(ids, is_shown)))
        text: str = mapping["text"]
        spans = [trim(text, span, str.isspace) for span in mapping["offsets"]]
        shared = iter(share(mapping["pieces"], spans))
        return self._beside(text, ids, [next(shared) if known else None for known in is_shown])

    def pieces(self, ids: list[int]) -> list[str]:
        """The vocabulary's own spelling of ids."""
        return [self.processor.id_to_piece(i) for i in ids]

    def _segment(self, text: str) -> Encoding:
        """A text's own tokens, without the prefix."""
        mapping = self.processor.encode_as_offset_mapping(text)
        return Encoding(mapping["ids"], mapping["pieces"], mapping["offsets"])

    def _join(self, ids: list[int]) -> dict[str, Any]:
        """The `text` of ids that show, with their `pieces` and their `offsets` in it."""
        mapping: dict[str, Any] = self.processor.decode(ids, return_type="offset_mapping")
        return mapping

    def _is_special(self, token: int) -> bool:
        special: bool = self.processor.is_control(token)
        return special

    def _is_blank(self, char: str) -> bool:
        """Whether the normaliser makes a space of a character, or nothing."""
        if char.isalnum():
            return False
        normal: str = self.processor.normalize(char)
        return char.isspace() or not normal.strip(f" {WORD_START}")

    def _beside(self, text: str, ids: list[int], spans: list[Span | None]) -> TokenizedText:
        """With an empty place before what follows for tokens that the text does not show."""
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
    """A span without the blanks at its ends; of blanks alone, the empty one behind them."""
    start, end = span
    while start < end and is_blank(text[start]):
        start += 1
    while start < end and is_blank(text[end - 1]):
        end -= 1
    return start, end


def share(pieces: list[str], spans: list[Span]) -> list[Span]:
    """Gives a character that is several tokens to each of them.

    SentencePiece gives it to the last, and an empty span before it to the others.
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
