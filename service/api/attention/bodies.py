"""Builds the bodies of responses about attention: JSON, npz, safetensors, arguments of bertviz.

`json_chunks` writes the NumPy arrays of the bodies. bertviz is a Python library that draws
attention. All formats have float32 values; JSON has the shortest decimal number that rounds to the
float32, so a client can read the same bits.
"""

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray

from model.inspection.query import AttentionKind
from model.inspection.results import AttentionTrace
from service.api.responses import preferred
from service.tasks.alignment.alignment import word_spans
from service.tasks.attention.requests import Format, Include
from service.tasks.attention.results import (
    Attention,
    Labels,
    SequenceAttention,
    TraceResult,
    token_labels,
    with_inputs,
)
from service.tasks.knockouts import KnockoutEffect, KnockoutResult

MEDIA_TYPES: dict[Format, str] = {
    "json": "application/json",
    "npz": "application/x-npz",
    "safetensors": "application/x-safetensors",
    "bertviz": "application/json",
}


def choose_format(wanted: Format | None, accept: str) -> Format:
    if wanted is not None:
        return wanted
    binary: dict[str, Format] = {MEDIA_TYPES[name]: name for name in ("npz", "safetensors")}
    return binary.get(preferred(accept, binary), "json")


def npz_bytes(body: Mapping[str, Any], items: Sequence[SequenceAttention]) -> bytes:
    """Returns an npz file without pickles: the arrays by name, and the rest of a body as bytes."""
    file = io.BytesIO()
    labels = np.frombuffer(_metadata(body), dtype=np.uint8)
    np.savez(file, allow_pickle=False, metadata=labels, **_arrays(items))
    return file.getvalue()


def safetensors_bytes(body: Mapping[str, Any], items: Sequence[SequenceAttention]) -> bytes:
    """Returns a safetensors file: the arrays by name, and the metadata in `regard`."""
    header = {"regard": _metadata(body).decode()}
    return safetensors.numpy.save(_arrays(items), metadata=header)


def _arrays(items: Sequence[SequenceAttention]) -> dict[str, NDArray[Any]]:
    named: dict[str, NDArray[Any]] = {}
    for number, item in enumerate(items):
        for attention in item.attentions:
            name = f"item{number}.{attention.kind}"
            named[name] = attention.data
            if attention.indices is not None:
                named[f"{name}.indices"] = attention.indices
        if item.probabilities is not None:
            named.update(_arrays_of(item.probabilities, f"item{number}.probabilities"))
    return named


