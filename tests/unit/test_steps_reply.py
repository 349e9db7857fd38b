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
from service.tasks.attention.results import SHOWN_VALUES, InspectedText, steps_of
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


def test_numbers_are_those_of_the_steps(pair: InspectedText) -> None:
    body = reply(pair, AttentionKind.CROSS, 2, "vectors", "output", "output_weight")
    steps = traced(pair, AttentionKind.CROSS, 2)
    assert (body["model"], body["head_dim"], body["scale"]) == ("en-pt", SIZE, 0.25)
    for name, values in (("score", steps.scores), ("scaled", steps.scaled)):
        written = np.array([row[name] for row in body["rows"]], np.float32)
        np.testing.assert_array_equal(written, values)
    for row, weight, weighted in zip(body["rows"], steps.weights, steps.weighted, strict=True):
        assert np.float32(row["weight"]) == weight
        assert row["value_norm"] == pytest.approx(np.linalg.norm(weighted), rel=1e-6)
        np.testing.assert_array_equal(np.array(row["value"], np.float32), weighted[:SHOWN_VALUES])
    vectors = {"q": steps.query, "k": steps.key, "v": steps.value}
    output = {
        "concatenated": steps.concatenated,
        "bias": steps.output_bias,
        "result": steps.result,
        "weight": steps.output_weight,
    }
    for part, expected in ((body["vectors"], vectors), (body["output"], output)):
        assert part.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_array_equal(np.array(part[name], np.float32), values)


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
