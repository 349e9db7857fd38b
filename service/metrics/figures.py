"""The figures of a request that has ended, and the values of the labels of the metrics."""

from dataclasses import dataclass, field

from model.sequence import BatchStats

DETECT = "detect"
"""The task of language detection. It has no work items: the HTTP processes detect languages."""

DOCUMENT = "document"
"""The task of translating a document. Its texts are work items of translation."""

MCP = "mcp"
"""The task of the requests of agents to /mcp. Their tools call the other tasks."""

OUTCOMES = (
    *("ok", "invalid", "too_large"),
    *("rejected_queue", "rejected_tokens", "rejected_deadline", "rejected_bytes", "rate_limited"),
    *("deadline", "cancelled", "unavailable", "error"),
)
# Outcomes of a request to the endpoint of a remote model. `replaced` is not one: it counts the
# sentences that a model of this server translated after such a request.
CALL_OUTCOMES = ("ok", "rejected_queue", "unavailable", "cancelled", "error", "replaced")

GUARDS = (
    *("loop", "length", "copy", "digits", "bracket", "repeat", "words"),
    *("placeholder", "unsure"),
)
"""Checks that find wrong translations: `service.tasks.translation.guards`."""

REJECTION_OUTCOMES = ("replaced", "kept")
"""Outcomes of a translation that a guard rejected.

`replaced`: the reply has a second translation, which was better. `kept`: the reply has the rejected
translation and a warning.
"""

SHARING = ("running", "cached")
"""States of a sentence when an equal sentence arrives.

`running`: the result is not yet computed. `cached`: the result is in the cache. The new sentence
gets this result and is not computed.
"""

STAGES = ("validate", "tokenize", "queue", "device", "detokenize", "serialize")
NO_MODEL = "none"
"""Model label of a request with several models, or that ends before a model is chosen."""


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """Counts of a worker since its last report."""

    # Number of model calls with the same statistics, by model.
    batches: dict[str, dict[BatchStats, int]] = field(default_factory=dict)
    splits: dict[str, int] = field(default_factory=dict)  # failing batches, by model
    out_of_memory: dict[str, int] = field(default_factory=dict)  # steps that ran out, by model
    # Bytes by kind of memory: resident, allocated, reserved, peak.
    memory_bytes: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Ended:
    """The figures of one request that has ended."""

    task: str  # name of a task kind, or the label DETECT, DOCUMENT or MCP
    model: str
    outcome: str  # one of OUTCOMES
    status: int
    num_inputs: int
    seconds: float  # time from the end of the request's headers to the last byte of the response
    stages: dict[str, float]  # seconds by the name of the stage
    num_cut: dict[str, int]  # number of sentences or texts over the length limit, by model
    billed_characters: int = 0  # characters that DeepL's routes have translated for the request
    first_sentence_seconds: float | None = None
    trace_id: str = ""
    # Number of translations that a guard rejected, by model, guard and outcome.
    rejected: dict[tuple[str, str, str], int] = field(default_factory=dict)
