"""Builds the part of a response that lists the tokens or words of a source or a target."""

from typing import Any

from service.tasks.attention.labels import Labels


def labels_body(labels: Labels) -> dict[str, Any]:
    """Returns the tokens or words of a text. Only a target has `input_tokens`."""
    body = {
        "text": labels.text,
        "tokens": labels.tokens,
        "ids": labels.ids,
        "offsets": labels.offsets,
        "special": labels.special,
    }
    return body if labels.input_tokens is None else {**body, "input_tokens": labels.input_tokens}
