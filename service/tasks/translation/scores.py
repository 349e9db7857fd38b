"""The scores of translated sentences and their tokens."""

from dataclasses import dataclass

from model.sequence import Hypothesis
from model.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TokenScore:
    """One target token and the natural logarithm of its probability."""

    token: str
    log_prob: float


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """The score of a sentence, and the scores of its tokens.

    `model.sequence.Hypothesis` defines the score of a sentence: its log-probability, normalised by
    its length.
    """

    score: float
    tokens: list[TokenScore]


def sentence_score(hypothesis: Hypothesis, tokenizer: Tokenizer) -> SentenceScore | None:
    """Returns the scores of a sentence and its tokens; None if no score was computed."""
    if hypothesis.score is None:
        return None
    pieces = tokenizer.pieces(hypothesis.tokens)
    tokens = [TokenScore(p, lp) for p, lp in zip(pieces, hypothesis.log_probs, strict=True)]
    return SentenceScore(hypothesis.score, tokens)
