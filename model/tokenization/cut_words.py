"""Finds the stable tokens of a cut word: only the beginning or the end of the word is known.

A token of the known part is stable if the whole word has the same token in the same place.

An edge is a place between two tokens of the whole word. In BPE and Unigram, the tokens before an
edge are the same as if `word[:edge]` were the whole word. The edges of a cut word are unknown. But
a short list of candidates contains at least one edge. The list has a place in the word, and the
beginning of each vocabulary entry that stands across it. `word[:candidate]` is tokenised for every
candidate. At least one result is right, so the tokens with which all of them begin are stable.

In BPE, the tokens behind an edge are also the same as if `word[edge:]` were the whole word. So a
word that is cut on the left can have stable tokens. In Unigram, `word[edge:]` alone may get other
tokens: sums of scores are rounded from left to right, and the rounding decides between equal sums.

A word of repeated characters, such as a run of dots, may have few stable tokens.

Source: Berglund and van der Merwe 2023, "Formalizing BPE Tokenization": merges never cross an edge
of the result. In Unigram the property follows from the Viterbi algorithm.
"""

from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import Literal

from tokenizers import Tokenizer, models

End = Literal["left", "right"]

MARGIN_CHARS = 256
"""Number of characters next to a cut whose tokens are never stable: an accent may follow it."""


class CutWords:
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
            max_chars: Largest number of characters to tokenise; 0 is returned if more are needed.
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
        columns = zip(*found, strict=False)
        return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))

    def _possible_edges(self, word: str, place: int, step: int) -> list[int]:
        """Returns a place, and the beginnings of vocabulary entries that stand across the place.

        `word` is read from the uncut end, backwards if `step` is -1; the place counts from there.
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
    if isinstance(model, models.Unigram):
        return frozenset({"right"})
    if not isinstance(model, models.BPE):  # WordPiece gives a very long word the unknown id
        return frozenset()
    has_affixes = bool(model.continuing_subword_prefix or model.end_of_word_suffix)
    return frozenset() if has_affixes or model.dropout else frozenset({"left", "right"})
