"""Writes the replies of /attention in other formats: npz, safetensors, arguments of bertviz.

bertviz is a Python library that draws attention. All formats have float32 values; JSON has the
shortest decimal number that rounds to the float32, so a client can read the same bits.
"""

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray
from pydantic import BaseModel

from service.api.responses import given_fields, preferred
from service.tasks.attention.replies import (
    AttentionItemBody,
    AttentionResponse,
    BertvizItem,
    BertvizResponse,
)
from service.tasks.attention.requests import Format

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


def npz_bytes(reply: AttentionResponse) -> bytes:
    """Returns an npz file without pickles: the arrays by name, and the rest of a reply as bytes."""
    file = io.BytesIO()
    labels = np.frombuffer(_metadata(reply), dtype=np.uint8)
    np.savez(file, allow_pickle=False, metadata=labels, **_arrays(reply.items))
    return file.getvalue()


def safetensors_bytes(reply: AttentionResponse) -> bytes:
    """Returns a safetensors file: the arrays by name, and the metadata in `regard`."""
    header = {"regard": _metadata(reply).decode()}
    return safetensors.numpy.save(_arrays(reply.items), metadata=header)


def _arrays(items: Sequence[AttentionItemBody]) -> dict[str, NDArray[Any]]:
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


def _arrays_of(part: BaseModel, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    for key, value in given_fields(part).items():
        if isinstance(value, np.ndarray):
            yield f"{name}.{key}", value
        elif isinstance(value, BaseModel):
            yield from _arrays_of(value, f"{name}.{key}")


def _metadata(reply: AttentionResponse) -> bytes:
    return orjson.dumps(_without_arrays(reply))


def _without_arrays(value: Any) -> Any:
    if isinstance(value, BaseModel):
        fields = given_fields(value).items()
        return {n: _without_arrays(each) for n, each in fields if not isinstance(each, np.ndarray)}
    if isinstance(value, list) and value and isinstance(value[0], BaseModel):
        return [_without_arrays(each) for each in value]
    return value


def bertviz_reply(items: Sequence[AttentionItemBody]) -> BertvizResponse:
    return BertvizResponse(items=[_bertviz_item(item) for item in items])


def _bertviz_item(item: AttentionItemBody) -> BertvizItem:
    data = {attention.kind.value: attention.data[:, None] for attention in item.attentions}
    written = None
    if item.target is not None:
        written = item.target.input_tokens if "decoder" in data else item.target.tokens
    return BertvizItem(
        encoder_attention=data.get("encoder"),
        decoder_attention=data.get("decoder"),
        cross_attention=data.get("cross"),
        encoder_tokens=item.source.tokens,
        decoder_tokens=written,
    )
