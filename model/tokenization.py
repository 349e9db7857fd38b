"""Text to token ids and back, with the place of every token in the text."""

from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from model.errors import CheckpointFormatError

WORD_START = "\u2581"


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
    offsets: list[tuple[int, int]]


class Tokenizer:
    """One SentencePiece vocabulary; its normaliser is inside the file.

    Args:
        path: A `.spm` file.

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

    def encode(self, text: str) -> list[int]:
        """The ids of a text without EOS; none for white space alone.

        Args:
            text: Without lone surrogates.
        """
        ids: list[int] = self.processor.encode(text)
        return ids

    def encode_with_offsets(self, text: str) -> Encoding:
        """The same ids, with pieces and code point offsets."""
        mapping = self.processor.encode_as_offset_mapping(text)
        return Encoding(mapping["ids"], mapping["pieces"], mapping["offsets"])

    def decode(self, ids: list[int]) -> str:
        """The text of ids; EOS and unknown tokens leave no trace."""
        text: str = self.processor.decode([i for i in ids if i not in (self.eos_id, self.unk_id)])
        return text

    def pieces(self, ids: list[int]) -> list[str]:
        """The vocabulary's own spelling of ids."""
        return [self.processor.id_to_piece(i) for i in ids]
