"""Finds the stable tokens of a cut word: only the beginning or the end of the word is known.

A token of the known part is stable if the whole word has the same token in the same place.

An edge is a place between two tokens of the whole word. BPE and Unigram have this property: the
tokens before an edge are the same as if `word[:edge]` were the whole word. If a word is cut, its
edges are unknown, because the rest of the word is unknown.

For any place in the word, a short list of places contains at least one edge. The places in this
list are called candidates. Either the place itself is an edge, or a token begins before the place
and ends behind it. In the second case, the beginning of this token is an edge. So the candidates
are the place, and the beginning of each vocabulary entry that stands across the place.
`word[:candidate]` is tokenised for every candidate. At least one candidate is an edge, so at least
one of these results is right. If all results begin with the same tokens, these tokens are therefore
right: they are stable.

In BPE the property also holds in the other direction: the tokens behind an edge are the same as if
`word[edge:]` were the whole word. So a word that is cut on the left can have stable tokens.

A word of repeated characters may have few stable tokens. In a run of dots, one more dot may change
every token, even a token far from the cut.

Source: Berglund and van der Merwe 2023, "Formalizing BPE Tokenization": merges never cross an edge
of the result. In Unigram the property follows from the Viterbi algorithm, but only for the tokens
before an edge. The algorithm adds scores from left to right, and rounds each sum. If two
segmentations have equal exact sums, the rounding decides. The rounding depends on the word's
beginning, so `word[edge:]` alone may get other tokens.
"""

from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import Literal

from tokenizers import Tokenizer, models

End = Literal["left", "right"]

MARGIN_CHARS = 256
"""Tokens within this number of characters from a cut are never counted as stable.

The text on the other side of the cut may change these tokens. An example of such text is a
combining accent.
"""


class CutWords:
    """Tokenises single words with the model of a tokenizer, but without its normaliser.

    Args:
        tokenizer: The whole tokenizer.
        max_token_chars: Length of the longest vocabulary entry, in characters.
    """

    def __init__(self, tokenizer: Tokenizer, max_token_chars: int) -> None:
        self.model = tokenizer.model
        self.bare = Tokenizer(self.model)
        self.max_token_chars = max_token_chars
        self.stable_cuts = stable_cuts(self.model)
        unk = self.model.unk_token if isinstance(self.model, models.BPE) else None
        self.unk_id = None if unk is None else self.model.token_to_id(unk)

    def num_stable(
        self, tokens: Sequence[str], ids: Sequence[int], cut: End, max_tokens: int, max_chars: int
    ) -> int:
        """Returns the number of stable tokens, counted from the uncut end of the word.

        Args:
            tokens: The tokens of the known part of the word, from left to right.
            ids: The ids of these tokens.
            cut: The side on which the word is cut.
            max_tokens: Largest number of tokens to examine, counted from the uncut end.
            max_chars: Largest number of characters to tokenise. If more are needed, the method
                returns 0.
        """
        # For an unknown token, `tokens` does not have the characters of the word.
        if cut not in self.stable_cuts or self.unk_id in ids:
            return 0
        step = 1 if cut == "right" else -1  # a word that is cut on the left is read backwards
        ids = ids[::step]
        edges = list(accumulate(map(len, tokens[::step])))
        last = sum(map(len, tokens)) - MARGIN_CHARS - self.max_token_chars
        number = min(max_tokens, sum(1 for _ in takewhile(lambda edge: edge <= last, edges)))
        if number < 1:
            return 0
        places = self._possible_edges("".join(tokens)[::step], edges[number - 1], step)
        if sum(places) > max_chars:
            return 0
        word = "".join(tokens)
        parts = [word[:place] if cut == "right" else word[-place:] for place in places]
        found = [each.ids[::step] for each in self.bare.encode_batch(parts)]
        if found[0] != ids[:number]:  # with byte fallback, tokens do not spell the word
            return 0
        return num_shared(found)

    def _possible_edges(self, word: str, place: int, step: int) -> list[int]:
        """Returns a place, and the beginnings of vocabulary entries that stand across the place.

        Args:
            word: The known part of the word, read from the uncut end.
            place: Number of characters from the uncut end to the place.
            step: -1 if the word is read backwards, else 1.
        """
        size = self.max_token_chars
        return [
            place,
            *(
                first
                for first in range(place - 1, max(0, place - size), -1)
                if any(
                    self.model.token_to_id(word[first:last][::step]) is not None
                    for last in range(place + 1, first + size + 1)
                )
            ),
        ]


def stable_cuts(model: models.Model) -> frozenset[End]:
    """Returns the sides on which a word may be cut and still have stable tokens."""
    if isinstance(model, models.Unigram):
        return frozenset({"right"})
    if not isinstance(model, models.BPE):  # WordPiece gives a very long word the unknown id
        return frozenset()
    has_affixes = bool(model.continuing_subword_prefix or model.end_of_word_suffix)
    return frozenset() if has_affixes or model.dropout else frozenset({"left", "right"})


def num_shared(sequences: Sequence[Sequence[int]]) -> int:
    """Returns how many ids at the beginning are the same in all sequences."""
    columns = zip(*sequences, strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
