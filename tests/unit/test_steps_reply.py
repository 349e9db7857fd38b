"""The reply of /attention/steps, from made-up numbers."""

import json
from typing import Any

import numpy as np
import pytest

from model.inspection.query import AttentionKind, TraceQuery
from model.inspection.results import AttentionTrace, trace_attention
from model.tokenization.tokenizer import Tokenizer
from service.api.responses import json_chunks
from service.tasks.attention.replies import StepsResponse
from service.tasks.attention.requests import Include
from service.tasks.attention.results import InspectedText, steps_of
from tests.attention import sides

HEADS, SIZE = 2, 16


@pytest.fixture(scope="module")
def pair(tokenizer: Tokenizer) -> InspectedText:
    return InspectedText(*sides(tokenizer))


def traced(pair: InspectedText, kind: AttentionKind, query: int) -> AttentionTrace:
    """With as many keys as there are."""
    generator = np.random.default_rng(1)
    target = kind is AttentionKind.DECODER
    num_keys = query + 1 if target else len(pair.source.ids)

    def noise(*shape: int) -> Any:
        return generator.standard_normal(shape, dtype=np.float32)

    width = HEADS * SIZE
    return trace_attention(
        noise(HEADS, SIZE),
        noise(HEADS, num_keys, SIZE),
        noise(HEADS, num_keys, SIZE),
        1,
        noise(width, width),
        noise(width),
    )


def reply(
    pair: InspectedText, kind: AttentionKind, query: int, *include: Include
) -> dict[str, Any]:
    """Has the start token `<s>`."""
    trace, asked = traced(pair, kind, query), TraceQuery(kind, 0, 1, query)
    content = b"".join(json_chunks(steps_of("en-pt", pair, "<s>", asked, trace, include)))
    StepsResponse.model_validate_json(content)
    body: dict[str, Any] = json.loads(content)
    return body


def test_tokens_depend_on_the_kind(pair: InspectedText) -> None:
    assert pair.target is not None
    source, target = pair.source.pieces, pair.target.pieces
    inputs = ["<s>", *target[:-1]]
    encoder = reply(pair, AttentionKind.ENCODER, 1)
    assert encoder["query"] == {"index": 1, "token": source[1], "predicted": None}
    assert [row["token"] for row in encoder["rows"]] == source
    cross = reply(pair, AttentionKind.CROSS, 2)
    assert cross["query"] == {"index": 2, "token": inputs[2], "predicted": target[2]}
    assert [row["token"] for row in cross["rows"]] == source
    decoder = reply(pair, AttentionKind.DECODER, 2)
    assert decoder["query"] == {"index": 2, "token": inputs[2], "predicted": target[2]}
    assert [row["token"] for row in decoder["rows"]] == inputs[:3]
    assert decoder["target"]["input_tokens"] == inputs
    assert "input_tokens" not in decoder["source"]


def test_only_what_is_asked_for_is_there(pair: InspectedText) -> None:
    step = pair, AttentionKind.CROSS, 0
    assert {"vectors", "output"}.isdisjoint(reply(*step))
    assert "output" not in reply(*step, "vectors")
    assert "weight" not in reply(*step, "output")["output"]
