"""How embeddings are written: OpenAI's reply, cosines, and the headers that tell of the work.

TEI's replies are nothing but arrays: `json_chunks` writes them. Numbers are float32 everywhere; in
JSON each is the shortest decimal number that reads as that float32, so that floats and base64 are
the same vectors to the bit.
"""

import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from service.api.json_chunks import gather
from service.api.tei.schemas import EncodingFormat

Vectors = NDArray[np.float32]

TRUNCATED_HEADER = "X-Truncated-Inputs"


@dataclass(frozen=True, slots=True)
class EmbedUsage:
    """What a request for embeddings made a model read.

    Attributes:
        num_chars: Of all texts, as they were sent; an id counts as one.
        num_tokens: Of each input as the model read it: cut, special tokens and prompt included.
        truncated: Which inputs were cut.
        device: Where it was computed: `cpu`, or `cuda:N`.
    """

    num_chars: int
    num_tokens: Sequence[int]
    truncated: Sequence[int]
    device: str


def embeddings_chunks(
    vectors: Vectors, model: str, usage: EmbedUsage, encoding: EncodingFormat
) -> Iterator[bytes]:
    """The reply of `/v1/embeddings`, in chunks for `json_response`.

    Args:
        vectors: (n, D), one for each input.
        model: Name of the model.
        usage: Of these inputs.
        encoding: How a vector is written.
    """
    return gather(_embeddings_parts(vectors, model, usage, encoding))


def _embeddings_parts(
    vectors: Vectors, model: str, usage: EmbedUsage, encoding: EncodingFormat
) -> Iterator[bytes]:
    write = _as_base64 if encoding == "base64" else _as_floats
    truncated = set(usage.truncated)
    yield b'{"object":"list","data":['
    mark = b""
    for index, vector in enumerate(vectors):
        yield mark + b'{"object":"embedding","index":%d,"embedding":' % index + write(vector)
        yield b',"truncated":true}' if index in truncated else b"}"
        mark = b","
    num_tokens = sum(usage.num_tokens)
    tokens = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    yield b'],"model":' + orjson.dumps(model) + b',"usage":' + orjson.dumps(tokens) + b"}"


def _as_floats(vector: Vectors) -> bytes:
    values = np.ascontiguousarray(vector, dtype=np.float32)
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def _as_base64(vector: Vectors) -> bytes:
    values = np.ascontiguousarray(vector, dtype="<f4")
    return b'"' + binascii.b2a_base64(values.data, newline=False) + b'"'


def cosines(vectors: Vectors) -> Vectors:
    """The reply of `/similarity`: how alike the first vector is to each of the others, (n - 1,).

    Each is computed by itself, so that it does not depend on the other sentences. A vector of
    zeros is like none: 0.

    Args:
        vectors: (n, D), of any length.
    """
    products = np.einsum("nd,d->n", vectors[1:], vectors[0])
    squares = np.einsum("nd,nd->n", vectors, vectors)
    lengths = np.sqrt(squares[1:]) * np.sqrt(squares[0])
    alike = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    clipped: Vectors = np.clip(alike, -1, 1)  # rounding may leave 1.0000001
    return clipped


def compute_headers(
    usage: EmbedUsage, stages: Mapping[str, float], total_seconds: float
) -> dict[str, str]:
    """TEI's headers, times in whole milliseconds, and how many inputs were cut.

    Args:
        usage: What was read.
        stages: Seconds by stage, as in a RequestContext.
        total_seconds: From the first byte to now; TEI tells it under two names.

    Source: router/src/lib.rs of TEI, `From<ResponseMetadata> for HeaderMap`. It calls every device
        `gpu+optimized`; here the type is `cpu` or `gpu`.
    """
    seconds = {
        "x-compute-time": total_seconds,
        "x-total-time": total_seconds,
        "x-tokenization-time": stages.get("tokenize", 0.0),
        "x-queue-time": stages.get("queue", 0.0),
        "x-inference-time": stages.get("device", 0.0),
    }
    return {
        "x-compute-type": "cpu" if usage.device == "cpu" else "gpu",
        "x-compute-characters": str(usage.num_chars),
        "x-compute-tokens": str(sum(usage.num_tokens)),
        **{name: str(int(1000 * value)) for name, value in seconds.items()},
        TRUNCATED_HEADER: str(len(usage.truncated)),
    }
