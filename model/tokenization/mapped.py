"""Splits texts with SentencePiece, and takes the ids from a separate vocabulary file."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from model.tokenization.tokenizer import WORD_START, Encoding, Tokenizer


class MappedTokenizer(Tokenizer):
    """Splits text into pieces with a SentencePiece file; a vocabulary gives the ids of the pieces.

    Args:
        path: A `.spm` file.
        ids: The id of each piece. The ids are 0, 1, 2 and so on, each used once.
        special: Ids of the special tokens, EOS included. Special tokens stand for no text.
        eos_id: Id at the end of every text.
        unk_id: Id of every piece that is not in `ids`.

    Raises:
        CheckpointFormatError: The file is damaged or has no EOS.
    """

    def __init__(
        self,
        path: Path,
        ids: Mapping[str, int],
        special: Collection[int],
        eos_id: int,
        unk_id: int,
    ) -> None:
        super().__init__(path)
        self.ids = ids
        self.names = sorted(ids, key=ids.__getitem__)
        self.vocab_size = len(ids)
        self.eos_id, self.unk_id = eos_id, unk_id
        self.special_ids = frozenset(special)
        self.hidden_ids = self.special_ids | {unk_id}

    def id_of(self, piece: str) -> int:
        """Returns the id of a piece of the vocabulary."""
        return self.ids[piece]

    def encode(self, text: str) -> list[int]:
        """Returns the prefix (such as a language token) and the ids of a text. EOS is not added.

        The result is empty for white space alone.
        """
        ids = self._number(self.processor.encode(text, out_type=str))
        return [*self.prefix, *ids] if ids else []

    def encode_with_offsets(self, text: str) -> Encoding:
        """Returns the ids of `encode` with their pieces and offsets.

        A token of the prefix has an empty span.
        """
        found = self._segment(text)
        if not found.ids:
            return found
        return Encoding(
            [*self.prefix, *found.ids],
            [*self.pieces(self.prefix), *found.pieces],
            [*[(0, 0)] * len(self.prefix), *found.offsets],
        )

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids. Special and unknown tokens are left out."""
        shown = [i for i in ids if i not in self.hidden_ids]
        text: str = self.processor.decode(self._spelled(shown))
        return _spaced(text)

    def pieces(self, ids: list[int]) -> list[str]:
        """Returns the vocabulary's spelling of each given id."""
        return [self.names[i] for i in ids]

    def _number(self, pieces: list[str]) -> list[int]:
        return [self.ids.get(piece, self.unk_id) for piece in pieces]

    def _spelled(self, ids: list[int]) -> list[str]:
        """Returns the pieces of ids, changed so that SentencePiece joins them to the right text.

        SentencePiece removes the space at the beginning of the first piece, but only if its file
        has this piece. If the file does not have the piece, this method removes the space.
        """
        pieces = self.pieces(ids)
        if pieces and self.processor.piece_to_id(pieces[0]) == self.processor.unk_id():
            pieces[0] = pieces[0].removeprefix(WORD_START)
        return pieces

    def _segment(self, text: str) -> Encoding:
        found = super()._segment(text)
        return Encoding(self._number(found.pieces), found.pieces, found.offsets)

    def _join(self, ids: list[int]) -> dict[str, Any]:
        mapping: dict[str, Any] = self.processor.decode(
            self._spelled(ids), return_type="offset_mapping"
        )
        return {**mapping, "text": _spaced(mapping["text"])}

    def _is_special(self, token: int) -> bool:
        return token in self.special_ids


def _spaced(text: str) -> str:
    """Returns a text with a space for each WORD_START that SentencePiece left in it.

    SentencePiece leaves WORD_START in pieces that its file does not have. A shared vocabulary has
    such pieces: it covers both languages, and each SentencePiece file covers one language.
    """
    return text.replace(WORD_START, " ")
