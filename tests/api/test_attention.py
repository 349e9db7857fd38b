"""POST /attention with the built-in models."""

import io
import json
from typing import Any

import httpx
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from model.tokenization.tokenizer import Tokenizer
from service.errors import RequestTooLargeError
from tests.api.conftest import ServeApart
from tests.api.servers import AnyServer, Server, assert_error

pytestmark = pytest.mark.checkpoint

CAT = "The cat sat on the mat."
LONG = "The unbelievably old cat slept quietly on the embroidered carpet of my grandmother. " * 3


def asking(text: str | list[str] = CAT, **fields: Any) -> dict[str, Any]:
    return {"text": text, "source": "en", "target": "pt", **fields}


def ask(server: AnyServer, text: str | list[str] = CAT, **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = server.reply("/attention", asking(text, **fields))
    return body


def item(server: AnyServer, text: str = CAT, **fields: Any) -> dict[str, Any]:
    (found,) = ask(server, text, **fields)["items"]
    assert isinstance(found, dict)
    return found


def data(found: dict[str, Any], kind: str = "cross") -> NDArray[np.float64]:
    (attention,) = [a for a in found["attentions"] if a["kind"] == kind]
    values = np.array(attention["data"])
    assert list(values.shape) == attention["shape"]
    return values


def tokenizer(server: AnyServer, side: str = "source") -> Tokenizer:
    found = getattr(server.catalog.models["en-pt"].vocabularies, side)
    assert isinstance(found, Tokenizer)
    return found


def test_a_text_alone_is_all_that_is_needed(float_server: Server) -> None:
    body = ask(float_server)
    assert body["model"] == "en-pt"
    (found,) = body["items"]
    source, target = found["source"], found["target"]
    assert source["ids"] == [*tokenizer(float_server).encode(CAT), 0]
    assert target["text"] == float_server.translate(CAT).json()["translatedText"]
    assert target["input_tokens"] == ["", *target["tokens"][:-1]]
    for side in (source, target):
        assert side["tokens"][-1] == "</s>"
        assert side["special"] == [False] * (len(side["tokens"]) - 1) + [True]
        assert side["offsets"][-1] == [len(side["text"])] * 2
        for token, (start, end) in zip(side["tokens"][:-1], side["offsets"][:-1], strict=True):
            assert side["text"][start:end] == token.strip("▁")
    (attention,) = found["attentions"]
    assert {name: attention[name] for name in ("kind", "layers", "heads", "reduce", "norm")} == {
        "kind": "cross",
        "layers": [1],
        "heads": "mean",
        "reduce": "mean_heads",
        "norm": "weights",
    }
    values = data(found)
    assert values.shape == (1, 1, len(target["tokens"]), len(source["tokens"]))
    np.testing.assert_allclose(values.sum(-1), 1.0, atol=1e-5)
    assert found["alignment"]["pharaoh"].startswith("0-0 1-1 2-2")
    assert body["usage"] == {
        "source_tokens": len(source["tokens"]),
        "target_tokens": len(target["tokens"]),
        "attention_values": values.size,
    }


def test_heads_and_layers_are_those_asked_for(float_server: Server) -> None:
    whole = item(float_server, kinds=["encoder", "cross"], layers="all", heads="all", reduce="none")
    encoder, cross = data(whole, "encoder"), data(whole)
    assert encoder.shape[:2] == (6, 8)
    assert cross.shape[:2] == (2, 8)
    assert [a["kind"] for a in whole["attentions"]] == ["encoder", "cross"]
    some = item(
        float_server, kinds=["cross", "encoder"], layers=[-1, 0], heads=[-2, 3], reduce="none"
    )
    assert [a["layers"] for a in some["attentions"]] == [[1, 0], [5, 0]]
    assert [a["heads"] for a in some["attentions"]] == [[6, 3], [6, 3]]
    np.testing.assert_allclose(data(some), cross[[1, 0]][:, [6, 3]], atol=1e-6)
    np.testing.assert_allclose(data(some, "encoder"), encoder[[5, 0]][:, [6, 3]], atol=1e-6)


@pytest.mark.parametrize("norm", ["alti", "value_zeroing"])
def test_contributions_share_out_the_output_of_a_layer(float_server: Server, norm: str) -> None:
    """Rows of self-attention sum to 1; those of ALTI's cross-attention leave the stream a share."""
    found = item(float_server, kinds=["encoder", "cross"], layers="all", norm=norm)
    encoder, cross = data(found, "encoder"), data(found, "cross")
    np.testing.assert_allclose(encoder.sum(-1), 1.0, atol=1e-5)
    totals = cross.sum(-1)
    assert totals.max() < 1.0 + 1e-5
    assert (totals.min() < 0.5) == (norm == "alti")
    assert [each["heads"] for each in found["attentions"]] == ["all", "all"]


def test_value_zeroing_is_limited(float_server: Server) -> None:
    texts = ["The cat sat on the mat and saw the dog and the bird and the cow. " * 4] * 20
    body = asking(texts, kinds=["encoder"], layers="all", norm="value_zeroing")
    refused = float_server.post("/attention", json=body)
    assert_error(refused, RequestTooLargeError, "value_zeroing computes a layer again for each of")


def test_given_translation_is_looked_at(float_server: Server) -> None:
    for given in ("O gato estava sentado.", "  The cat\tsat. ", "Кошка 🎉"):
        target = item(float_server, target_text=given)["target"]
        assert target["text"] == given
        assert target["ids"] == [*tokenizer(float_server, "target").encode(given), 0]


def test_own_translation_may_be_given_back(float_server: Server) -> None:
    own = item(float_server, kinds=["encoder", "cross"], reduce="none")
    given = item(
        float_server, kinds=["encoder", "cross"], reduce="none", target_text=own["target"]["text"]
    )
    assert given["target"] == own["target"]
    np.testing.assert_allclose(data(given), data(own), atol=1e-6)


def test_list_may_give_some_translations(float_server: Server) -> None:
    texts = [CAT, "It is cold.", "Good morning."]
    body = ask(float_server, texts, target_text=[None, "Faz frio.", None])
    targets = [each["target"]["text"] for each in body["items"]]
    own = float_server.translate([CAT, "Good morning."]).json()["translatedText"]
    assert targets == [own[0], "Faz frio.", own[1]]
    assert [each["source"]["text"] for each in body["items"]] == texts


def test_split_gives_an_item_for_each_sentence(float_server: Server) -> None:
    body = ask(float_server, ["It is cold. Very cold!\n\nYes.", " ", CAT], split=True)
    texts = [each["source"]["text"] for each in body["items"]]
    assert texts == ["It is cold.", "Very cold!", "Yes.", CAT]


def test_text_too_long_for_one_sequence_is_cut_with_split(float_server: Server) -> None:
    items = ask(float_server, "cat " * 300, split=True)["items"]
    assert len(items) > 2
    assert all(len(each["source"]["tokens"]) <= 128 for each in items)


def test_language_and_model_may_be_left_out(float_server: Server) -> None:
    expected = ask(float_server, "O gato dorme no sofá.", source="pt", target="en")
    for fields in (
        {"source": "auto", "target": "en"},
        {"source": None, "target": None, "model": "pt-en"},
        {"source": "auto", "target": "EN_us", "model": "pt-en"},
    ):
        assert ask(float_server, "O gato dorme no sofá.", **fields) == expected


def test_model_says_which_head_aligns_unless_told(float_server: Server) -> None:
    default = item(float_server)["alignment"]
    trained: dict[str, Any] = {"alignment_layer": -1, "alignment_head": 0, "alignment_shift": 0}
    assert item(float_server, **trained)["alignment"] == default
    moved = item(float_server, alignment_shift=1)["alignment"]
    assert moved["pharaoh"] != default["pharaoh"]
    rows = data(item(float_server, layers=[0]))[0, 0]
    mean = item(float_server, alignment_layer=0, alignment_head="mean", alignment_shift=0)
    words = mean["alignment"]["source_words"]
    row = np.array([rows[0, first:end].sum() for first, end in words])
    best, _, weight = mean["alignment"]["pairs"][0]
    assert (best, weight) == (row.argmax(), pytest.approx(row.max(), abs=1e-5))


@pytest.mark.parametrize("fields", [{}, {"top_k": 2}, {"level": "word", "reduce": "none"}])
@pytest.mark.parametrize("by", ["format", "accept"])
def test_arrays_are_the_same_in_binary(
    float_server: Server, fields: dict[str, Any], by: str
) -> None:
    texts = [CAT, "It is cold."]
    body = ask(float_server, texts, kinds=["encoder", "cross"], **fields)
    expected: dict[str, NDArray[Any]] = {}
    for number, found in enumerate(body["items"]):
        for attention in found["attentions"]:
            name = f"item{number}.{attention['kind']}"
            expected[name] = np.array(attention.pop("data"), np.float32)
            if "indices" in attention:
                expected[f"{name}.indices"] = np.array(attention.pop("indices"), np.int32)
    for name in ("npz", "safetensors"):
        request = asking(texts, kinds=["encoder", "cross"], **fields)
        headers = {"accept": f"application/x-{name}, */*;q=0.5"} if by == "accept" else {}
        request |= {"format": name} if by == "format" else {}
        response = float_server.post("/attention", json=request, headers=headers)
        assert response.headers["content-type"] == f"application/x-{name}"
        arrays, metadata = read_npz(response) if name == "npz" else read_safetensors(response)
        assert metadata == body
        assert arrays.keys() == expected.keys()
        for key, values in expected.items():
            assert arrays[key].dtype == values.dtype
            np.testing.assert_array_equal(arrays[key], values)


def read_npz(response: httpx.Response) -> tuple[dict[str, NDArray[Any]], Any]:
    with np.load(io.BytesIO(response.content)) as file:
        arrays = {name: file[name] for name in file.files}
    return arrays, json.loads(arrays.pop("metadata").tobytes())


def read_safetensors(response: httpx.Response) -> tuple[dict[str, NDArray[Any]], Any]:
    length = int.from_bytes(response.content[:8], "little")
    header = json.loads(response.content[8 : 8 + length])
    return safetensors.numpy.load(response.content), json.loads(header["__metadata__"]["regard"])


def test_bertviz_gets_its_arguments(float_server: Server) -> None:
    body = ask(float_server, format="bertviz")
    (found,) = body["items"]
    whole = item(float_server, layers="all", reduce="none")
    np.testing.assert_array_equal(np.array(found["cross_attention"])[:, 0], data(whole))
    assert found["encoder_attention"] is found["decoder_attention"] is None
    assert found["encoder_tokens"] == whole["source"]["tokens"]
    assert found["decoder_tokens"] == whole["target"]["tokens"]


def test_large_reply_comes_whole_in_chunks(float_server: Server) -> None:
    fields = {"kinds": ["encoder", "cross"], "layers": "all", "reduce": "none"}
    response = float_server.post("/attention", json=asking([LONG] * 2, **fields))
    assert "content-length" not in response.headers
    assert len(response.content) > 500_000
    body = response.json()
    binary = float_server.post("/attention", json=asking([LONG] * 2, **fields, format="npz"))
    arrays, _ = read_npz(binary)
    assert sum(values.size for values in arrays.values()) == body["usage"]["attention_values"]
    for number, found in enumerate(body["items"]):
        for kind in ("encoder", "cross"):
            values = data(found, kind).astype(np.float32)
            np.testing.assert_array_equal(values, arrays[f"item{number}.{kind}"])


def test_requests_are_counted_as_attention(serve_real: ServeApart, float_server: Server) -> None:
    server = serve_real(dtype="float32")
    ask(server, [CAT, "It is cold."])
    server.post("/attention", json=asking(""))
    server.post("/attention", json=asking([CAT, CAT], target="en"))
    ok = {"task": "attention", "model": "en-pt", "outcome": "ok"}
    invalid = {"task": "attention", "model": "none", "outcome": "invalid"}
    assert server.num_requests("ok", task="attention") == 1
    assert server.sample("regard_inputs_total", **ok) == 2
    assert server.num_requests("invalid", task="attention", model="none") == 2
    assert server.sample("regard_inputs_total", **invalid) == 2
    batches = {"task": "attention", "model": "en-pt", "phase": "attention"}
    assert server.sample("regard_batch_rows_sum", **batches) == 2
    for stage in ("validate", "tokenize", "queue", "device", "detokenize", "serialize"):
        labels = {"task": "attention", "model": "en-pt", "stage": stage}
        assert server.sample("regard_stage_duration_seconds_count", **labels) == 1
    assert server.num_requests("ok") == 0
    # The front ends answer the same.
    asked: list[dict[str, Any]] = [
        {},
        {"text": [CAT, "No."], "target_text": [None, "Não."], "top_k": 2},
    ]
    for fields in asked:
        assert ask(server, **fields) == ask(float_server, **fields)
    steps = asking(query=1, include=["vectors"])
    there, here = (s.post("/attention/steps", json=steps) for s in (server, float_server))
    assert there.json() == here.json()
    aligned = {"q": CAT, "source": "en", "target": "pt", "return_alignment": True}
    there, here = (s.post("/translate", json=aligned) for s in (server, float_server))
    assert there.json() == here.json()
