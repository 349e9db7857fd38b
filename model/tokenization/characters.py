"""Defines a tokenizer whose tokens are the characters of a text.

The tokenizer is for remote models, which read text instead of token ids.
"""

import sys

from model.tokenization.tokenizer import WORD_START, Encoding, Tokenizer

EOS = sys.maxunicode + 1
"""Id at the end of every text; no character has this id."""


class CharacterTokenizer(Tokenizer):
    """Turns each character into its code point, and code points into a text.

    No character is unknown. Decoding gives the encoded text unchanged, except that a text of white
    space alone has no ids.
    """

    def __init__(self) -> None:
        self.vocab_size = EOS + 1
        self.eos_id = EOS
        self.unk_id = -1
        self.hidden_ids = frozenset((EOS,))
        self.prefix = []

    def encode(self, text: str) -> list[int]:
        """Returns the code points of a text; empty for white space alone. EOS is not added."""
        return [] if text.isspace() else list(map(ord, text))

    def unknown_in(self, text: str) -> set[str]:
        """Returns an empty set, because no character is unknown."""
        return set()

    def encode_with_offsets(self, text: str) -> Encoding:
        """Returns ids, pieces and offsets of a text. White space has the piece WORD_START."""
        ids = self.encode(text)
        pieces = [WORD_START if each.isspace() else each for each in text[: len(ids)]]
        return Encoding(ids, pieces, [(place, place + 1) for place in range(len(ids))])

    def decode(self, ids: list[int]) -> str:
        """Returns the text with the given code points; EOS is left out."""
        return "".join([chr(each) for each in ids if each != EOS])

    def pieces(self, ids: list[int]) -> list[str]:
        """Returns the character of each id, and an empty string for EOS."""
        return ["" if each == EOS else chr(each) for each in ids]
