"""The response of /v1/embeddings, written in chunks."""

import binascii
from collections.abc import Iterator

import numpy as np
import orjson

from service.api.openai.schemas import EncodingFormat
from service.api.responses import gather
from service.tasks.embedding.embedder import EmbedUsage, Vectors


def embeddings_chunks(
    vectors: Vectors, model: str, usage: EmbedUsage, encoding: EncodingFormat
) -> Iterator[bytes]:
    """Returns the response of `/v1/embeddings` in chunks.

    `service.api.responses.json_response` sends the chunks.

    Args:
        vectors: One row for each input.
        model: Name of the model.
        usage: Numbers of tokens that the model read, and the inputs that were truncated.
        encoding: Encoding of a vector.
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