def _arrays_of(body: Mapping[str, Any], name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    for key, value in body.items():
        if isinstance(value, np.ndarray):
            yield f"{name}.{key}", value
        elif isinstance(value, Mapping):
            yield from _arrays_of(value, f"{name}.{key}")


def _metadata(body: Mapping[str, Any]) -> bytes:
    return orjson.dumps(_without_arrays(body))


def _without_arrays(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _without_arrays(member)
            for name, member in value.items()
            if not isinstance(member, np.ndarray)
        }
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return [_without_arrays(each) for each in value]
    return value


def bertviz_body(items: Sequence[SequenceAttention]) -> dict[str, Any]:
    return {"items": [_bertviz_item(item) for item in items]}


def _bertviz_item(item: SequenceAttention) -> dict[str, Any]:
    data = {attention.kind.value: attention.data[:, None] for attention in item.attentions}
    written = None
    if item.target is not None:
        written = item.target.input_tokens if "decoder" in data else item.target.tokens
    return {
        "encoder_attention": data.get("encoder"),
        "decoder_attention": data.get("decoder"),
        "cross_attention": data.get("cross"),
        "encoder_tokens": item.source.tokens,
        "decoder_tokens": written,
    }


SHOWN_VALUES = 8
"""Number of leading values of weight × v that each row of a steps response contains."""


def json_body(
    model: str, items: Sequence[SequenceAttention], decimals: int | None
) -> dict[str, Any]:
    """Returns the body of /attention. Alignment weights and detachment scores have `decimals`."""
    return {
        "model": model,
        "items": [_item_body(item, decimals) for item in items],
        "usage": {
            "source_tokens": sum(_num_tokens(item.source) for item in items),
            "target_tokens": sum(_num_tokens(item.target) for item in items if item.target),
            "attention_values": sum(a.data.size for item in items for a in item.attentions),
        },
    }


def _num_tokens(labels: Labels) -> int:
    return sum(len(ids) if isinstance(ids, list) else 1 for ids in labels.ids)


def _item_body(item: SequenceAttention, decimals: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {"source": item.source}
    if item.target is not None:
        body["target"] = item.target
    body["attentions"] = list(map(_attention_body, item.attentions))
    if item.alignment is not None:
        pairs = item.alignment.pairs
        if decimals is not None:
            pairs = [(source, target, round(weight, decimals)) for source, target, weight in pairs]
        body["alignment"] = replace(item.alignment, pairs=pairs)
    if item.detachment is not None:
        score = item.detachment
        body["detachment"] = score if decimals is None else round(score, decimals)
    if item.probabilities is not None:
        body["probabilities"] = item.probabilities
    return body


def _attention_body(attention: Attention) -> dict[str, Any]:
    body = {
        "kind": attention.kind.value,
        "layers": list(attention.query.layers[attention.kind]),
        "heads": attention.heads,
        "reduce": attention.query.reduce.value,
        "norm": attention.query.norm.value,
        "shape": attention.data.shape,
        "data": attention.data,
    }
    return body if attention.indices is None else {**body, "indices": attention.indices}


def steps_body(found: TraceResult, include: Collection[Include]) -> dict[str, Any]:
    source = token_labels(found.source)
    target = None
    if found.target is not None:
        target = with_inputs(token_labels(found.target), found.start)
    query, steps = found.query, found.trace
    inputs = [] if target is None else target.input_tokens
    is_encoder = query.kind is AttentionKind.ENCODER
    attended = inputs if query.kind is AttentionKind.DECODER else source.tokens
    body: dict[str, Any] = {
        "model": found.model,
        "kind": query.kind.value,
        "layer": query.layer,
        "head": query.head,
        "head_dim": len(steps.query),
        "scale": steps.scale,
        "source": source,
        **({} if target is None else {"target": target}),
        "query": {
            "index": query.query,
            "token": (source.tokens if is_encoder else inputs)[query.query],
            "predicted": None if target is None or is_encoder else target.tokens[query.query],
        },
        "rows": _rows(steps, attended),
        "z": steps.z,
    }
    if "vectors" in include:
        body["vectors"] = {"q": steps.query, "k": steps.key, "v": steps.value}
    if "output" in include or "output_weight" in include:
        body["output"] = {
            "concatenated": steps.concatenated,
            "bias": steps.output_bias,
            "result": steps.result,
        }
    if "output_weight" in include:
        body["output"]["weight"] = steps.output_weight
    if (states := steps.states) is not None:
        body["block"] = {
            "embedding": {
                "token": states.token,
                "position": states.position,
                "sum": states.embedded,
            },
            "input": states.input,
            "attention": states.attention,
            "attended": states.attended,
            "feed_forward": states.feed_forward,
            "output": states.output,
        }
    return body


def _rows(steps: AttentionTrace, tokens: list[str]) -> list[dict[str, Any]]:
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


def shortest(value: np.float32) -> float:
    """Returns the shortest decimal number that rounds to `value` in float32."""
    return float(str(value))


def knockout_body(result: KnockoutResult) -> dict[str, Any]:
    return {
        "model": result.model,
        "source": token_labels(result.source),
        "source_words": word_spans(result.source),
        "target": with_inputs(token_labels(result.target), result.start),
        "log_probs": result.log_probs,
        "knockouts": [_effect_body(effect, result) for effect in result.effects],
    }


def _effect_body(effect: KnockoutEffect, result: KnockoutResult) -> dict[str, Any]:
    with np.errstate(invalid="ignore"):  # -inf - (-inf) is NaN, which is null in JSON
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
