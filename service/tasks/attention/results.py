"""The results of requests for attention."""

from collections.abc import Sequence
from dataclasses import dataclass

from model.inspection.query import TraceQuery
from model.inspection.trace import AttentionTrace
from model.tokenization.tokenizer import TokenizedText
from service.tasks.attention.matrices import SequenceAttention


@dataclass(frozen=True, slots=True)
class InspectionResult:
    """The attention of some sentences.

    Attributes:
        model: Served name of the model.
        items: Attention of each sentence.
    """

    model: str
    items: Sequence[SequenceAttention]


@dataclass(frozen=True, slots=True)
class TraceResult:
    """The attention of one token in one head, step by step.

    Attributes:
        model: Served name of the model.
        query: Query with numbers from 0.
        source: Tokens of the text.
        target: Tokens of its translation; None for a text that is embedded.
        start: Spelling of the decoder's start token; "" for none.
        trace: Numbers of every step.
    """

    model: str
    query: TraceQuery
    source: TokenizedText
    target: TokenizedText | None
    start: str
    trace: AttentionTrace
