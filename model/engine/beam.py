"""Implements beam search over the hypotheses of one sentence; a beam of one is greedy.

A search turns log-probabilities into ids. Sequences that need no log-probabilities are decoded
without a search, by `model.engine.engine.GreedyRows`.
"""

import math
from dataclasses import dataclass
from operator import itemgetter

from model.backends.base import Continuations
from model.sequence import DecodingOptions, Hypothesis


def normalized_score(log_probs: list[float], length_penalty: float) -> float:
    """Returns sum(log_probs) / length ** length_penalty.

    Source: marian-dev, src/translator/beam_search.cpp: `normalize`.
    """
    return math.fsum(log_probs) / float(len(log_probs) ** length_penalty)


@dataclass(frozen=True, slots=True)
class Beam:
    """A live hypothesis, which has not ended yet."""

    tokens: list[int]
    log_probs: list[float]
    total: float

    def extend(self, token: int, total: float) -> "Beam":
        return Beam([*self.tokens, token], [*self.log_probs, total - self.total], total)


class BeamSearch:
    """Keeps the beam_size best live hypotheses, and the best finished hypotheses.

    The search ends at the length limit. It also ends if beam_size hypotheses are finished, each
    with at least the score of the best live hypothesis at its present length.
    """

    def __init__(self, options: DecodingOptions, eos_id: int, max_tokens: int) -> None:
        self.options = options
        self.num_rows = options.beam_size
        self.eos_id = eos_id
        self.max_tokens = max_tokens
        # At the start, only the first row has a finite score. With equal scores, all rows would
        # hold the same hypothesis at every step.
        self.live = [Beam([], [], 0.0 if row == 0 else -math.inf) for row in range(self.num_rows)]
        self.finished: list[tuple[float, Hypothesis]] = []  # with their scores, best first
        self.parents: list[int] | None = None

    @property
    def next_tokens(self) -> list[int]:
        return [beam.tokens[-1] for beam in self.live]

    @property
    def totals(self) -> list[float]:
        return [beam.total for beam in self.live]

    @property
    def length(self) -> int:
        return len(self.live[0].tokens)

    @property
    def is_finished(self) -> bool:
        if self.length >= self.max_tokens:
            return True
        if len(self.finished) < self.num_rows:
            return False
        if self.num_rows == 1:  # greedy: the first hypothesis that ends is the result
            return True
        best_live = max(beam.total for beam in self.live)
        attainable = best_live / float(self.length**self.options.length_penalty)
        return self.finished[-1][0] >= attainable

    def take(self, best: Continuations) -> None:
        """Keeps the best continuations; one with EOS must be among the beam_size best."""
        live: list[tuple[Beam, int]] = []
        continuations = zip(best.totals, best.parents, best.ids, strict=True)
        for rank, (total, parent, token) in enumerate(continuations):
            if total == -math.inf:
                break
            if token != self.eos_id:
                if len(live) < self.num_rows:
                    live.append((self.live[parent].extend(token, total), parent))
            elif rank < self.num_rows:
                self._finish(self.live[parent].extend(token, total))
        self._keep(live)

    def _keep(self, live: list[tuple[Beam, int]]) -> None:
        if not live:  # all continuations ended in EOS: the rows continue with score -inf
            live = [(self.live[0].extend(self.eos_id, -math.inf), 0)]
        while len(live) < self.num_rows:
            beam, parent = live[0]
            live.append((Beam(beam.tokens, beam.log_probs, -math.inf), parent))
        self.live = [beam for beam, _ in live]
        self.parents = [parent for _, parent in live]
        if self.length >= self.max_tokens:
            for beam in self.live:
                if beam.total > -math.inf:
                    self._finish(beam)

    def _finish(self, beam: Beam) -> None:
        score = normalized_score(beam.log_probs, self.options.length_penalty)
        self.finished.append((score, Hypothesis(beam.tokens, beam.log_probs, score)))
        self.finished.sort(key=itemgetter(0), reverse=True)
        del self.finished[self.num_rows :]

    def hypotheses(self) -> list[Hypothesis]:
        return [hypothesis for _, hypothesis in self.finished[: self.options.num_hypotheses]]
