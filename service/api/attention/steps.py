"""Builds the response of /attention/steps: the attention of one token, step by step."""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.inspection.query import AttentionKind
from model.inspection.states import TokenStates
from model.inspection.trace import AttentionTrace
from service.api.attention.labels_body import labels_body
from service.api.attention.steps_schema import Include
from service.tasks.attention.labels import Labels, token_labels
from service.tasks.attention.results import TraceResult

SHOWN_VALUES = 8
"""Number of leading values of weight × v that each row of the response contains."""


def steps_body(found: TraceResult, include: Collection[Include]) -> dict[str, Any]:
    """Returns the response body, with NumPy arrays that `json_chunks` writes as JSON.

    Args:
        found: The computed attention of the token, with all intermediate values.
        include: Parts that the client requests in addition to the rows.
    """
    source = token_labels(found.source)
    target = None if found.target is None else token_labels(found.target, found.start)
    query, steps = found.query, found.trace
    body: dict[str, Any] = {
        "model": found.model,
        "kind": query.kind.value,
        "layer": query.layer,
        "head": query.head,
        "head_dim": len(steps.query),
        "scale": steps.scale,
        "source": labels_body(source),
        **({} if target is None else {"target": labels_body(target)}),
        "query": query_body(found, source, target),
        "rows": rows_body(steps, keys_of(query.kind, source, target)),
        "z": steps.z,
    }
    if "vectors" in include:
        body["vectors"] = {"q": steps.query, "k": steps.key, "v": steps.value}
    if "output" in include or "output_weight" in include:
        body["output"] = output_body(steps, "output_weight" in include)
    if found.states is not None:
        body["block"] = block_body(found.states)
    return body


def keys_of(kind: AttentionKind, source: Labels, target: Labels | None) -> list[str]:
    """Returns the tokens that receive attention."""
    if kind is AttentionKind.DECODER and target is not None:
        return target.input_tokens or []
    return source.tokens


def query_body(found: TraceResult, source: Labels, target: Labels | None) -> dict[str, Any]:
    """Returns the token whose attention is computed.

    For the kinds `decoder` and `cross`, the body also has the predicted token.
    """
    index = found.query.query
    if found.query.kind is AttentionKind.ENCODER or target is None:
        return {"index": index, "token": source.tokens[index], "predicted": None}
    inputs = target.input_tokens or []
    return {"index": index, "token": inputs[index], "predicted": target.tokens[index]}


def rows_body(steps: AttentionTrace, tokens: list[str]) -> list[dict[str, Any]]:
    """Returns one row for each token that receives attention."""
    norms = np.linalg.norm(steps.weighted.astype(np.float64), axis=-1).astype(np.float32)
    columns = zip(steps.scores, steps.scaled, steps.weights, norms, steps.weighted, strict=True)
    return [
        {
            "key": key,
            "token": tokens[key],
            "score": shortest(score),
            "scaled": shortest(scaled),
            **({} if steps.bias is None else {"bias": shortest(steps.bias[key])}),
            "weight": shortest(weight),
            "value_norm": shortest(norm),
            "value": weighted[:SHOWN_VALUES],
        }
        for key, (score, scaled, weight, norm, weighted) in enumerate(columns)
    ]


def output_body(steps: AttentionTrace, with_weight: bool) -> dict[str, NDArray[np.float32]]:
    """Returns the input, the bias and the result of the output projection of all heads.

    If `with_weight` is true, the body also has the weight matrix.
    """
    body = {
        "concatenated": steps.concatenated,
        "bias": steps.output_bias,
        "result": steps.result,
    }
    return {**body, "weight": steps.output_weight} if with_weight else body


def block_body(states: TokenStates) -> dict[str, Any]:
    """Returns the vectors of the token, from the input of the layer to its output."""
    embedding = {"token": states.token, "position": states.position, "sum": states.embedded}
    return {
        "embedding": embedding,
        "input": states.input,
        "attention": states.attention,
        "attended": states.attended,
        "feed_forward": states.feed_forward,
        "output": states.output,
    }


def shortest(value: np.float32) -> float:
    """Returns the shortest decimal number that rounds to `value` in float32."""
    return float(str(value))
