"""Greedy choice of the next token."""

from torch import Tensor

from model.architectures.shortlist import Ids
from model.engine.beam import normalized_score
from model.sequence import DecodingOptions, Hypothesis


class GreedySearch:
    """Takes the best token at each step, and notes how likely it was.

    Args:
        options: beam_size is 1.
        eos_id: Ends the target.
        max_tokens: Ends it too.
    """

    num_rows = 1

    def __init__(self, options: DecodingOptions, eos_id: int, max_tokens: int) -> None:
        self.options = options
        self.eos_id = eos_id
        self.max_tokens = max_tokens
        self.tokens: list[int] = []
        self.log_probs: list[float] = []

    @property
    def is_finished(self) -> bool:
        """Whether EOS or the length limit was reached."""
        return self.tokens[-1] == self.eos_id or len(self.tokens) >= self.max_tokens

    @property
    def next_tokens(self) -> list[int]:
        """What goes into the decoder next, one id a row."""
        return self.tokens[-1:]

    @property
    def parents(self) -> list[int] | None:
        """Rows never change places."""
        return None

    def advance(self, log_probs: Tensor, ids: Ids) -> None:
        """Takes the best of log_probs (1, U), whose columns are these ids."""
        column = int(log_probs[0].argmax())
        self.tokens.append(int(ids[column]))
        self.log_probs.append(float(log_probs[0, column]))

    def hypotheses(self) -> list[Hypothesis]:
        """The one there is."""
        score = normalized_score(self.log_probs, self.options.length_penalty)
        return [Hypothesis(self.tokens, self.log_probs, score)]
