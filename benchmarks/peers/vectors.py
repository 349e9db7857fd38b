"""Converts vectors to text and back, for the peers' protocol."""

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack(vectors: Iterable[Any]) -> list[str]:
    return [base64.b64encode(np.asarray(v, np.float32).tobytes()).decode() for v in vectors]


def unpack(packed: Iterable[str]) -> NDArray[np.float64]:
    """Decodes packed vectors and scales each to length 1; returns them as (B, E)."""
    rows = [np.frombuffer(base64.b64decode(text), np.float32) for text in packed]
    vectors = np.stack(rows).astype(np.float64)
    normalized: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return normalized
