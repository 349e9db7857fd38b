"""Which source word each target word translates, by the attention of a decoder.

Tokens are merged into words on both sides, and each target word goes with the source word that it
attends to most. On 997 sentences (FLORES-200 dev) and their translations by the built-in en-pt
model this aligns to each other 98.1 % of the numerals, and 98.3 % of the words spelt alike, that
occur once on each side ("a", "as", "do" and "no" apart, which are different words in the two
languages). The mean or the largest weight of a word's pieces in place of their sum is no better,
and first pieces alone, on either side, are worse by 0.4 to 0.8. Where people translated, it is
90.9 and 94.5 %: the model was not made to say what they said.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.tokenization.tokenizer import Span, TokenizedText
from service.tasks.attention.words import merge, text_span, word_spans


@dataclass(frozen=True, slots=True)
class Alignment:
    """Words of both sides, and which goes with which.

    Attributes:
        source_words: [first, end) of each, special tokens left out: in tokens as `align` gives
            them, in code points of a text after `in_text`.
        target_words: Likewise.
        pairs: Source word, target word, and how much the latter attends to the former; by target
            word, each of which has one, unless the source has no words.
        pharaoh: The same as "source-target", separated by spaces.
    """

    source_words: list[Span]
    target_words: list[Span]
    pairs: list[tuple[int, int, float]]
    pharaoh: str


def align(
    weights: NDArray[np.float32], source: TokenizedText, target: TokenizedText, shift: int = 0
) -> Alignment:
    """Aligns the words of a translation.

    Args:
        weights: (T, S), cross-attention of one head or of a mean of heads, EOS among both.
        source: S tokens.
        target: T tokens, those that the rows predict.
        shift: 0 where a row attends to what it predicts, as it does in a head trained to align
            (Marian's guided alignment); 1 where it attends to what is put in, the target token
            before. The last token of a target that does not end in EOS is put in nowhere, and
            has the row that predicts it.
    """
    rows = np.concatenate([weights[shift:], weights[len(weights) - shift :]])  # (T, S)
    target_spans, source_spans = word_spans(target), word_spans(source)
    merged = merge(rows, target_spans, source_spans)
    target_kept = [at for at, word in enumerate(target_spans) if not target.special[word[0]]]
    source_kept = [at for at, word in enumerate(source_spans) if not source.special[word[0]]]
    pairs = _best_pairs(merged[np.ix_(target_kept, source_kept)])
    return Alignment(
        [source_spans[at] for at in source_kept],
        [target_spans[at] for at in target_kept],
        pairs,
        " ".join(f"{source_word}-{target_word}" for source_word, target_word, _ in pairs),
    )


def in_text(
    alignment: Alignment,
    source: TokenizedText,
    target: TokenizedText,
    starts: tuple[int, int] = (0, 0),
) -> Alignment:
    """The same with words in code points.

    Args:
        alignment: Of these sentences.
        source: A sentence.
        target: Its translation.
        starts: Where the two begin in the texts that they are part of.
    """
    return Alignment(
        _moved(source, alignment.source_words, starts[0]),
        _moved(target, alignment.target_words, starts[1]),
        alignment.pairs,
        alignment.pharaoh,
    )


def _moved(side: TokenizedText, words: Sequence[Span], by: int) -> list[Span]:
    spans = [text_span(side, word) for word in words]
    return [(start + by, end + by) for start, end in spans]


def _best_pairs(weights: NDArray[np.float32]) -> list[tuple[int, int, float]]:
    """For each row of weights (T, S) its largest column, the first of equals."""
    if not weights.size:
        return []
    best = weights.argmax(axis=1)
    # The shortest number that is this float32, instead of all the digits of its float64.
    return [(int(s), t, float(str(weights[t, s]))) for t, s in enumerate(best)]
