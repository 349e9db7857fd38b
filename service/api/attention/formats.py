"""Formats of attention: JSON, npz, safetensors, and the arguments of bertviz.

bertviz is a Python library that draws attention.

Attention values, log-probabilities and entropies are float32 in all formats. JSON has the shortest
decimal number that rounds to the float32. A client that reads the decimal number as float32 gets
the same bits.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray

from service.api.attention.labels_body import labels_body
from service.api.attention.schemas import Format
from service.api.responses import preferred
from service.tasks.attention.labels import Labels
from service.tasks.attention.probabilities import Probabilities
from service.tasks.attention.results import (
    Attention,
    PairAttention,
    SequenceAttention,
    TextAttention,
)

MEDIA_TYPES: dict[Format, str] = {
    "json": "application/json",
    "npz": "application/x-npz",
    "safetensors": "application/x-safetensors",
    "bertviz": "application/json",
}


def choose_format(wanted: Format | None, accept: str) -> Format:
    """Returns the format that a request names in its body, or prefers in its Accept header.

    Args:
        wanted: Format in the body, or None.
        accept: Accept header; unknown media types in it are ignored.
    """
    if wanted is not None:
        return wanted
    binary: dict[str, Format] = {MEDIA_TYPES[name]: name for name in ("npz", "safetensors")}
    return binary.get(preferred(accept, binary), "json")


def json_body(
    model: str, items: Sequence[SequenceAttention], decimals: int | None
) -> dict[str, Any]:
    """Returns the response body, with NumPy arrays that `json_chunks` writes as JSON.

    Args:
        model: Name of the model.
        items: One item for each text or, if the texts are split, for each sentence.
        decimals: Number of decimals of the alignment weights and of the detachment score. None
            leaves both unrounded.
    """
    return {
        "model": model,
        "items": [_item_body(item, decimals) for item in items],
        "usage": {
            "source_tokens": sum(_num_tokens(item.source) for item in items),
            "target_tokens": sum(
                _num_tokens(item.target) for item in items if isinstance(item, PairAttention)
            ),
            "attention_values": sum(a.data.size for item in items for a in item.attentions),
        },
    }


def _num_tokens(labels: Labels) -> int:
    return sum(len(ids) if isinstance(ids, list) else 1 for ids in labels.ids)


def _item_body(item: SequenceAttention, decimals: int | None) -> dict[str, Any]:
    source = labels_body(item.source)
    attentions = [_attention_body(attention) for attention in item.attentions]
    if isinstance(item, TextAttention):
        return {"source": source, "attentions": attentions}
    alignment = item.alignment
    pairs = alignment.pairs
    if decimals is not None:
        pairs = [(source, target, round(weight, decimals)) for source, target, weight in pairs]
    others: dict[str, Any] = {}
    if item.detachment is not None:
        score = item.detachment
        others["detachment"] = score if decimals is None else round(score, decimals)
    if item.probabilities is not None:
        others["probabilities"] = probabilities_body(item.probabilities)
    return {
        "source": source,
        "target": labels_body(item.target),
        "attentions": attentions,
        "alignment": {
            "source_words": alignment.source_words,
            "target_words": alignment.target_words,
            "pairs": pairs,
            "pharaoh": alignment.pharaoh,
        },
        **others,
    }


def probabilities_body(probabilities: Probabilities) -> dict[str, Any]:
    """Returns the probabilities of a translation. JSON has null in place of minus infinity."""
    found = probabilities.found
    return {
        "num_candidates": found.num_candidates,
        "log_probs": found.log_probs,
        "ranks": found.ranks,
        "entropies": found.entropies,
        "is_candidate": found.is_candidate,
        "likeliest": {
            "tokens": probabilities.likeliest,
            "ids": found.likeliest,
            "log_probs": found.likeliest_log_probs,
        },
        "named": {
            "tokens": probabilities.named,
            "ids": probabilities.named_ids,
            "is_candidate": found.is_named_candidate,
            "log_probs": found.named_log_probs,
            "ranks": found.named_ranks,
        },
    }


def _attention_body(attention: Attention) -> dict[str, Any]:
    body = {
        "kind": attention.kind,
        "layers": attention.layers,
        "heads": attention.heads,
        "reduce": attention.reduce,
        "norm": attention.norm,
        "shape": attention.data.shape,
        "data": attention.data,
    }
    return body if attention.indices is None else {**body, "indices": attention.indices}


def arrays(items: Sequence[SequenceAttention]) -> dict[str, NDArray[Any]]:
    """Returns the arrays of all items by name.

    An example of a name is `item0.cross`. If the request has `top_k`, there is also
    `item0.cross.indices`. If the request has `probabilities`, there is also
    `item0.probabilities.likeliest.ids`.
    """
    named: dict[str, NDArray[Any]] = {}
    for number, item in enumerate(items):
        for attention in item.attentions:
            name = f"item{number}.{attention.kind}"
            named[name] = attention.data
            if attention.indices is not None:
                named[f"{name}.indices"] = attention.indices
        if isinstance(item, PairAttention) and item.probabilities is not None:
            body = probabilities_body(item.probabilities)
            named.update(dict(_arrays_of(body, f"item{number}.probabilities")))
    return named


def _arrays_of(body: Mapping[str, Any], name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields the arrays in a body, with their names."""
    for key, value in body.items():
        if isinstance(value, np.ndarray):
            yield f"{name}.{key}", value
        elif isinstance(value, Mapping):
            yield from _arrays_of(value, f"{name}.{key}")


def metadata(body: Mapping[str, Any]) -> bytes:
    """Returns the JSON of a body without its arrays."""
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


def npz_bytes(body: Mapping[str, Any], items: Sequence[SequenceAttention]) -> bytes:
    """Returns an npz file without pickles: the arrays by name, and `metadata` as bytes.

    Args:
        body: Result of `json_body` for these items.
        items: One item for each text or, if the texts are split, for each sentence.
    """
    file = io.BytesIO()
    labels = np.frombuffer(metadata(body), dtype=np.uint8)
    np.savez(file, allow_pickle=False, metadata=labels, **arrays(items))
    return file.getvalue()


def safetensors_bytes(body: Mapping[str, Any], items: Sequence[SequenceAttention]) -> bytes:
    """Returns a safetensors file: the arrays by name.

    The field `regard` of its header has the result of `metadata`.
    """
    header = {"regard": metadata(body).decode()}
    return safetensors.numpy.save(arrays(items), metadata=header)


def bertviz_body(items: Sequence[SequenceAttention]) -> dict[str, Any]:
    """Returns the keyword arguments of bertviz' `head_view` and `model_view` for each item.

    These functions take tensors, so the client must convert each layer with `torch.tensor`. A layer
    has the shape (1, heads, rows, columns). bertviz accepts only one list of tokens for the
    decoder. If self-attention of the decoder was requested, the list contains the decoder's input
    tokens. Otherwise the list contains the predicted tokens.
    """
    return {"items": [_bertviz_item(item) for item in items]}


def _bertviz_item(item: SequenceAttention) -> dict[str, Any]:
    data = {attention.kind: attention.data[:, None] for attention in item.attentions}
    written = None
    if isinstance(item, PairAttention):
        written = item.target.input_tokens if "decoder" in data else item.target.tokens
    return {
        "encoder_attention": data.get("encoder"),
        "decoder_attention": data.get("decoder"),
        "cross_attention": data.get("cross"),
        "encoder_tokens": item.source.tokens,
        "decoder_tokens": written,
    }
