"""Formats of attention: JSON, npz, safetensors, and the arguments of bertviz.

bertviz is a Python library that draws attention. All formats have float32 values; JSON has the
shortest decimal number that rounds to the float32, so a client can read the same bits.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray

from service.api.attention.bodies import probabilities_body
from service.api.responses import preferred
from service.tasks.attention.requests import Format
from service.tasks.attention.results import SequenceAttention

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
            body = probabilities_body(item.probabilities)
            named.update(dict(_arrays_of(body, f"item{number}.probabilities")))
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
    """Returns the keyword arguments of bertviz' `head_view` and `model_view` for each item."""
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
