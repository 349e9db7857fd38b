"""The figures of one request that has ended."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Ended:
    """The figures of one request that has ended.

    Attributes:
        task: Name of a task kind, or the label DETECT or DOCUMENT.
        model: Served name of the model, or NO_MODEL.
        outcome: One of OUTCOMES.
        status: HTTP status of the response.
        num_inputs: Number of texts in the request.
        seconds: Time from the end of the request's headers to the last byte of the response.
        stages: Seconds spent in each stage.
        num_cut: Number of sentences or texts over the length limit, by model name.
        billed_characters: Number of characters that DeepL's routes have translated for the request.
        rejected: Number of translations that a guard rejected, by model, guard and outcome.
        first_sentence_seconds: Time until the first sentence of a stream; None without a stream.
        trace_id: Id of the trace of the request; "" if the request is not traced.
    """

    task: str
    model: str
    outcome: str
    status: int
    num_inputs: int
    seconds: float
    stages: dict[str, float]
    num_cut: dict[str, int]
    billed_characters: int = 0
    first_sentence_seconds: float | None = None
    trace_id: str = ""
    rejected: dict[tuple[str, str, str], int] = field(default_factory=dict)
