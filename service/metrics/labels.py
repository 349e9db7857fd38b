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
    "rejected_bytes",
    "rate_limited",
    "deadline",
    "cancelled",
    "unavailable",
    "error",
)
CALL_OUTCOMES = ("ok", "rejected_queue", "unavailable", "cancelled", "error")
"""Outcomes of a request to the endpoint of a remote model."""

GUARDS = ("loop", "length", "copy", "digits", "placeholder")
"""Names of the guards. A guard is a check that finds wrong translations.

Source: `service.tasks.translation.guards`.
"""

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
"""Model label of a request with several models or no model.

A request that ends before a model is chosen also has this label.
"""
