"""Implements greedy search with scores."""

from model.backends.base import Continuations
from model.engine.beam import normalized_score
from model.sequence import DecodingOptions, Hypothesis


class GreedySearch:
    """Takes the best token at each decode step, and records its log-probability.

    Args:
        options: Search options with beam_size 1.
        eos_id: Id that ends the target.
        max_tokens: Length limit of the target.
    """

    num_rows = 1

    def __init__(self, options: DecodingOptions, eos_id: int, max_tokens: int) -> None:
        self.options = options
        self.eos_id = eos_id
        self.max_tokens = max_tokens
        self.tokens: list[int] = []
        self.log_probs: list[float] = []
        self.total = 0.0

    @property
    def is_finished(self) -> bool:
        """Returns whether the target has reached EOS or the length limit."""
        return self.tokens[-1:] == [self.eos_id] or len(self.tokens) >= self.max_tokens

    @property
    def totals(self) -> list[float]:
        """Returns the sum of the log-probabilities of the only row."""
        return [self.total]

    @property
    def length(self) -> int:
        """Returns the number of tokens so far."""
        return len(self.tokens)

    @property
    def next_tokens(self) -> list[int]:
        """Returns the next decoder input of each row."""
        return self.tokens[-1:]

    @property
    def parents(self) -> list[int] | None:
        """Returns None: a greedy search never reorders its row."""
        return None

    def take(self, best: Continuations) -> None:
        """Appends the token of the best continuation."""
        self.tokens.append(best.ids[0])
        self.log_probs.append(best.totals[0] - self.total)
        self.total = best.totals[0]

    def hypotheses(self) -> list[Hypothesis]:
        """Returns the only hypothesis."""
        score = normalized_score(self.log_probs, self.options.length_penalty)
        return [Hypothesis(self.tokens, self.log_probs, score)]
