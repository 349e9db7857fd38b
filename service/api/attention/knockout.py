"""Builds the response of /attention/knockout: the effects of switching off parts of a model.

A knock-out is a set of parts that are switched off together.
"""

from typing import Any

import numpy as np

from service.api.attention.labels_body import labels_body
from service.tasks.alignment.words import word_spans
from service.tasks.attention.labels import token_labels
from service.tasks.knockouts import KnockoutEffect, KnockoutResult


def knockout_body(result: KnockoutResult) -> dict[str, Any]:
    """Returns the response body, with NumPy arrays that `json_chunks` writes as JSON."""
    pair = result.pair
    return {
        "model": result.model,
        "source": labels_body(token_labels(pair.source)),
        "source_words": word_spans(pair.source),
        "target": labels_body(token_labels(pair.target, result.start)),
        "log_probs": result.log_probs,
        "knockouts": [effect_body(effect, result) for effect in result.effects],
    }


def effect_body(effect: KnockoutEffect, result: KnockoutResult) -> dict[str, Any]:
    """Returns the part of the body about one knock-out.

    NaN and infinity become null in JSON.
    """
    with np.errstate(invalid="ignore"):  # -inf - (-inf) is NaN
        changes = effect.log_probs - result.log_probs
    total = changes.sum(dtype=np.float64)
    body: dict[str, Any] = {
        "log_probs": effect.log_probs,
        "changes": changes,
        "total_change": float(total) if np.isfinite(total) else None,
    }
    if effect.translation is not None:
        body["translation"] = {"text": effect.translation.text, "is_cut": effect.is_cut}
    return body
