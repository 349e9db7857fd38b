"""JSON and the arguments of bertviz; tests/api/test_attention.py reads npz and safetensors."""

import json
from typing import Any

import bertviz
import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from pydantic import BaseModel

from model.tokenization.tokenizer import Tokenizer
from service.api.attention.bodies import bertviz_reply, choose_format
from service.api.responses import json_chunks
from service.tasks.attention.replies import (
    AttentionItemBody,
    AttentionResponse,
    AttentionUsage,
    BertvizResponse,
)
from service.tasks.attention.requests import Format
from tests.attention import made_up_item


@pytest.fixture(scope="module")
def items(tokenizer: Tokenizer) -> list[AttentionItemBody]:
    """Two, the second cut to the largest values."""
    return [
        made_up_item(tokenizer, ("encoder", "cross"), layers=2),
        made_up_item(tokenizer, ("encoder", "cross"), layers=1, top_k=2, level="word"),
    ]


def written(body: BaseModel | dict[str, Any]) -> bytes:
    return b"".join(json_chunks(body))


def reply_of(items: list[AttentionItemBody]) -> AttentionResponse:
    usage = AttentionUsage(source_tokens=0, target_tokens=0, attention_values=0)
    return AttentionResponse(model="en-pt", items=items, usage=usage)


def test_json_is_the_reply_that_the_schema_describes(items: list[AttentionItemBody]) -> None:
    content = written(reply_of(items))
    reply = json.loads(content)
    described = AttentionResponse.model_validate_json(content)
    assert described.model_dump(mode="json", exclude_unset=True) == reply
    first, second = reply["items"]
    assert list(first) == ["source", "target", "attentions", "alignment"]
    assert "input_tokens" not in first["source"]
    assert [a["kind"] for a in first["attentions"]] == ["encoder", "cross"]
    assert "indices" not in first["attentions"][0]
    assert second["attentions"][0]["shape"] == list(items[1].attentions[0].data.shape)
    assert items[0].alignment is not None
    assert first["alignment"]["pharaoh"] == items[0].alignment.pharaoh


@given(bits=st.lists(st.integers(0, 0x7F7FFFFF), min_size=1))
@example(bits=[1, 0x00800000, 0x7F7FFFFF, 0x3DCCCCCD, 0x3F7FFFFF])
def test_any_float32_is_read_back(bits: list[int]) -> None:
    values = np.array(bits, dtype=np.uint32).view(np.float32)
    found = np.array(json.loads(written({"data": values}))["data"], dtype=np.float32)
    assert_array_equal(found.view(np.uint32), np.array(bits, dtype=np.uint32))


def bertviz_arguments(item: AttentionItemBody) -> dict[str, Any]:
    """What a client does with the reply."""
    content = written(bertviz_reply([item]))
    reply = json.loads(content)
    assert BertvizResponse.model_validate_json(content).model_dump(mode="json") == reply
    (arguments,) = reply["items"]
    for name in ("encoder_attention", "decoder_attention", "cross_attention"):
        if arguments[name] is not None:
            arguments[name] = [torch.tensor(layer) for layer in arguments[name]]
    return dict(arguments)


@pytest.mark.filterwarnings(
    "ignore:unclosed file:ResourceWarning"
)  # bertviz never closes its script
@pytest.mark.parametrize("level", ["token", "word"])
@pytest.mark.parametrize(
    "kinds", [("encoder",), ("cross",), ("encoder", "cross"), ("encoder", "decoder", "cross")]
)
@pytest.mark.parametrize("view", [bertviz.head_view, bertviz.model_view])
def test_bertviz_renders(tokenizer: Tokenizer, view: Any, kinds: Any, level: str) -> None:
    item = made_up_item(tokenizer, kinds, level=level)
    if kinds == ("encoder",):  # a text that is embedded
        item = item.model_copy(update={"target": None})
    html = view(**bertviz_arguments(item), html_action="return").data
    start = html.index("const params = ") + len("const params = ")
    params, _ = json.JSONDecoder().raw_decode(html, start)
    assert [shown["name"].lower() for shown in params["attention"]] == list(kinds)
    for shown, attention in zip(params["attention"], item.attentions, strict=True):
        assert_array_equal(np.array(shown["attn"], dtype=np.float32), attention.data)
    last = params["attention"][-1]
    assert last["right_text"] == [t.replace("\u2581", " ") for t in item.source.tokens]
    rows: list[str] | None = item.source.tokens
    if item.target:
        rows = item.target.input_tokens if "decoder" in kinds else item.target.tokens
    assert rows is not None
    assert last["left_text"] == [t.replace("\u2581", " ") for t in rows]


@pytest.mark.parametrize(
    ("wanted", "accept", "expected"),
    [
        (None, "", "json"),
        (None, "*/*", "json"),
        (None, "text/html", "json"),
        (None, "application/octet-stream", "json"),
        (None, "application/x-npz", "npz"),
        (None, "Application/X-SafeTensors; q=1", "safetensors"),
        (None, "application/x-npz;q=0.5, application/json", "json"),
        (None, "application/x-npz, application/json", "npz"),
        (None, "application/json, application/x-npz", "json"),
        (None, "*/*;q=0.1, application/x-npz;q=0.2", "npz"),
        (None, "application/x-npz;q=0", "json"),
        (None, "application/x-npz;q=high, */*", "json"),
        ("json", "application/x-npz", "json"),
        ("bertviz", "application/x-npz", "bertviz"),
        ("npz", "application/json", "npz"),
    ],
)
def test_format_is_that_of_the_field_or_of_the_header(
    wanted: Format | None, accept: str, expected: Format
) -> None:
    assert choose_format(wanted, accept) == expected
