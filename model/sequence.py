"""Defines the inputs and outputs of an engine: sequences, options, hypotheses, limits.

The module does not import torch, so that processes without a model stay small.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """The search options of one request.

    Attributes:
        beam_size: Number of hypotheses kept at each decode step; 1 means greedy search.
        num_hypotheses: Number of hypotheses returned, at most beam_size.
        length_penalty: Exponent p; a score is (sum of log-probabilities) / length ** p.
        return_scores: Whether a greedy search computes log-probabilities and a score. A beam search
            always computes them.
        return_attention: Whether a hypothesis has its cross-attention, from which words are
            aligned. Only a greedy search without scores returns the attention, and only if the
            runner records it.
    """

    beam_size: int = 1
    num_hypotheses: int = 1
    length_penalty: float = 1.0
    return_scores: bool = False
    return_attention: bool = False

    @property
    def needs_log_probs(self) -> bool:
        """Returns whether a decode step must return log-probabilities, not only tokens."""
        return self.return_scores or self.beam_size > 1


@dataclass(slots=True)
class Hypothesis:
    """One translation.

    Attributes:
        tokens: Ids; the last is EOS unless the length limit ended the translation.
        log_probs: Natural log-probability of each token; empty without scores.
        score: Sum of log_probs divided by length ** length_penalty; None without scores.
        attention: Cross-attention (tokens, source tokens), as `attention` of
            `model.backends.base.ModelRunner` returns it; None if it was not recorded.
    """

    tokens: list[int]
    log_probs: list[float] = field(default_factory=list)
    score: float | None = None
    attention: "NDArray[np.float32] | None" = None


@dataclass(slots=True)
class Sequence:
    """One source sentence to translate.

    Attributes:
        id: Number that the caller gives to the sequence, unique in the batch.
        source: Ids, EOS included.
        options: Search options.
        first_id: Id of the target's first token; None if the logits choose this token. Only models
            with `forces_first` in their config accept an id.
    """

    id: int
    source: list[int]
    options: DecodingOptions = DecodingOptions()
    first_id: int | None = None


@dataclass(slots=True)
class Finished:
    """The result of one sequence: its hypotheses, best first."""

    id: int
    hypotheses: list[Hypothesis]


class BatchStats(NamedTuple):
    """The amount of work of one model call, such as a decode step.

    Each model call makes one object, and the worker counts equal objects. A named tuple is made
    and hashed several times as fast as a frozen dataclass.

    Attributes:
        phase: Kind of the call, such as `encode`, `decode` or `embed`.
        rows: Number of sentences, texts or rows computed.
        tokens: Number of tokens computed, without padding.
        padding_tokens: Number of padding positions computed in addition.
    """

    phase: str
    rows: int
    tokens: int
    padding_tokens: int


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The limits of the in-flight batch.

    Sequences enter and leave this batch between decode steps.

    Attributes:
        max_rows: Maximum number of rows decoded together; a beam search takes beam_size rows. If
            `max_rows` is 0, `model.checkpoints.build.load_engine` chooses the number.
        max_source_tokens: Maximum number of tokens of one source, EOS included.
        max_batch_tokens: Maximum number of tokens encoded together, padding included.
    """

    max_rows: int = 64
    max_source_tokens: int = 128
    max_batch_tokens: int = 4096
