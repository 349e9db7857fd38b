"""What goes into an engine and what comes out of it. Without torch, for those who only ask."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """What a request may ask of the search.

    Attributes:
        beam_size: Hypotheses kept at each step; 1 is greedy.
        num_hypotheses: Hypotheses returned, at most beam_size.
        length_penalty: The exponent of the length that divides a sum of log-probabilities.
        return_scores: Whether a greedy search computes probabilities (a beam always does).
    """

    beam_size: int = 1
    num_hypotheses: int = 1
    length_penalty: float = 1.0
    return_scores: bool = False

    @property
    def needs_log_probs(self) -> bool:
        """Whether more is wanted of each step than the likeliest token of each row."""
        return self.return_scores or self.beam_size > 1


@dataclass(slots=True)
class Hypothesis:
    """One translation.

    Attributes:
        tokens: Ids, EOS included where it was reached.
        log_probs: One natural logarithm a token; empty without scores.
        score: Their sum divided by length ** length_penalty; None without scores.
    """

    tokens: list[int]
    log_probs: list[float] = field(default_factory=list)
    score: float | None = None


@dataclass(slots=True)
class Sequence:
    """One source sentence to translate.

    Attributes:
        id: The caller's, unique among those in the batch.
        source: Ids, EOS included.
        options: How to search.
    """

    id: int
    source: list[int]
    options: DecodingOptions = DecodingOptions()


@dataclass(slots=True)
class Finished:
    """The result of one sequence: its hypotheses, best first."""

    id: int
    hypotheses: list[Hypothesis]


@dataclass(frozen=True, slots=True)
class BatchStats:
    """What one call of the model worked on.

    Attributes:
        phase: `encode` or `decode`.
        rows: Sentences or live rows.
        tokens: Their tokens.
        padding_tokens: Places computed beside them for nothing.
    """

    phase: str
    rows: int
    tokens: int
    padding_tokens: int


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """How large the batch may become.

    Attributes:
        max_rows: Rows decoded at once, a beam counting as many as it is wide. With 0,
            `load_engine` chooses.
        max_source_tokens: Tokens of one source, EOS included.
        max_batch_tokens: Padded tokens encoded at once.
    """

    max_rows: int = 64
    max_source_tokens: int = 128
    max_batch_tokens: int = 4096
