"""Finds the stable tokens of a cut word, which are tokens of the whole word too.

An edge is a place between two tokens of the whole word. BPE and Unigram have this property: the
tokens before an edge are the same as if `word[:edge]` were the whole word. The edges of a cut word
are unknown, because its end is unknown.

For any place in the word, one of a few positions is an edge. Either the place itself is an edge, or
a token stands across the place and the beginning of this token is an edge. So the candidates are
the place, and the beginning of each vocabulary entry that stands across it. `word[:candidate]` is
tokenised for every candidate. The tokens with which all results begin are stable, because one
of the candidates is an edge. In BPE the same holds from the end of the word.

Stable tokens can be few in words of repeated characters. In a run of dots, one dot more before the
cut may change every token, however far the token is from the cut.

Source: Berglund and van der Merwe 2023, "Formalizing BPE Tokenization": merges never cross an edge
of the result. In Unigram the property is the principle of the Viterbi algorithm. It does not hold
from the end of the word. The algorithm adds rounded numbers from the front, so a different
beginning may decide ties otherwise.
"""

from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import Literal

from tokenizers import Tokenizer, models

End = Literal["left", "right"]

MARGIN_CHARS = 256
"""Characters next to a cut whose tokens may change if the text goes on, such as by an accent."""


class CutWords:
    """Tokenises single words by the model of a tokenizer, without its normaliser.

    Args:
        tokenizer: The whole tokenizer.
        max_token_chars: Length of the longest entry of its vocabulary, in characters.
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
        """Returns how many tokens, counted from the end that was not cut, are stable.

        Args:
            tokens: The tokens of the known part of the word, from left to right.
            ids: The ids of these tokens.
            cut: The end at which the word is cut.
            max_tokens: Number of tokens to examine, counted from the end that was not cut.
            max_chars: Characters to tokenise at most; where more are needed, the result is 0.
        """
        # `tokens` does not have the text of an unknown token.
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
        if found[0] != ids[:number]:  # byte fallback: the tokens do not spell the word
            return 0
        return num_shared(found)

    def _possible_edges(self, word: str, place: int, step: int) -> list[int]:
        """Returns a place, and the beginnings of the vocabulary entries that stand across it.

        Args:
            word: The known part of the word, from the end that was not cut.
            place: Number of characters between that end and the place.
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
    """Returns the ends at which a word may be cut and still have stable tokens."""
    if isinstance(model, models.Unigram):
        return frozenset({"right"})
    if not isinstance(model, models.BPE):  # WordPiece has a limit for the length of words
        return frozenset()
    has_affixes = bool(model.continuing_subword_prefix or model.end_of_word_suffix)
    return frozenset() if has_affixes or model.dropout else frozenset({"left", "right"})


def num_shared(sequences: Sequence[Sequence[int]]) -> int:
    """Returns how many ids at the beginning are the same in all sequences."""
    columns = zip(*sequences, strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
