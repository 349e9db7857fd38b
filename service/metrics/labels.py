"""Values of the labels of the metrics."""

DETECT = "detect"
"""The task of language detection. It has no work items: the HTTP processes detect languages."""

DOCUMENT = "document"
"""The task of translating a document. Its texts are work items of translation."""

OUTCOMES = (
    "ok",
    "invalid",
    "too_large",
    "rejected_queue",
    "rejected_tokens",
    "rejected_deadline",
    "rate_limited",
    "deadline",
    "cancelled",
    "unavailable",
    "error",
)
CALL_OUTCOMES = ("ok", "rejected_queue", "unavailable", "cancelled", "error")
"""Outcomes of a request to the endpoint of a remote model."""

GUARDS = ("loop", "length", "copy", "digits", "placeholder")
"""Names of the guards of translations; `service.tasks.translation.guards` has their checks."""

REJECTION_OUTCOMES = ("replaced", "kept")
"""Outcomes of a translation that a guard rejected.

`replaced`: a second translation was better. `kept`: the reply has a warning.
"""

SHARING = ("running", "cached")
"""States of a sentence when an equal one arrives later. The later sentence gets its result."""

STAGES = ("validate", "tokenize", "queue", "device", "detokenize", "serialize")
NO_MODEL = "none"
"""Model label of a request that used several models or none, or ended before one was chosen."""
