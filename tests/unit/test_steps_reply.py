"""The reply of /attention/steps, from made-up numbers."""

import json
from typing import Any

import numpy as np
import pytest

from model.inspection.query import AttentionKind, TraceQuery
from model.inspection.results import trace_attention
from model.tokenization.tokenizer import Tokenizer
from service.api.attention.bodies import SHOWN_VALUES, steps_body
from service.api.attention.response_schemas import StepsResponse
from service.api.responses import json_chunks
from service.tasks.alignment.aligner import TranslatedPair
from service.tasks.attention.requests import Include
from service.tasks.attention.results import TraceResult
from tests.attention import sides

HEADS, SIZE = 2, 16


@pytest.fixture(scope="module")
def pair(tokenizer: Tokenizer) -> TranslatedPair:
    return TranslatedPair("en-pt", *sides(tokenizer), None)


def found(pair: TranslatedPair, kind: AttentionKind, query: int) -> TraceResult:
    """With a start token, and as many keys as there are."""
    generator = np.random.default_rng(1)
    target = kind is AttentionKind.DECODER
    num_keys = query + 1 if target else len(pair.source.ids)

    def noise(*shape: int) -> Any:
        return generator.standard_normal(shape, dtype=np.float32)

    width = HEADS * SIZE
    steps = trace_attention(
        noise(HEADS, SIZE),
        noise(HEADS, num_keys, SIZE),
        noise(HEADS, num_keys, SIZE),
        1,
        noise(width, width),
        noise(width),
    )
    asked = TraceQuery(kind, 0, 1, query)
    return TraceResult("en-pt", asked, pair.source, pair.target, "<s>", steps)


def reply(stepped: TraceResult, *include: Include) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(b"".join(json_chunks(steps_body(stepped, include))))
    StepsResponse.model_validate(body)
    return body


def test_numbers_are_those_of_the_steps(pair: TranslatedPair) -> None:
    stepped = found(pair, AttentionKind.CROSS, 2)
    body = reply(stepped, "vectors", "output", "output_weight")
    steps = stepped.trace
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


def test_tokens_depend_on_the_kind(pair: TranslatedPair) -> None:
    source, target = pair.source.pieces, pair.target.pieces
    inputs = ["<s>", *target[:-1]]
    encoder = reply(found(pair, AttentionKind.ENCODER, 1))
    assert encoder["query"] == {"index": 1, "token": source[1], "predicted": None}
    assert [row["token"] for row in encoder["rows"]] == source
    cross = reply(found(pair, AttentionKind.CROSS, 2))
    assert cross["query"] == {"index": 2, "token": inputs[2], "predicted": target[2]}
    assert [row["token"] for row in cross["rows"]] == source
    decoder = reply(found(pair, AttentionKind.DECODER, 2))
    assert decoder["query"] == {"index": 2, "token": inputs[2], "predicted": target[2]}
    assert [row["token"] for row in decoder["rows"]] == inputs[:3]
    assert decoder["target"]["input_tokens"] == inputs
    assert "input_tokens" not in decoder["source"]


def test_only_what_is_asked_for_is_there(pair: TranslatedPair) -> None:
    stepped = found(pair, AttentionKind.CROSS, 0)
    assert {"vectors", "output"}.isdisjoint(reply(stepped))
    assert "output" not in reply(stepped, "vectors")
    assert "weight" not in reply(stepped, "output")["output"]
